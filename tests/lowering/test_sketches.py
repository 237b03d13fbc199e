"""Default schedules against random candidates of the sketches, and what is refused."""
from __future__ import annotations

from dataclasses import replace

import pytest

from aoec.base.errors import AoecError
from aoec.jobs.stages import lower_operator
from aoec.jobs.tuning import problem, start
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


def test_a_func_without_a_schedule_is_refused_by_name() -> None:
    with pytest.raises(AoecError, match="has no schedule on toy"):
        problem(lower_operator("matmul(m=100000, k=16, n=16, fp16)"), replace(load("toy"), scopes={}))
