"""Short lists: candidates that are legal, and those of one sketch that are like those of another."""
from __future__ import annotations

from functools import lru_cache

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem
from aoec.search.default.default import options_of, variations
from aoec.search.default.shortlist import FEW, alike, around, few, list_candidates
from aoec.target.machine import load

OPERATORS = ["matmul(m=100, k=768, n=200, fp16)", "conv2d(n=1, c=64, h=14, w=14, co=64, kh=3, kw=3, pad=1, fp16)"]
TARGETS = ["Ascend910B3", "Ascend310P3"]


@lru_cache
def posed(operator: str, target: str) -> Problem:
    return problem(lower_operator(operator), load(target))


@pytest.fixture(scope="module", params=[(o, t) for o in OPERATORS for t in TARGETS], ids=str)
def p(request: pytest.FixtureRequest) -> Problem:
    return posed(*request.param)


def test_what_is_listed_is_legal_and_of_its_sketch(p: Problem) -> None:
    for number in range(2):
        found = list_candidates(p.space, number, p.constraints)
        assert found and len(set(found)) == len(found)
        assert {number} == {c[0] for c in found} and all(p.legal(found))
        assert set(few(found)) <= set(found) and 0 < len(few(found)) <= FEW
    assert few([]) == []


def test_what_is_alike_is_legal_and_has_the_same_numbers_or_the_nearest(p: Problem) -> None:
    given = list_candidates(p.space, 0, p.constraints)[:3]
    found = {number: alike(p.space, given, number, p.constraints(number)) for number in range(len(p.space.grids))}
    assert found[0] == given  # a sketch has what is of it
    assert sum(map(bool, found.values())) > 1
    for number, some in found.items():
        grid = p.space.grids[number]
        assert len(some) <= FEW and all(p.legal(some))
        for _, values in some:
            assert any(all(nearest(v, dict(zip(p.space.grids[0].names, one)).get(name), choices)
                           and (name in p.space.grids[0].names or v in around(grid, name, choices))
                           for name, v, choices in zip(grid.names, values, grid.choices)) for _, one in given)


def nearest(value: int, wanted: int | None, choices: tuple[int, ...]) -> bool:
    """Whether no choice is nearer to what is wanted."""
    return wanted is None or all(abs(value - wanted) <= abs(c - wanted) for c in choices)


def test_variations_are_the_same_laid_out_together(p: Problem) -> None:
    given = [c for number in (1, 0, 1) for c in list_candidates(p.space, number, p.constraints)[:2]]
    for names in (("tk", "sk"), ("gn",), ("no hole",)):
        assert options_of(p.space, given, names, p.constraints) == [variations(p.space, c, names, p.constraints(c[0])) for c in given]
    some = options_of(p.space, given, ("tk", "sk"), p.constraints)
    assert all(c in own and set(own) <= set(variations(p.space, c, ("tk", "sk"))) for c, own in zip(given, some))
