"""CPU seconds that a compiled model takes to run for values, beside onnxruntime's in the same run with as many threads.

    python bench/values.py [resnet50 bert-base ...] [--threads 1 2] [--repeat 7] [--target Ascend910B3] [--limit 5] [--json | --write]

Models of the zoo at batch 1 in fp32, with default schedules; each figure is the least of --repeat. Then what the run with one thread
goes into, by kinds of instructions: how many there are, and the shares of finding their fields and addresses and of their bodies. Ratios
and shares are of one computer to itself and may be compared between computers; take them where nothing else runs. Exit code 1 where a
ratio is above --limit. --write makes docs/values.md.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import aoec
from aoec.artifact.artifact import load
from aoec.jobs.run.execute import Runner
from aoec.simulate.values.account import Account
from bench.networks import NETWORKS
from bench.networks.net import Network

# what instructions do -> how their names begin; the first that fits
KINDS = {"products of fractals": "mmad", "L1 to L0A, img2col": "load3d", "GM to L1": "copy_gm_l1",
         "L1 to L0A, L0B and tables": "load_", "L0C to GM": "fixpipe", "GM and UB": "copy_", "vector": "v"}
BETWEEN, OUTSIDE = "between instructions: loops, on-chip memory made blank", "outside: tensors put in and taken out, Python"
TABLE = Path(__file__).resolve().parents[1] / "docs" / "values.md"
TEXT = """# Running compiled programs for values

This page says what it costs to run a compiled model for its values, for those who work on the interpreter (`kernels/tile.py`).
`python bench/values.py --write` makes it again.

The models are {models} at batch 1, compiled in fp32 with default schedules for {target}. The interpreter runs them beside onnxruntime, on
the same processor and with as many threads. All times are *measured*; each is the least of {repeat} runs. Ratios and shares may be compared
between computers, seconds may not. onnxruntime's threads spin while they wait for each other, and that counts as theirs.

{ratios}

## Where the time goes

These are shares of the run with one thread. An instruction costs two things: finding and checking its fields and addresses, and its body.

{profiles}

## What would bring it to twice onnxruntime's time

The number of products is the same as in onnxruntime. But they are done on tiles as small as the schedule says. The panels of a tile are
packed anew for each tile (the cube unit reads fractals), and a tile of 49 rows is calculated as one of 56. The products alone take
{products} of onnxruntime's whole run.

The rest of the time moves data that onnxruntime does not move. Each operand goes from GM to L1 to L0. Each result goes from L0C to GM. The
tensors of every group go in and out of the memory of its program. To come down to twice onnxruntime's time, four things are needed, in this
order:

1. Keep the panels of an L0B tile while the same tile is used again. Pack weights, which are constants, when the program first runs.
2. Read tiles of L0A in L1, where a load changes nothing but the place.
3. Put the tensors between groups into one memory that programs share.
4. Find, place and check several instructions of one loop at once.

None of them changes what an instruction means. The first two need a proof that nothing writes in between. The checks of
`target/legality/hazard.py` give that for one iteration, and not yet for a loop.
"""


def least(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """Return CPU seconds of the best of several runs behind one that is not counted, and what the last one gave."""
    best, made = float("inf"), work()
    for _ in range(repeat):
        start = time.process_time()
        made = work()
        best = min(best, time.process_time() - start)
    return best, made


def reference(network: Network, threads: int) -> Callable[[], list[np.ndarray]]:
    """Return onnxruntime's run of a network with so many threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(network.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return lambda: session.run(names, network.feeds)


def compared(network: Network, runner: Runner, threads: int, repeat: int) -> dict[str, float]:
    """Return CPU seconds of both, their ratio, and the largest difference of a result relative to its largest number."""
    runner.threads = threads
    ours, made = least(lambda: runner.run(network.feeds), repeat)
    theirs, wanted = least(reference(network, threads), repeat)
    error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(made.values(), wanted))
    return {"threads": threads, "cpu_seconds": ours, "onnxruntime_cpu_seconds": theirs, "ratio": ours / theirs, "error": error}


