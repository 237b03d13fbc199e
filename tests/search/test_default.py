"""The default schedule is a fair opponent, on a few shapes of ResNet-50; bench/defaults.py holds all of them to the same rules."""
from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.stages.operators import graph_of
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Outcome, Problem, problem, search, start
from aoec.lowering.arrange.fuse import fuse
from aoec.search.default.default import variations
from aoec.target.machine import load
from bench.defaults import Row, faults, geometric_mean, measure, text
from tests.oracle.opponents import NoStockBlock, best_of_random, least_ticks, pixels, stock

MACHINE = load("Ascend910B3")
SHAPES = {
    "point": "conv2d(n=1, c=1024, h=14, w=14, co=256, kh=1, kw=1, fp16)",
    "rows": "conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, fp16)",
    "strided": "conv2d(n=1, c=512, h=28, w=28, co=1024, kh=1, kw=1, stride=2, fp16)",
    "matmul": "matmul(m=384, k=512, n=640, fp32)",
}


def posed(text: str) -> Problem:
    """The problem of an operator's own group."""
    return problem(lower_operator(text), MACHINE)


@pytest.fixture(scope="module", params=sorted(SHAPES))
def case(request: pytest.FixtureRequest) -> tuple[Problem, Outcome]:
    p = posed(SHAPES[request.param])
    return p, start(p)


def test_no_opponent_beats_the_default(case: tuple[Problem, Outcome]) -> None:
    p, first = case
    block, (chance, legal) = stock(p, MACHINE), best_of_random(p)
    assert block is not None and chance is not None and legal == 50
    assert first.default_ticks <= block
    assert first.default_ticks <= chance
    assert p.cost([first.default]) == [first.default_ticks]


def test_no_other_tiles_of_k_in_their_chunks_beat_the_default(case: tuple[Problem, Outcome]) -> None:
    p, first = case
    others = [ticks for ticks in p.cost(variations(p.space, first.default, ("tk", "sk"))) if ticks is not None]
    assert len(others) > 10 and first.default_ticks == min(others)


def test_bound_lies_between_the_least_work_and_the_best_found(case: tuple[Problem, Outcome]) -> None:
    p, first = case
    found = search(p, first, "genetic", ("trials", 200), 0)
    assert least_ticks(p.func, MACHINE, {}) <= p.bound().ticks <= found.ticks <= first.default_ticks


def test_least_work_is_what_the_shape_says() -> None:
    p = posed(SHAPES["matmul"])
    launch = (MACHINE.launch_fixed_us + MACHINE.launch_per_core_us) * MACHINE.clock_mhz
    products = 384 * 512 * 640 / (256 * MACHINE.tables["kf"]["fp32"] * 20)
    moved = (384 * 512 + 512 * 640) * 4 / MACHINE.hbm_bytes_per_cycle
    assert least_ticks(p.func, MACHINE, {}) == int((launch + max(products, moved)) * 1024)


def test_stock_rectangles_are_the_largest_within_the_block() -> None:
    areas = [prod(t.values()) for t in pixels({"th": tuple(range(1, 15)), "tw": tuple(range(1, 15))}, 128, 14)]
    assert areas and set(areas) == {126}  # 9 x 14
    assert pixels({"th": (1, 2, 4)}, 16, 56) == [{"th": 1}]  # a row is longer than the block: the smallest there is


GOOD = Row("g", "", 1, 4.0, 3.0, 2.0, 5.0, 6.0, 50, 1.0)


@pytest.mark.parametrize("change", [{"tuned_us": 4.1}, {"stock_us": 3.9}, {"random_us": 3.9}, {"bound_us": 3.1}, {"least_us": 2.1}])
def test_each_broken_rule_is_named(change: dict[str, float]) -> None:
    assert faults(GOOD) == []
    assert len(faults(replace(GOOD, **change))) == 1


def test_a_row_without_a_stock_block_says_so_and_has_all_other_figures() -> None:
    """The first convolution of ResNet-50: its image is laid out in four channels, and its tiles are whole rows."""
    graph, _ = graph_of("conv2d(n=1, c=3, h=224, w=224, co=64, kh=7, kw=7, stride=2, pad=3, fp16)")
    fused, _ = fuse(graph, {}, MACHINE)
    (task,) = [t for t in tasks(fused, MACHINE) if t.label.startswith("conv2d")]
    with pytest.raises(NoStockBlock):
        stock(problem(task.func, MACHINE, task.state), MACHINE)
    first = start(problem(task.func, MACHINE, task.state)).default_ticks
    row = measure(task, "Ascend910B3", (first, first), 1)
    assert row.stock_us is None and "no stock block" in row.no_stock and row.random_legal == 50
    assert faults(row) == [] and row.random_us is not None and row.least_us <= row.bound_us <= row.default_us <= row.random_us
    lines = text({"title": "", "faults": []}, [row, GOOD]).splitlines()
    assert lines[1].endswith(row.no_stock) and lines[2].endswith("modelled us")


def test_mean_is_geometric_and_weighted_by_count() -> None:
    rows = [GOOD, replace(GOOD, count=3, default_us=16.0)]
    assert geometric_mean(rows, False) == pytest.approx(4.0)
    assert geometric_mean(rows, True) == pytest.approx((2 * 8**3) ** 0.25)


def test_the_cube_is_twice_as_fast_in_int8() -> None:
    """Where products are most of the work; the sums of int32 that leave have twice the bytes of fp16's results."""
    half, eight = (start(posed(f"matmul(m=2048, k=8192, n=2048, {dtype})")).default_ticks for dtype in ("fp16", "int8"))
    assert 0.5 <= eight / half < 0.56
