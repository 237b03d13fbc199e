"""Kills (-9) of a tuning run at random moments, each followed by --resume: nothing that was noted is lost, and the end is the same.

    python bench/kills.py [--kills 200] [--seed 0] [--budget 60] [--json]

A model of a matrix product and a softmax is tuned by `aoec tune --resume`. Each run is a process of its own, forked from one that has
loaded all modules. So kills happen during the tuning and not during imports. A run is killed at a random moment, drawn evenly from the
first six tenths of the time that an undisturbed run takes. The next run resumes it and is killed in turn, until one finishes. So the
moments are spread over the whole work. Then another run begins with an empty bank. Four machines are asked how far schedules hold.

After each kill the bank must be sound (PRAGMA integrity_check). Every batch of answers and every outcome that was there after the last kill
must still be there, or its search must be done. At each end, records and result file must equal those of the undisturbed run, except for
times of day. The exit code is 1 where any of that fails.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aoec.bank.bank import Bank
from aoec.cli import main as aoec
from aoec.jobs.compile import compile  # noqa: F401  what a run imports is imported before the fork
from aoec.jobs.tune import trust
from aoec.simulate.compile_kernels import PARTS

SHARE = 0.6
Noted = tuple[set[tuple[str, int, bytes]], set[str]]  # batches of searches; outcomes of tasks


def model() -> onnx.ModelProto:
    """Return a matrix product and a softmax of its rows."""
    weights = numpy_helper.from_array(np.random.default_rng(0).standard_normal((32, 16)).astype(np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="scores"), helper.make_node("Softmax", ["y"], ["z"], name="shares")]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [16, 32]), ("z", [16, 16]))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def begin(folder: Path, budget: int) -> int:
    """Return the id of a process that tunes the model in a folder; what it says goes to a file there."""
    folder.mkdir(exist_ok=True)
    others = {t.name for t in threading.enumerate()} - {"MainThread", "ctrl-c"}  # which a child that needs it starts anew
    assert not others, f"a fork copies one thread only, not {others}"
    child = os.fork()
    if child:
        return child
    code = 70
    try:
        out = os.open(folder / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        trust.MACHINES = 4
        words = ["--budget", str(budget), "--jobs", "1", "--base", "none", "--resume", "--no-verify"]
        places = {"--bank": "bank.db", "--results": "results", "-o": "net.aoec"}
        code = aoec(["tune", str(folder.parent / "net.onnx"), *words, *[w for o, name in places.items() for w in (o, str(folder / name))]])
        sys.stdout.flush()
    finally:
        os._exit(code)


def ended(child: int, within_s: float) -> int | None:
    """Return the exit code of a process that ends by itself within some time; None of one that has to be killed then."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else None


def noted(folder: Path) -> Noted:
    """Return what the journal of a sound bank holds. Raise AssertionError where the bank is not sound."""
    path = folder / "bank.db"
    if not path.exists() or not path.stat().st_size:
        return set(), set()
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the bank is damaged"
        if not c.execute("SELECT 1 FROM sqlite_master WHERE name = 'journal_batches'").fetchone():
            return set(), set()
        return (set(c.execute("SELECT search, number, answer FROM journal_batches")),
                {outcome for outcome, in c.execute("SELECT outcome FROM journal_outcomes")})


def lost(before: Noted, now: Noted) -> bool:
    """Return whether anything that was noted is there no longer, and no task was done in between."""
    return not before[1] <= now[1] or bool(before[0] - now[0]) and len(now[1]) == len(before[1])


def told(folder: Path) -> int:
    """Return the candidates that the last run of a folder was told of instead of timing them, as it says itself."""
    said = re.search(r"going on from .*\(after ([0-9, ]+)", (folder / "said.txt").read_text())
    return sum(int(n.replace(",", "")) for n in said[1].split(", ")) if said else 0


def end_of(folder: Path) -> tuple[list[str], Any]:
    """Return the records of a bank, and of the newest run the result file and what is in the compiled model, without times of day."""
    newest = max((folder / "results").glob("aoe_result_opat_*.json"), key=lambda p: p.stat().st_mtime_ns)
    said = json.loads(newest.read_text())
    said[0]["basic"].pop("tuning_time(s)")
    compiled = newest.with_name(newest.stem.replace("aoe_result_opat", "tuning_results")) / "compiled_model.json"
    return list(Bank.open(folder / "bank.db").lines(times=False)), [said, json.loads(compiled.read_text())]


def chain(folder: Path, options: argparse.Namespace, draw: random.Random, whole_s: float, left: int, faults: list[str]) -> tuple[int, int]:
    """Return (how many kills it took until a run came through, candidates that the runs were told of); after the last kill that is left
    none is killed."""
    kills, again, before = 0, 0, noted(folder)
    while True:
        code = ended(begin(folder, options.budget), draw.uniform(0, SHARE * whole_s) if kills < left else 600)
        now, again = noted(folder), again + told(folder)
        if code is not None:
            break
        kills += 1
        if lost(before, now):
            faults.append(f"chain {folder.name}, kill {kills}: something that was noted is lost")
        before = now
    if code:
        faults.append(f"chain {folder.name} ended with code {code}: {(folder / 'said.txt').read_text()[-300:]}")
    return kills, again


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kills", type=int, default=200)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--budget", type=int, default=60)
    p.add_argument("--json", action="store_true")
    options = p.parse_args()
    for compile_part in PARTS.values():  # so that no run is killed while it compiles kernels
        compile_part()
    with tempfile.TemporaryDirectory(prefix="aoec-kills-") as place:
        facts = measured(Path(place), options)
    print(json.dumps(facts, indent=2) if options.json else "\n".join(f"{k}: {v}" for k, v in facts.items()))
    return int(bool(facts["faults"]))


def measured(place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of all chains."""
    onnx.save(model(), place / "net.onnx")
    os.environ["AOEC_CACHE_DIR"] = str(place / "cache")
    faults: list[str] = []
    times = []
    for name in ("whole", "again"):  # the second finds what the first one's programs take, as all others do
        started = time.monotonic()
        code = ended(begin(place / name, options.budget), 600)
        times.append(time.monotonic() - started)
        assert code == 0, (place / name / "said.txt").read_text()
    whole = end_of(place / "whole")
    draw, kills, chains, again = random.Random(options.seed), 0, 0, 0
    while kills < options.kills:
        folder = place / str(chains)
        more, candidates = chain(folder, options, draw, times[1], options.kills - kills, faults)
        kills, again = kills + more, again + candidates
        chains += 1
        if end_of(folder) != whole:
            faults.append(f"chain {folder.name}: its end is not that of the undisturbed run")
        if any(map(len, noted(folder))):
            faults.append(f"chain {folder.name}: its end left something in the journal")
        print(f"{kills} kills, {chains} chains, {len(faults)} faults", file=sys.stderr, flush=True)
    return {"kills": kills, "runs that came through": chains, "seconds of an undisturbed run": round(times[1], 2),
            "candidates told instead of timed": again, "records": len(whole[0]), "faults": faults}


if __name__ == "__main__":
    sys.exit(main())