def profile(network: Network, runner: Runner) -> list[tuple[str, int, float, float]]:
    """Return (kind of instructions, how many, share of the run in their fields and addresses, in their bodies), and two rows of what is
    left."""
    runner.account = Account()
    start = time.process_time()
    runner.run(network.feeds)
    whole, account, runner.account = time.process_time() - start, runner.account, None
    rows = {kind: [0, 0.0, 0.0] for kind in KINDS}
    for word, *figures in account.words():
        kind = next(k for k, begins in KINDS.items() if word.startswith(begins))
        rows[kind] = [a + b for a, b in zip(rows[kind], figures)]
    out = [(kind, int(count), fields / whole, bodies / whole) for kind, (count, fields, bodies) in rows.items() if count]
    inside = sum(fields + bodies for _, _, fields, bodies in out)
    return [*out, (BETWEEN, 0, 0.0, account.seconds / whole - inside), (OUTSIDE, 0, 0.0, 1 - account.seconds / whole)]


def measure(name: str, threads: list[int], repeat: int, target: str) -> dict[str, Any]:
    """Return a model's figures with each number of threads, and its profile."""
    network = NETWORKS[name](1, 0)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "network.aoec"
        aoec.compile(network.model, path, target=target, precision="fp32", base="none")
        runner = Runner(load(str(path)))
        runs = [compared(network, runner, n, repeat) for n in threads]
        return {"model": name, "runs": runs, "profile": profile(network, runner)}


def ratio_table(found: list[dict[str, Any]]) -> str:
    """Return a row a model and number of threads."""
    lines = ["| model | threads | CPU s | onnxruntime, CPU s | ratio | largest relative difference |", "|---|---|---|---|---|---|"]
    for f in found:
        for r in f["runs"]:
            seconds = f"{r['cpu_seconds']:.3f} | {r['onnxruntime_cpu_seconds']:.3f}"
            lines.append(f"| {f['model']} | {r['threads']} | {seconds} | {r['ratio']:.1f} | {r['error']:.0e} |")
    return "\n".join(lines)


def profile_table(found: dict[str, Any]) -> str:
    """Return a row a kind of instructions."""
    lines = [f"| {found['model']} | instructions | fields and addresses | bodies |", "|---|---|---|---|"]
    return "\n".join([*lines, *(f"| {kind} | {f'{count:,}' if count else ''} | {f'{fields:.1%}' if count else ''} | {bodies:.1%} |"
                                for kind, count, fields, bodies in found["profile"])])


def text(found: list[dict[str, Any]], target: str, repeat: int) -> str:
    """Return the text of docs/values.md."""
    alone = [f"{f['profile'][0][3] * f['runs'][0]['ratio']:.1f} times ({f['model']})" for f in found]
    return TEXT.format(models=" and ".join(f["model"] for f in found), target=target, repeat=repeat, ratios=ratio_table(found),
                       profiles="\n\n".join(map(profile_table, found)), products=" and ".join(alone))


def main(argv: list[str] | None = None) -> int:
    """Return 0, or 1 where a ratio is above the limit, after the figures were printed or written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(sorted(NETWORKS)))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--target", default="Ascend910B3")
    parser.add_argument("--limit", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args(argv)
    names = args.models or ["resnet50", "bert-base"]
    if unknown := [n for n in names if n not in NETWORKS]:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(sorted(NETWORKS))}")
    found = [measure(name, args.threads, args.repeat, args.target) for name in names]
    if args.write:
        TABLE.write_text(text(found, args.target, args.repeat), "utf-8")
    print(json.dumps(found, indent=2) if args.json else "\n\n".join([ratio_table(found), *map(profile_table, found)]), flush=True)
    return int(any(r["ratio"] > args.limit for f in found for r in f["runs"]))


if __name__ == "__main__":
    raise SystemExit(main())
