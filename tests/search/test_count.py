"""Counts of what constraints leave equal an enumeration; draws are of what is left, and evenly so."""
from __future__ import annotations

from collections import Counter
from itertools import pairwise, product
from math import comb, isclose

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.func.tir import Constraint
from aoec.ir.index import Expr, Hole, Int, binary, ceildiv, evaluate, minimum
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.search.space import count, eliminate
from aoec.search.space.count import Cut, cuts, exact, lefts
from aoec.search.space.draws import QUICK, draw_rows, draws, few, holding, list_ranks
from aoec.search.space.eliminate import TooLarge, Truths
from aoec.search.space.grid import Grid
from aoec.target.machine import load

NAMES = ("a", "b", "c", "d", "e")
values = st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True).map(tuple)
grids = st.integers(0, 5).flatmap(lambda n: st.tuples(*[values] * n)).map(lambda cs: Grid(NAMES[:len(cs)], cs))


def conditions_of(grid: Grid) -> st.SearchStrategy[list[Expr]]:
    """Comparisons of products and sums of few holes, some of none."""
    leaf = st.one_of([st.integers(-2, 30).map(Int), *[st.just(Hole(n)) for n in grid.names]])
    term = st.recursive(leaf, lambda e: st.builds(binary, st.sampled_from("+*-"), e, e) | st.builds(minimum, e, e)
                        | st.builds(ceildiv, e, st.integers(1, 7)), max_leaves=4)
    compare = st.builds(binary, st.sampled_from(["<=", "<", "==", "!=", ">="]), term, term)
    return st.lists(compare | st.builds(binary, st.sampled_from(["and", "or"]), compare, compare), max_size=6)


def enumerated(grid: Grid, conditions: list[Expr]) -> list[list[tuple[int, ...]]]:
    """The candidates that keep the first 1, 2, 3 ... conditions, one by one."""
    left, out = list(product(*grid.choices)), []
    for c in conditions:
        left = [v for v in left if evaluate(c, dict(zip(grid.names, v)))]
        out.append(left)
    return out


@given(grids, st.data())
def test_counts_are_those_of_an_enumeration(grid: Grid, data: st.DataObject) -> None:
    conditions = data.draw(conditions_of(grid))
    assert exact(Truths(grid), conditions) == [len(left) for left in enumerated(grid, conditions)]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 300), st.integers(1, 5))
def test_sums_that_outgrow_narrow_numbers_are_whole(n: int, holes: int) -> None:
    names = NAMES[:holes]  # a <= b <= c ...: combinations with repetition, by their closed form
    rising = [binary("<=", Hole(a), Hole(b)) for a, b in pairwise(names)]
    known = Truths(Grid(names, (tuple(range(n)),) * holes))
    assert exact(known, [*rising, binary(">=", Hole("a"), Int(0))])[-1] == comb(n + holes - 1, holes)


@settings(max_examples=40, deadline=None)
@given(grids, st.data())
def test_a_grid_in_parts_counts_the_same(grid: Grid, data: st.DataObject) -> None:
    conditions = data.draw(conditions_of(grid))
    with pytest.MonkeyPatch.context() as m:
        for name, limit in (("CELLS", 3), ("BUCKET", 40), ("TABLE", 60)):
            m.setattr(eliminate, name, limit)
        try:
            found = exact(Truths(grid), conditions)
        except TooLarge:
            return
    assert found == [len(left) for left in enumerated(grid, conditions)]


def test_halves_of_a_grid_have_their_own_parts_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = map(Hole, "abc")
    grid = Grid(("a", "b", "c"), (tuple(range(6)), tuple(range(1, 5)), tuple(range(5))))
    conditions = [binary("<=", a, b), binary("<", b + c, 7), binary("!=", a * c % 3, 1)]  # any two share a hole: sums of 20 are left
    monkeypatch.setattr(eliminate, "BUCKET", 15)
    known = Truths(grid)
    with pytest.raises(TooLarge):
        count.count_grid(known, conditions)
    assert exact(known, conditions) == [len(left) for left in enumerated(grid, conditions)]


@settings(max_examples=60, deadline=None)
@given(grids, st.data())
def test_what_is_drawn_keeps_all_conditions(grid: Grid, data: st.DataObject) -> None:
    conditions = data.draw(conditions_of(grid))
    left = set(enumerated(grid, conditions)[-1]) if conditions else set(product(*grid.choices))
    rows = draw_rows(grid, conditions, 50)
    assert tuple(rows) == grid.names and {len(c) for c in rows.values()} <= {50 if left else 0}
    assert set(zip(*[c.tolist() for c in rows.values()])) <= left


