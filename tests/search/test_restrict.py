"""A restricted space is the space without what the options take from it, for the default and for every strategy."""
from __future__ import annotations

import pytest

from aoec.base.errors import CheckError, ParseError, ScheduleError
from aoec.ir.index import evaluate
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.budget import SMALL
from aoec.jobs.tune.tuning import Problem, problem, search, start
from aoec.search.sketches.sketches import sketches
from aoec.search.space.restrict import Restriction, parse_where
from aoec.search.strategies.strategies import STRATEGIES
from aoec.target.machine import load

MACHINE = load("Ascend910B3")
SOFTMAX, MATMUL = lower_operator("softmax(m=512, n=768)"), lower_operator("matmul(m=64, k=128, n=64)")
SOME = Restriction(pins=(("di", (1,)),), excluded=(("t0", (1, 2)),), where=(parse_where("t0*?g0 <= 320 and g0 >= 4"),))


@pytest.fixture(scope="module")
def whole() -> Problem:
    return problem(SOFTMAX, MACHINE)


@pytest.fixture(scope="module")
def left() -> Problem:
    return problem(SOFTMAX, MACHINE, restriction=SOME)


def legal_values(p: Problem) -> set[tuple[tuple[str, int], ...]]:
    every = [p.space.at(r) for r in range(p.space.size)]
    return {tuple(p.values(c).items()) for c, yes in zip(every, p.legal(every)) if yes}


def kept(values: dict[str, int]) -> bool:
    return values["di"] == 1 and values["t0"] > 2 and values["t0"] * values["g0"] <= 320 and values["g0"] >= 4


def test_what_is_legal_is_what_the_options_leave_of_it(whole: Problem, left: Problem) -> None:
    wanted = {v for v in legal_values(whole) if kept(dict(v))}
    assert 20 < len(wanted) < len(legal_values(whole)) / 2
    assert legal_values(left) == wanted
    assert left.space.size < whole.space.size


@pytest.mark.parametrize(("name", "where", "listed"), [
    *[(name, "tm*tn <= 1024 and gm*gn >= 2 and da == 1 and sk <= 2", True) for name in STRATEGIES],
    ("genetic", "tm*tn <= 1024 and gm*gn >= 2", False)])
def test_default_and_every_strategy_keep_to_it(name: str, where: str, listed: bool) -> None:
    """In a space of more legal candidates than are all tried: few enough to be listed, and too many."""
    p = problem(MATMUL, MACHINE, restriction=Restriction(pins=(("tk", (16, 32)),), where=(parse_where(where),), picked=(0, 1)))
    pool = p.pool()
    assert (pool is not None) == listed and (pool is None or pool.size > SMALL)
    first = start(p)
    found = search(p, first, name, ("trials", 30), 0)
    condition = p.restriction.where[0][1]
    assert all(evaluate(condition, v) and v["tk"] <= 32 for v in map(p.values, (first.default, found.best)))
    assert found.ticks <= first.ticks and (not listed or found.illegal == 0)


def test_a_sketch_without_the_hole_is_left_as_it_is() -> None:
    traces = sketches(MATMUL, MACHINE)
    r = Restriction(pins=(("rk", (2,)),), where=(parse_where("rk*tk <= 64"),))
    p = problem(MATMUL, MACHINE, restriction=r)
    having = ["rk" in g.names for g in p.space.grids]
    assert True in having and False in having and len(having) == len(traces)
    for s, g, has in zip(p.sketches, p.space.grids, having):
        assert (dict(zip(g.names, g.choices))["rk"] == (2,)) if has else s.trace == traces[s.number]
        assert r.passes_over(g.names) == ([] if has else ["--pin rk=2", "--where 'rk*tk <= 64'"])
        assert s.program.constraints[0].reason.startswith("--where") == has


def test_sketches_are_picked_by_number() -> None:
    p = problem(MATMUL, MACHINE, restriction=Restriction(picked=(2, 5)))
    assert [s.number for s in p.sketches] == [2, 5]


@pytest.mark.parametrize(("restriction", "why"), [
    (Restriction(pins=(("t0", (100_000,)),)), "--pin t0=100000 leaves nothing of the space: ?t0 is one of 1, 2, 3"),
    (Restriction(pins=(("di", (1,)),), excluded=(("di", (1,)),)), "--exclude di=1 leaves nothing of the space: ?di is one of 1;")])
def test_the_option_that_leaves_nothing_is_named(restriction: Restriction, why: str) -> None:
    with pytest.raises(ScheduleError) as e:
        problem(SOFTMAX, MACHINE, restriction=restriction)
    assert str(e.value).startswith(why)


def test_holes_and_sketches_that_are_not_there_are_refused() -> None:
    for r, why in ((Restriction(pins=(("dj", (1,)),)), "--pin dj=1: no sketch has a hole ?dj"),
                   (Restriction(picked=(0, 9)), "--sketch 9: sketches are numbered from 0 to 0")):
        with pytest.raises(CheckError, match="^" + why.replace("?", r"\?")):
            problem(SOFTMAX, MACHINE, restriction=r)
    with pytest.raises(CheckError) as e:
        problem(SOFTMAX, MACHINE, restriction=Restriction(where=(parse_where("t0 < 9 and g_0 > 1"),)))
    assert str(e.value).startswith("--where:1:12: no sketch has a hole ?g_0; did you mean g0?\n")
    assert str(e.value).splitlines()[2] == " " * 13 + "^"


@pytest.mark.parametrize(("text", "column", "why"), [
    ("tm*(tn", 7, "expected"), ("tm // (2 - 2) > 1", 4, "divides by zero"), ("tm < 1 or ceildiv(tn, 0) > 1", 11, "divides by zero"),
    ("tm % 2 / 3 == 1", 8, "is of reals"), ("2 < exp(tm)", 5, "exp is of reals"), ("tm + A[tn] > 1", 6, "no integer"),
    ("fp16(tm) > 1", 1, "no integer"), ("1 < 2", 1, "names no hole"), ("", 1, "expected")])
def test_what_is_no_condition_over_integers_is_refused_with_a_caret(text: str, column: int, why: str) -> None:
    with pytest.raises(ParseError) as e:
        parse_where(text)
    assert (e.value.line, e.value.column) == (1, column) and why in e.value.message


def test_plain_names_are_holes() -> None:
    (_, bare), (_, marked) = parse_where("tm*tn <= min(8, ?tk)"), parse_where("?tm * ?tn <= min(8, tk)")
    assert bare == marked and evaluate(bare, {"tm": 2, "tn": 3, "tk": 6}) == 1
