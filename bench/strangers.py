"""Files that a stranger may send, changed by their structure: each gives a result or one clear sentence, in bounded time and memory.

    python bench/strangers.py [-n 600] [--first 0] [--kinds onnx,artifact,text,bank,json,csv] [--jobs 2] [--keep DIR]

fuzz.py flips bytes, and edits models by hand-written rules. This program decodes a file, changes its contents field by field, and encodes
it again. It changes fields of protobuf messages by their declared types, values of JSON by their types, cells of SQL and CSV, tokens of
texts, and entries of artifacts. So most changed files still parse, and reach the code behind the parsers. Number i decides the kind, the
seed file, the changes and the command. Each command runs in a process of its own within the limits of fuzz.py. The exit code is 1 where one
ended by a signal, with a traceback or an internal fault, with more than a sentence, or beyond the limits.
"""
from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import fuzz  # noqa: E402
import numpy as np  # noqa: E402
import strangers_seeds as seeds  # noqa: E402
from strangers_changes import CHANGES  # noqa: E402

from aoec import cli  # noqa: E402

GOOD = ("done", "refused")
LONGEST = 2000  # characters of a refusal, which may list a model's operators


# ---------------------------------------------------------------- one file

@dataclass(frozen=True)
class Outcome:
    """What became of a changed file; `status` is one of GOOD, or what is wrong: fault, long, hang, memory, died."""

    number: int
    seed: str
    command: str
    status: str
    said: str
    seconds: float
    memory_bytes: int


def called(words: list[str], folder: Path) -> dict[str, str]:
    """Run a command here, with its standard streams in files, and return its outcome."""
    os.chdir(folder)
    said = folder / "said"
    handle = os.open(said, os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(handle, 2)
    os.dup2(os.open(folder / "out", os.O_WRONLY | os.O_CREAT, 0o600), 1)
    sys.stdout, sys.stderr = (open(n, "w", encoding="utf-8", errors="backslashreplace", closefd=False) for n in (1, 2))  # noqa: SIM115
    code = cli.main(words)
    sys.stdout.flush()
    sys.stderr.flush()
    text = said.read_text("utf-8", "replace")
    errors = [line for line in text.splitlines() if line.startswith("aoec: ")]
    if code not in (0, 1, 2) or "Traceback" in text or "internal fault" in text:
        return {"status": "fault", "said": text[-4000:]}
    if code == 2 and (not errors or len(errors[-1]) > LONGEST):
        return {"status": "long", "said": text[-4000:]}
    return {"status": "refused" if code == 2 else "done", "said": errors[-1] if errors else ""}


def outcome(number_: int, kind: str, made: seeds.Seeds, keep: Path | None = None) -> Outcome:
    """Return the outcome of the file of that number and kind."""
    random = np.random.default_rng([number_, *kind.encode()])
    seed = made.of(kind)[int(random.integers(len(made.of(kind))))]
    data = CHANGES[kind](seed.data, random)
    command = list(seed.commands[int(random.integers(len(seed.commands)))])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / seed.name
        file.write_bytes(data)
        if seed.arrays:
            file.with_name(file.name + ".npz").write_bytes(seed.arrays)
        words = [w.format(file=file, folder=folder, seeds=made.folder) for w in command]
        work = partial(called, words, folder) if words != ["onnx"] else partial(_model, folder, number_)
        said, seconds, size_bytes = fuzz.guarded(work, folder / "result.json")
    status = said["status"] if words != ["onnx"] else "done" if said["status"] == "ran" else said["status"]
    if keep and status not in GOOD:
        (keep / f"{kind}_{number_}_{seed.name}").write_bytes(data)
    return Outcome(number_, seed.name, " ".join(command), status, said.get("said", ""), seconds, size_bytes)


def _model(folder: Path, random_seed: int) -> dict[str, str]:
    """Import, compile and run a model, as fuzz.py does."""
    next(folder.glob("*.onnx")).rename(folder / "model.onnx")
    return fuzz.ours(folder, random_seed)


def main() -> int:
    p = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    p.add_argument("-n", type=int, default=600, help="how many of each kind (default: 600)")
    p.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    p.add_argument("--kinds", default=",".join(CHANGES), help="which kinds (default: all)")
    p.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    p.add_argument("--keep", type=Path, help="a folder for the files that something is wrong with")
    options = p.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        os.environ["AOEC_CACHE_DIR"], os.environ["TUNE_BANK_PATH"] = str(Path(name, "cache")), str(Path(name, "own.db"))
        made = seeds.make(Path(name))
        rank = next((r for r in range(1, options.jobs) if not os.fork()), 0)
        for kind in options.kinds.split(","):
            found = []
            for at in range(options.first + rank, options.first + options.n, options.jobs):
                o = outcome(at, kind, made, options.keep)
                found.append(o)
                if o.status not in GOOD:
                    last = o.said.strip().splitlines()[-1][:300] if o.said.strip() else ""
                    print(f"{kind} {o.number} ({o.seed}; {o.command}): {o.status}, {o.seconds:.1f} s: {last}", flush=True)
            counts = Counter(o.status for o in found)
            most = f"longest {max(o.seconds for o in found):.1f} s, most memory {max(o.memory_bytes for o in found) / 2**30:.2f} GiB"
            print(f"{kind}: {len(found):,} files: {', '.join(f'{n:,} {s}' for s, n in counts.most_common())}; {most}", flush=True)
            failed |= any(o.status not in GOOD for o in found)
        if rank:
            os._exit(int(failed))
        while options.jobs > 1:
            try:
                failed |= bool(os.wait()[1])
            except ChildProcessError:
                break
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