@settings(max_examples=100, deadline=None)
@given(grids, st.data())
def test_what_is_listed_is_all_that_keeps_all_conditions(grid: Grid, data: st.DataObject) -> None:
    conditions = data.draw(conditions_of(grid))
    left = enumerated(grid, conditions)[-1] if conditions else list(product(*grid.choices))
    ranks = list_ranks(grid, conditions, len(left))
    assert ranks is not None and ranks.tolist() == sorted(map(grid.rank, left))
    assert not left or list_ranks(grid, conditions, len(left) - 1) is None


@pytest.mark.parametrize("work", [QUICK, 100, 1])
def test_draws_are_even_and_repeat(work: int) -> None:
    """Whether all conditions have tables, one has, or none."""
    a, b, c = map(Hole, "abc")
    grid = Grid(("a", "b", "c"), (tuple(range(1, 9)), tuple(range(1, 9)), (1, 2, 3)))
    conditions = [binary("<=", a * b, 12), binary("<", b, a + c)]
    left = enumerated(grid, conditions)[-1]
    drawing = draws(grid, conditions, work)
    assert len(drawing.others) == {QUICK: 0, 100: 1, 1: 2}[work]
    rows, again = (drawing.rows(200 * len(left), np.random.RandomState(7)) for _ in range(2))
    assert all((rows[n] == again[n]).all() for n in rows)
    found = Counter(zip(*[c.tolist() for c in rows.values()]))
    chi = sum((found[v] - 200) ** 2 / 200 for v in left)  # of len(left) - 1 degrees of freedom: mean n, deviation sqrt(2 n)
    assert len(found) == len(left) and abs(chi - len(left)) < 5 * np.sqrt(2 * len(left))


def test_an_estimate_is_near_and_says_how_near() -> None:
    a, b, c = map(Hole, "abc")
    grid = Grid(("a", "b", "c"), (tuple(range(40)), tuple(range(40)), tuple(range(40))))
    constraints = [Constraint(binary("<=", a + b + c, 60), ""), Constraint(binary("!=", a * b % 3, c % 3), "")]
    true = [x.left for x in cuts(grid, constraints)]
    assert true == [len(left) for left in enumerated(grid, [x.condition for x in constraints])]
    with pytest.MonkeyPatch.context() as m:
        m.setattr(eliminate, "TABLE", 1)
        about = [Cut(x, *left) for x, left in zip(constraints, lefts.__wrapped__(grid, tuple(x.condition for x in constraints)))]
    for exactly, estimate in zip(true, about):
        assert 0 < estimate.error < exactly / 50 and abs(estimate.left - exactly) < 4 * estimate.error
        assert isclose(estimate.left, exactly, rel_tol=0.05)


def test_hundreds_of_billions_are_counted_as_a_sample_finds_them() -> None:
    p = problem(lower_operator("conv2d(n=1, c=128, h=28, w=28, co=128, kh=3, kw=3, pad=1)"), load("Ascend910B3"))
    grid, program = p.space.grids[1], p.sketches[1].program
    assert grid.size > 10 ** 10
    exactly = cuts(grid, program.constraints)
    about = count.estimate_prefixes(grid, [c.condition for c in program.constraints])
    assert all(x.error == 0 for x in exactly)
    for x, (left, error) in zip(exactly, about):
        assert abs(x.left - left) <= 5 * error
    rows = draw_rows(grid, [c.condition for c in program.constraints], 200)
    assert all(p.legal([(1, v) for v in zip(*[c.tolist() for c in rows.values()])]))


def test_a_large_product_has_legal_draws_and_a_count_that_a_plain_sample_finds() -> None:
    """Where the tables of all constraints are too large."""
    p = problem(lower_operator("matmul(m=3000, k=1000, n=5000, fp16)"), load("Ascend910B3"))
    grid, program = p.space.grids[1], p.sketches[1].program
    conditions = [c.condition for c in program.constraints]
    drawing = draws(grid, conditions)
    assert drawing.others and few(grid, conditions, 1 << 16) is None
    rows = drawing.rows(300, np.random.RandomState(0))
    assert all(p.legal([(1, v) for v in zip(*[c.tolist() for c in rows.values()])])) and len(rows["tm"]) == 300
    last = cuts(grid, program.constraints)[-1]
    plain = np.random.RandomState(1)
    any_rows = {n: np.array(c)[plain.randint(len(c), size=1 << 17)] for n, c in zip(grid.names, grid.choices)}
    kept = int(holding(conditions, any_rows, 1 << 17).sum())
    assert kept > 300 and abs(last.left - kept * grid.size / 2**17) < 4 * np.hypot(last.error, grid.size / 2**17 * kept**0.5)
    assert 0 < last.error < last.left / 20
