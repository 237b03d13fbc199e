"""A candidate that breaks a constraint is told which, and by how much; one that keeps it is told nothing."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.ir.func.tir import Constraint
from aoec.ir.index import evaluate
from aoec.ir.refusal import refusals
from aoec.ir.text.parse import parse_expr

CASES = [
    ("?a * 512 <= 65536", 200, "L0A holds 65536 bytes: x need more (needs 102,400 of 65,536); use less"),
    ("?a % 16 == 0 or ?a < 10", 24, "L0A holds 65536 bytes: x need more (is 24, no multiple of 16); use less"),
    ("?a == 7 and ?a > 3", 5, "L0A holds 65536 bytes: x need more (is 5, must be 7); use less"),
    ("?a >= 2 and ?a < 3", 5, "L0A holds 65536 bytes: x need more (is 5, must be below 3); use less"),
    ("?a != 2", 2, "L0A holds 65536 bytes: x need more (is 2, must not be 2); use less"),
    ("?a >= 10", 2, "L0A holds 65536 bytes: x need more (is 2, must be 10 or more); use less"),
    ("?a > 10", 2, "L0A holds 65536 bytes: x need more (is 2, must be above 10); use less"),
    ("not(?a) or ?a > 9", 2, "L0A holds 65536 bytes: x need more (is 2, must be above 9); use less"),
    ("not(?a)", 2, "L0A holds 65536 bytes: x need more; use less"), ("0", 2, "L0A holds 65536 bytes: x need more; use less"),
    ("?a % (?a - 2) == 1", 2, "L0A holds 65536 bytes: x need more (is 0, must be 1); use less"), ("?a <= 3", 3, "")]


@pytest.mark.parametrize(("condition", "value", "words"), CASES)
def test_reason_with_numbers(condition: str, value: int, words: str) -> None:
    c = Constraint(parse_expr(condition), "L0A holds 65536 bytes: x need more; use less")
    assert refusals(c, {"a": np.array([value])}, 1) == [words]


def test_a_reason_without_advice_ends_with_its_numbers() -> None:
    few = Constraint(parse_expr("?a <= 3"), "few")
    assert refusals(few, {"a": np.array([4, 3, 5])}, 3) == ["few (needs 4 of 3)", "", "few (needs 5 of 3)"]


@given(st.sampled_from([c for c, _, _ in CASES]), st.lists(st.integers(-9, 300), min_size=1, max_size=8))
def test_told_are_those_and_only_those_that_break_it(condition: str, values: list[int]) -> None:
    c = Constraint(parse_expr(condition), "why")
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = [bool(evaluate(c.condition, {"a": np.array([v])})) for v in values]
    assert [text == "" for text in refusals(c, {"a": np.array(values)}, len(values))] == kept
