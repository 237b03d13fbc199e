"""Same seed, same bytes: schedules, tables of trials and banks of two processes with other hash seeds, threads and workers are alike.
And ties: the incumbent keeps its place, else the canonically smaller candidate has it."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.bank.bank import Bank
from aoec.base.errors import ScheduleError
from aoec.base.files.memo import cache_folder
from aoec.frontend.zoo import mlp_softmax
from aoec.ir.rewrite import holes
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.version import model_version
from aoec.search.default.default import settle
from aoec.search.sketches.sketches import sketches
from aoec.search.space.grid import Candidate, Grid, Space
from aoec.search.strategies.run import run
from aoec.search.strategies.strategies import STRATEGIES, make
from aoec.target.machine import load
from tests.laws.turns import examples

MATMUL, SOFTMAX = "matmul(m=96, k=160, n=80)", "softmax(m=20, n=256)"
SCRIPT = """
import os, sys
os.cpu_count = lambda: {threads}
from aoec.cli import main
def do(*words):
    assert main(list(words)) == 0, words
for name, text in (("m", {matmul!r}), ("s", {softmax!r})):
    do("lower", text, "-o", name + ".tir")
two = ("--sketch", "1", "--sketch", "6", "--seed", "3")  # of ten
do("search", "m.tir", *two, "--budget", "24", "--trials", "default.csv", "-o", "default.sched")
do("search", "m.tir", *two, "--budget", "24", "--where", "tm*tn <= 4096", "--pin", "dc=1", "--search", "random", "--trials", "some.csv",
   "-o", "some.sched")
do("search", "s.tir", "--search", "exhaustive", "--trials", "all.jsonl", "-o", "all.json", "--json")
do("compile", "model.onnx", "--tune", "--budget", "8", "--jobs", {jobs!r}, "--bank", "bank.db", "-o", "model.aoec", "--no-verify")
"""


def started(folder: Path, hash_seed: int, threads: int, jobs: int) -> subprocess.Popen[str]:
    """A process that searches and compiles in the folder."""
    folder.mkdir()
    onnx.save(mlp_softmax(), folder / "model.onnx")
    code = SCRIPT.format(threads=threads, jobs=str(jobs), matmul=MATMUL, softmax=SOFTMAX)
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join(sys.path),
                   "AOEC_CACHE_DIR": f"{folder}.cache"}  # each makes all else itself
    return subprocess.Popen([sys.executable, "-c", code], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True)


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    """The second is told the model version, if it is known; the first finds it itself, and the records of both hold it."""
    folders = [tmp_path / "one", tmp_path / "two"]
    model_version()
    if (kept := cache_folder() / "model_version").exists():  # not where a test that keeps what it finds apart asked first
        shutil.copytree(kept, f"{folders[1]}.cache/model_version")
    for process in [started(folders[0], 0, 1, 1), started(folders[1], 4242, 2, 2)]:
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
    names = {p.name for p in folders[0].iterdir()} - {"bank.db", "model.onnx"}
    assert {"default.csv", "some.sched", "all.jsonl", "all.json", "some.csv", "model.aoec"} <= names
    for name in sorted(names):
        one, two = ((f / name).read_bytes() for f in folders)
        assert one == two and len(one) > 100, name
    one, two = (list(Bank.open(f / "bank.db").lines(times=False)) for f in folders)
    assert one == two and len(one) > 6  # of groups, and of launches that the search of the plan timed


# ---------------------------------------------------------------- ties

values = st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True).map(lambda v: tuple(sorted(v)))
grids = st.lists(values, max_size=3).map(lambda cs: Grid(("tm", "gm", "x")[:len(cs)], tuple(cs)))
spaces = st.lists(grids, min_size=1, max_size=3).map(lambda gs: Space(tuple(gs)))


def landscape(space: Space, seed: int, levels: int) -> dict[Candidate, int | None]:
    """A cost for each candidate, of so few levels that most are ties; one in four is illegal."""
    draws = [(rank * 7919 + seed * 104729) % 1009 for rank in range(space.size)]
    return {space.at(rank): None if d % 4 == 0 else 10 + d % levels for rank, d in enumerate(draws)}


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(sorted(STRATEGIES)), spaces, st.integers(0, 9), st.integers(1, 4), st.integers(1, 40), st.data())
def test_of_equals_the_default_wins_then_the_canonically_first(name: str, space: Space, seed: int, levels: int, budget: int,
                                                               data: st.DataObject) -> None:
    costs, asked = landscape(space, seed, levels), dict[Candidate, int | None]()
    first = data.draw(st.sampled_from(sorted(costs)))

    def cost(batch: list[Candidate]) -> list[int | None]:
        asked.update((c, costs[c]) for c in batch)
        return [costs[c] for c in batch]
    try:
        found = run(make(name, space, seed), cost, budget_trials=budget, first=first)  # type: ignore[arg-type]
    except ScheduleError:
        assert all(c is None for c in asked.values())
        return
    legal = [(ticks, c != first, space.rank(c), c) for c, ticks in asked.items() if ticks is not None]
    assert (found.cost, found.best) == (min(legal)[0], min(legal)[3])


@given(spaces, st.integers(0, 9), st.integers(1, 4), st.data())
def test_settling_moves_for_less_alone_and_to_the_canonically_first(space: Space, seed: int, levels: int, data: st.DataObject) -> None:
    costs = landscape(space, seed, levels)
    legal = [(ticks, c) for c, ticks in costs.items() if ticks is not None]
    if not legal:
        return
    starts = data.draw(st.lists(st.sampled_from(legal), min_size=1, max_size=3))
    ticks, best = settle(space, starts, lambda cs, limits=None: [costs[c] for c in cs])
    assert costs[best] == ticks <= min(starts)[0]
    if ticks == starts[0][0]:
        assert best == starts[0][1]  # the incumbent, which stands first
    alone = space.grids[starts[0][1][0]]
    if len(starts) == 1 and len(alone.names) == 1:  # one hole: its best choice, the least of equals
        options = [(t, v) for v in alone.choices[0] if (t := costs[starts[0][1][0], (v,)]) is not None]
        assert (ticks, best[1][0]) == (min(options) if min(options)[0] < starts[0][0] else (starts[0][0], starts[0][1][1][0]))


@pytest.mark.parametrize("machine", ["Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("text", [MATMUL, SOFTMAX, "matmul(m=64, k=4096, n=128, fp32)", "matmul(m=4096, k=256, n=4096)",
                                  "conv2d(n=2, c=32, h=14, w=14, co=48, kh=3, kw=3, pad=1, relu)",
                                  "max_pool(n=1, c=32, h=20, w=20, kh=3, kw=3, stride=2, pad=1)"])
def test_choices_ascend_so_that_values_are_in_canonical_order(text: str, machine: str) -> None:
    for sketch in sketches(lower_operator(text), load(machine)):
        assert all(list(c) == sorted(c) for c in holes(sketch).values())
