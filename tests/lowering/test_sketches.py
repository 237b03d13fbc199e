"""Default schedules against random candidates of the sketches, and what is refused."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.lowering.lower.lower import lower
from aoec.search.sketches.nests import find_product, writer
from aoec.search.sketches.plan import factors
from aoec.search.sketches.sketches_cube import conv_sketch
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import Case, cases, legal


@pytest.mark.parametrize("text", [
    "conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1, bias, relu)", "conv2d(n=1, c=256, h=56, w=56, co=64, kh=1, kw=1, bias, relu)",
    "matmul(m=1, k=2048, n=1000, bias)", "add(m=256, n=3136, relu)"])
def test_the_default_is_no_slower_than_the_best_of_fifty(text: str) -> None:
    p = problem(lower_operator(text), load())
    first = start(p)
    drawn = [c for s in range(len(p.sketches)) for c in legal(p, s, 50 // len(p.sketches) + 1)]
    others = [cost for cost in p.cost(drawn) if cost is not None]
    assert len(others) >= 50 and p.bound().ticks <= first.ticks <= min(others)


@pytest.mark.parametrize("shape, most", [((2560, 21128), 1.02), ((4, 400000), 1.6)])
def test_what_all_rows_share_is_read_once_a_part_of_the_columns(shape: tuple[int, int], most: float) -> None:
    """Whole rows in UB held one slot each, and read the shared row again for each (1.13 of the bound on 910A); 400,000 do not fit. The
    bound knows nothing of memory that turns around."""
    a, b, y = (Tensor(name, "fp32", s) for name, s in (("a", shape), ("b", shape[1:]), ("y", shape)))
    graph = Graph("add", ("a", "b"), ("y",), (a, b, y), (OpNode("add", "add", ("a", "b"), ("y",), ()),), (Group("g0", "vector", ("add",)),))
    first = start(problem(lower(graph, "g0"), replace(load("Ascend910A"), hbm_turnaround=None)))
    assert first.bound_ticks <= first.ticks <= most * first.bound_ticks


def wide_problem(model: str) -> tuple[Case, Problem]:
    """A convolution of few channels with one sketch that tiles the width of its image."""
    case = next(c for c in cases(model) if find_product(c.func))
    mm = find_product(case.func)
    gather = mm and writer(case.func, factors(mm)[0].buffer)
    assert mm and gather
    return case, problem(case.func, load(), (), [conv_sketch(case.func, mm, gather, load(), "none", True, False)])


def test_tiles_of_narrow_pixels_are_rows_of_whole_blocks() -> None:
    """Of 12 pixels of 8 bytes, 3 x 3 makes 10: in tiles of 2 and of 10 each reads rows of 4 and 12 pixels, in others some row is ragged."""
    case, p = wide_problem("conv_four")
    found = [c for c in legal(p, 0, 40) if p.values(c)["th"] > 1]
    assert {p.values(c)["tw"] for c in found} == {2, 10}
    for c in found[:8]:
        check(p.program(c), p.machine)
        assert case.agrees(case.run(p.program(c)))
    with pytest.raises(UnsupportedError, match="begins in its padding"):
        wide_problem("conv_few")


def test_a_func_without_a_schedule_is_refused_by_name() -> None:
    with pytest.raises(AoecError, match="has no schedule on toy"):
        problem(lower_operator("matmul(m=100000, k=16, n=16, fp16)"), replace(load("toy"), scopes={}))
