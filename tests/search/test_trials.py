"""Every candidate that a search looked at ends in one status of the list; the table says of each which, and why."""
from __future__ import annotations

import csv
import json
from io import StringIO
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.ir.func.tir import Constraint
from aoec.ir.text.parse import parse_expr
from aoec.jobs.stages.search import best_facts, trial_table
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Outcome, Problem, problem, search, start
from aoec.report.trials import COLUMNS
from aoec.search.space.grid import Grid, Rows, Space
from aoec.search.space.trials import BEST, Ledger, Phase, Status
from aoec.target.machine import load

MACHINE = load("Ascend910B3")
SMALL, LARGE = "softmax(m=48, n=256)", "add(m=128, n=768)"
BUDGET = 60
GRID = Grid(("a", "b"), (tuple(range(40)), tuple(range(20))))


@pytest.fixture(scope="module", params=[SMALL, LARGE])
def searched(request: pytest.FixtureRequest) -> tuple[Problem, Outcome, Outcome]:
    """A problem, its default, and what was found of a space that is searched whole, and by a few trials of one that is not."""
    p = problem(lower_operator(request.param), MACHINE)
    p.ledger.whole = True
    first = start(p)
    return p, first, search(p, first, "genetic", ("trials", BUDGET), 0)


def rows_of(p: Problem) -> list[dict[str, object]]:
    return [json.loads(line) for line in trial_table(p, "x.jsonl").splitlines()]


def test_the_table_holds_each_candidate_once_as_it_was_timed(searched: tuple[Problem, Outcome, Outcome]) -> None:
    p, first, found = searched
    rows = rows_of(p)
    assert [r["order"] for r in rows] == list(range(len(rows))) and len({r["rank"] for r in rows}) == len(rows)
    assert len(rows) == len(p.costs) + len(p.given_up)
    for r in rows:
        candidate = p.space.at(int(str(r["rank"])))
        ticks = p.costs.get(candidate)
        assert (r["ticks"], r["holes"]) == (ticks, p.values(candidate))
        assert (r["status"] in ("timed", "cached")) == (ticks is not None) == (r["reason"] == "")
        assert r["status"] in ("timed", "cached", "illegal", "abandoned") and (r["status"] == "abandoned") == (candidate in p.given_up)
    assert min(int(str(r["ticks"])) for r in rows if r["ticks"]) == found.ticks <= first.ticks


def test_counts_are_those_of_the_table(searched: tuple[Problem, Outcome, Outcome]) -> None:
    p, _, found = searched
    statuses = [r["status"] for r in rows_of(p)]
    counts = p.ledger.counts()
    assert list(counts) == list(Status) and {s.value: n for s, n in counts.items()} == {s.value: statuses.count(s.value) for s in Status}
    assert counts[Status.CACHED] > 0 and (counts[Status.ILLEGAL] > 0) == (found.proof != "space")
    assert sum(counts.values()) == len(p.costs) + len(p.given_up)
    if found.proof == "space":  # every legal candidate was asked for, and no other: what the default had timed was not timed again
        every = [p.space.at(r) for r in range(p.space.size)]
        assert counts[Status.TIMED] + counts[Status.CACHED] == sum(p.legal(every)) and found.illegal == 0


def test_a_budget_counts_what_the_strategy_asked_for_and_other_ends_are_counted_apart(searched: tuple[Problem, Outcome, Outcome]) -> None:
    """Every legal candidate has one end for which it was timed first, and trials never exceed the budget."""
    p, _, found = searched
    counts, spent = p.ledger.counts(), found.spent
    legal = counts[Status.TIMED] + counts[Status.CACHED] + counts[Status.ABANDONED]
    assert sum(spent.candidates.values()) == legal and set(spent.candidates) == {phase.value for phase in Phase}
    assert found.trials == spent.trials <= BUDGET and spent.candidates["default"] > 0
    assert spent.candidates["search"] <= spent.trials  # those that the default had timed are trials too
    if found.proof == "space":
        assert spent.trials == 0 < spent.candidates["proof"]  # more than the budget, and all of them
    else:
        assert spent.trials == BUDGET and spent.candidates["proof"] == 0


def test_an_illegal_candidate_is_told_which_limit_and_by_how_much(searched: tuple[Problem, Outcome, Outcome]) -> None:
    p, *_ = searched
    for r in rows_of(p):
        if str(r["reason"]).startswith("UB holds"):
            needs, has = (int(x.replace(",", "")) for x in str(r["reason"]).partition("(needs ")[2].partition(")")[0].split(" of "))
            assert needs > has == MACHINE.scope("UB").size_bytes
        elif r["reason"]:
            assert "(is " in str(r["reason"]) or "(needs " in str(r["reason"]) or r["status"] == "abandoned"


def test_the_best_hundred_are_the_hundred_best(searched: tuple[Problem, Outcome, Outcome]) -> None:
    p, _, found = searched
    timed = sorted((ticks, p.space.rank(c)) for c, ticks in p.costs.items() if ticks is not None)
    best = best_facts(p)
    assert [(b["ticks"], b["rank"]) for b in best] == timed[:BEST] and best[0]["ticks"] == found.ticks
    assert best[0]["holes"] == p.values(p.space.at(timed[0][1]))


def test_both_forms_of_the_table_say_the_same(searched: tuple[Problem, Outcome, Outcome]) -> None:
    p, *_ = searched
    lines = list(csv.DictReader(StringIO(trial_table(p, "x.csv"))))
    for line, r in zip(lines, rows_of(p), strict=True):
        assert {c: line[c] for c in COLUMNS} == {c: "" if r[c] is None else str(r[c]) for c in COLUMNS}
        assert {k[1:]: int(v) for k, v in line.items() if k.startswith("?") and v} == r["holes"]


@given(st.lists(st.sampled_from([0, 0, 1, 2, -1, -3]), min_size=1, max_size=300), st.integers(1, 90), st.randoms(use_true_random=False))
def test_batches_of_any_size_count_the_same(codes: list[int], size: int, random: np.random.RandomState) -> None:
    space = Space((GRID,))
    values = list(product(*GRID.choices))[:len(codes)]
    ticks = [random.randint(1, 40) if c == 0 else 0 for c in codes]
    ledger = Ledger(space, True, abandoned=-3)
    for i in range(0, len(codes), size):
        part = slice(i, i + size)
        columns: Rows = dict(zip("ab", np.array(values[part]).T))
        ledger.note(0, columns, np.array(ticks[part]), np.array(codes[part]))
    wanted = {Status.TIMED: codes.count(0), Status.ILLEGAL: codes.count(1) + codes.count(2), Status.FAILED: codes.count(-1),
              Status.ABANDONED: codes.count(-3), Status.CACHED: 0, Status.WRONG_VALUE: 0}
    assert ledger.counts() == wanted
    timed = sorted((t, space.rank((0, v))) for t, v, c in zip(ticks, values, codes) if c == 0)
    assert [(t, r) for t, r, _ in ledger.best] == timed[:BEST]
    limits = [Constraint(parse_expr("?a < 0"), "few"), Constraint(parse_expr("?b < 0"), "fewer")]
    told = list(ledger.trials(lambda grid: limits, {-1: "no", -3: "late"}))
    reasons = {0: "", 1: "few (is {a}, must be below 0)", 2: "fewer (is {b}, must be below 0)", -1: "no", -3: "late"}
    assert [t.reason for t in told] == [reasons[c].format(a=v[0], b=v[1]) for c, v in zip(codes, values)]
    assert [t.candidate[1] for t in told] == values and [t.ticks for t in told] == [t if c == 0 else None for t, c in zip(ticks, codes)]
