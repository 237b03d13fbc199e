"""Default schedules against random candidates of the sketches, and what is refused."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.base.errors import AoecError
from aoec.ir.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.stages import lower_operator
from aoec.jobs.tuning import problem, start
from aoec.lowering.lower import lower
from aoec.target.machine import load
from tests.lowering.groups import legal


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
    """Whole rows in UB held one slot each, and read the shared row again for each (1.13 of the bound on 910A); 400,000 do not fit."""
    a, b, y = (Tensor(name, "fp32", s) for name, s in (("a", shape), ("b", shape[1:]), ("y", shape)))
    graph = Graph("add", ("a", "b"), ("y",), (a, b, y), (OpNode("add", "add", ("a", "b"), ("y",), ()),), (Group("g0", "vector", ("add",)),))
    first = start(problem(lower(graph, "g0"), load("Ascend910A")))
    assert first.bound_ticks <= first.ticks <= most * first.bound_ticks


def test_a_func_without_a_schedule_is_refused_by_name() -> None:
    with pytest.raises(AoecError, match="has no schedule on toy"):
        problem(lower_operator("matmul(m=100000, k=16, n=16, fp16)"), replace(load("toy"), scopes={}))
