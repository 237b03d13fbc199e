"""Loads issued iterations ahead: the same values in the same bounds, in time where the scalar unit would stall."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec import primitives
from aoec.base.errors import AoecError
from aoec.ir.program import Program
from aoec.ir.rewrite import fill, normalise
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.emit.emit import emit
from aoec.search.vendor.vendor import MatmulTiling, matmul_trace
from aoec.simulate.encode.encode import encode
from aoec.simulate.timing.time import measure, time_rows
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import cases, legal
from tests.lowering.test_forms import posed
from tests.oracle.slow_timeline import simulate

B3 = load("Ascend910B3")
FUNC = """func f(X: fp32[{n}]) -> (Y: fp32[{n}]) {{
  for i in {n} {{
    b: Y[i] = exp(X[i])
  }}
}}
"""
TRACE = """sched {{
  split(loop=i, factor=64, outer=io, inner=ii)
  cache_read(block=b, buffer=X, scope=UB, at=io)
  cache_write(block=b, buffer=Y, scope=UB, at=io)
  tensorize(loop=ii, instr=vector)
  double_buffer(buffer=X_UB, depth={depth})
  preload(buffer={buffer}, ahead={ahead})
}}
"""


def scheduled(n: int, depth: object, ahead: object, buffer: str = "X_UB") -> Program:
    func = parse_func(FUNC.format(n=n))
    return emit(primitives.apply(func, parse_trace(TRACE.format(depth=depth, ahead=ahead, buffer=buffer))), B3)


@pytest.mark.parametrize("ahead", [0, 1, 2])
@pytest.mark.parametrize("n", [10, 64, 65, 200, 640])
def test_any_trip_count_and_distance(n: int, ahead: int) -> None:
    p = normalise(scheduled(n, 3, ahead))
    check(p, B3)
    assert measure(p, B3).ticks == simulate(p, B3).ticks
    moved = measure(p, B3).bytes_by_path
    assert moved["GM->UB"] == moved["UB->GM"] == 4 * n  # every load once


def test_holes_first_or_last_and_slots_that_are_missing() -> None:
    p = scheduled(640, "?d in [1, 2, 3]", "?p in [0, 1, 2]")
    rows = {"d": [1, 1, 2, 2, 3, 3], "p": [0, 1, 1, 2, 1, 2]}
    times = time_rows(encode(p, B3), rows)
    assert [s > 0 for s in times.status] == [False, True, False, True, False, False]
    assert "more slots than loads" in times.reason(1, p)
    for row in (0, 2, 4, 5):
        own = {k: v[row] for k, v in rows.items()}
        assert normalise(fill(p, own)) == normalise(scheduled(640, own["d"], own["p"]))


def test_what_cannot_be_ahead_is_refused() -> None:
    for buffer in ("Y_UB", "X"):
        with pytest.raises(AoecError, match=r"one load|lies in GM"):
            scheduled(640, 2, 1, buffer)


def test_products_with_loads_ahead_mean_the_same() -> None:
    case, p = posed("matmul_even", "grid")
    sketch = next(i for i, g in enumerate(p.space.grids) if "pl" in g.names)
    grid = p.space.grids[sketch]
    for c in legal(p, sketch, 3, seed=5):
        programs = [p.program((sketch, tuple(v if n != "pl" else on for n, v in zip(grid.names, c[1])))) for on in (0, 1)]
        if 1 in (p.values(c)["da"], p.values(c)["db"]):
            continue
        for program in programs:
            check(program, p.machine)
            assert case.agrees(case.run(program))


def test_ahead_is_sooner_where_a_queue_is_full() -> None:
    """A chunk's loads into L0B fill MTE1's queue, behind which the next chunk's load would be issued late."""
    func = lower_operator("matmul(m=512, k=2048, n=1024)")
    tiling = MatmulTiling(stepKa=8, stepKb=8, baseM=128, baseN=128, baseK=64, depthA1=16, depthB1=16, singleCoreM=128, singleCoreN=256)
    late, early = (measure(normalise(emit(primitives.apply(func, matmul_trace(func, B3, replace(tiling, preload=on))), B3)), B3).cycles
                   for on in (0, 1))
    assert early < 0.95 * late


@pytest.mark.parametrize("chip", ["Ascend910B3", "Ascend310P3"])
def test_padding_goes_ahead_with_the_load_that_it_is_for(chip: str) -> None:
    """Else pipe V fills a tile behind its work on the one before, and takes turns with MTE2."""
    c = next(c for c in cases("max_pool", chip) if "t0" in {b.name for b in c.func.locals})
    p = problem(c.func, load(chip))
    seen = 0
    for sketch in range(len(p.sketches)):
        for candidate in legal(p, sketch, 6, 2):
            if p.values(candidate).get("pl"):
                made, seen = p.program(candidate), seen + 1
                check(made, p.machine)
                assert c.agrees(c.run(made))
                assert simulate(made, p.machine).ticks == measure(made, p.machine).ticks
    assert seen > 3


def test_pools_overlap_their_loads_with_their_work() -> None:
    """56 MB of an image from HBM: the maximum of nine takes less time than the load, and both run at once."""
    p = problem(lower_operator("max_pool(n=16, c=64, h=112, w=112, kh=3, kw=3, stride=2, pad=1)"), load("Ascend310P3"))
    best = measure(p.program(start(p).best), p.machine)
    assert best.reasons is not None
    busy = {k.rpartition(".")[2]: a.mean_busy for k, a in best.reasons.accounts.items()}
    assert busy["V"] + busy["MTE2"] > 1.5 * best.cycles
