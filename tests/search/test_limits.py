"""A default schedule is the same, whether what cannot become it is timed to its end or given up."""
from __future__ import annotations

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.search.default.default import default
from aoec.target.machine import load


@pytest.mark.parametrize("operator", ["matmul(m=100, k=768, n=200, fp16)", "softmax(m=300, n=700)"])
def test_the_default_is_that_of_timing_all(operator: str) -> None:
    func, machine = lower_operator(operator), load("Ascend310P3")
    p, whole = problem(func, machine), problem(func, machine)
    found = default(p.space, p.cost, p.constraints)
    assert found == default(whole.space, lambda candidates, limits=None: whole.cost(candidates), whole.constraints)
    assert p.given_up and not whole.given_up  # it was less work
    given_up = list(p.given_up)
    assert all(ticks is not None and ticks >= p.given_up[c] for c, ticks in zip(given_up, whole.cost(given_up)))
