"""The rank of a time in a space is what trying all candidates counts."""
from __future__ import annotations

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem
from aoec.search.proof.rank import rank
from aoec.search.space.draws import few
from aoec.search.space.restrict import Restriction
from aoec.target.machine import load

ONE_SLOT = tuple((name, (1,)) for name in ("da", "db", "d0a", "d0b", "dc"))


def every_time(p: Problem) -> list[int]:
    """Ticks of all legal candidates, fastest first."""
    found = []
    for i, grid in enumerate(p.space.grids):
        ranks = few(grid, p.constraints(i), 10**5)
        assert ranks is not None
        found += [(i, grid.values(r)) for r in ranks.tolist()]
    return sorted(t for t in p.cost(found) if t is not None)


@pytest.fixture(scope="module")
def plain() -> Problem:
    return problem(lower_operator("matmul(m=48, k=64, n=64)"), load("Ascend910B3"), restriction=Restriction(ONE_SLOT, (), (), (0, 6)))


def test_a_rank_counts_all_that_is_faster(plain: Problem) -> None:
    times = every_time(plain)
    some = plain.leaders()[0][1]
    for at in (0, len(times) // 3, len(times) - 1):
        found = rank(plain.space.grids, plain, some, times[at], 10**7)
        assert found.closed and found.faster == sum(t < times[at] for t in times)


def test_an_effort_ends_a_count_that_then_is_at_least(plain: Problem) -> None:
    times = every_time(plain)
    found = rank(plain.space.grids, plain, plain.leaders()[0][1], times[-1], 100)
    assert not found.closed and found.faster <= sum(t < times[-1] for t in times)
