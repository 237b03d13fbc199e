"""The facts of a space are those of an enumeration; what is said of an empty one names what emptied it."""
from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from aoec.jobs.stages.space import space_facts, why_empty
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.report.space import choices, count, lines
from aoec.search.space import count as counting
from aoec.search.space import eliminate
from aoec.search.space.restrict import NONE, Restriction, parse_where
from aoec.simulate.encode.tables import first_false
from aoec.target.machine import load

MACHINE = load("Ascend910B3")
SOFTMAX, MATMUL = lower_operator("softmax(m=512, n=768)"), lower_operator("matmul(m=64, k=64, n=64)")


def enumerated(p: Problem, number: int) -> list[int]:
    """Candidates of a sketch that keep its first 1, 2, 3 ... constraints, by the timeline's own check of each."""
    grid, encoded = p.space.grids[number], p.sketches[number].encoded
    first = first_false(encoded, p.space.rows(number, 0, grid.size), grid.size)
    return [int(np.sum((first == 0) | (first > i + 1))) for i in range(len(encoded.program.constraints))]


def test_what_each_constraint_leaves_is_what_an_enumeration_finds() -> None:
    r = Restriction(excluded=(("t0", (7,)),), where=(parse_where("t0*g0 <= 700"),))
    p = problem(SOFTMAX, MACHINE, restriction=r)
    facts: Any = space_facts(p, r)
    (s,) = facts["sketches"]
    assert [c["left"] for c in s["constraints"]] == enumerated(p, 0)
    assert facts["size"] == p.space.size and facts["legal"] == s["legal"] == enumerated(p, 0)[-1] and facts["error"] == 0
    assert s["constraints"][0]["reason"] == "--where 't0*g0 <= 700' holds" and 7 not in s["holes"]["t0"]


def test_sketches_are_told_apart_and_shown_with_what_cuts_them() -> None:
    r = Restriction(pins=(("rk", (2,)),), picked=(0, 1, 2, 3, 6))
    p = problem(MATMUL, MACHINE, restriction=r)
    facts: Any = space_facts(p, r)
    assert len({s["structure"] for s in facts["sketches"]}) == 5
    assert facts["sketches"][1]["structure"] == "loops m_s n_s k_2 k_1 k_0; A in L1 at k_2; B in L1 at k_1; cores m_c n_c"
    text = lines(facts)
    assert text.startswith(f"g0 on Ascend910B3: 5 sketches, {facts['size']:,} candidates, {facts['legal']:,} legal\n")
    assert "sketch 6: loops m_s n_s k_1 k_0; A in L1 at m_s; B in L1 at k_1" in text
    listed = text.splitlines()[2:8]  # first an overview, a line for each
    assert listed[0].split() == ["sketch", "candidates", "legal"] and [row.split()[0] for row in listed[1:]] == ["0", "1", "2", "3", "6"]
    assert all(s["structure"] in row and f"{s['size']:,}" in row for s, row in zip(facts["sketches"], listed[1:]))
    assert text.count("  not restricted by --pin rk=2, whose holes it has not\n") == 3
    assert text.splitlines()[-1] == "what a hole decides: aoec holes NAME"
    assert "flags MTE2 to MTE1 have 6 ids (da, db)" in text and "more constraints take nothing" in text


def test_an_empty_space_is_one_sentence_that_says_what_emptied_it() -> None:
    by_option = problem(SOFTMAX, MACHINE, restriction=Restriction(where=(parse_where("t0 > 10000"),)))
    assert why_empty(by_option) == (f"nothing is left of the space: none of {by_option.space.size:,} candidates keeps "
                                    "--where 't0 > 10000'; ask for less")
    by_limit = problem(SOFTMAX, MACHINE, restriction=Restriction(where=(parse_where("t0 > 100 and t0*g0 < 300"),)))
    left = enumerated(by_limit, 0)
    before = next(a for a, b in pairwise(left) if not b)
    assert why_empty(by_limit).startswith(f"none of {before:,} candidates is legal: UB holds 196608 bytes: ")


def test_a_default_is_found_where_little_is_left() -> None:
    """Of 10^10 candidates some hundreds are left, none near a stock block: they are drawn, not guessed."""
    where = "tm == 48 and tn == 32 and tk == 32 and sk == 3 and gm*gn == 2 and da*db == 4 and d0a == 1 and pl == 0"
    p = problem(MATMUL, MACHINE, restriction=Restriction(where=(parse_where(where),), picked=(0,)))
    assert why_empty(p) == "" and 0 < space_facts(p, NONE)["legal"] < 100  # type: ignore[operator]
    first = start(p)
    values = p.values(first.default)
    assert (values["tm"], values["tk"], values["gm"] * values["gn"]) == (48, 32, 2) and first.default_ticks > 0


def test_an_estimate_says_that_it_is_one() -> None:
    p = problem(MATMUL, MACHINE, restriction=Restriction(picked=(1,)))
    with pytest.MonkeyPatch.context() as m:
        m.setattr(eliminate, "TABLE", 10)
        facts: Any = space_facts(p, NONE)
        exactly = counting.estimate_prefixes(p.space.grids[0], [c.condition for c in p.sketches[0].program.constraints])
    assert facts["error"] > 0 and f"about {facts['legal']:,} (estimate, standard error " in lines(facts)
    assert [(c["left"], c["error"]) for c in facts["sketches"][0]["constraints"]] == exactly


def test_words_for_people() -> None:
    assert choices([1, 2, 3, 4]) == "1 to 4" and choices([1, 2]) == "1 2" and choices([16, 32]) == "16 32"
    assert choices([*range(1, 30, 2), 100]) == "1 3 5 7 9 11 13 15 17 ... 29 100"
    assert count(1234, 0.0) == "1,234" and count(1234, 5.4) == "about 1,234 (estimate, standard error 5)"
