"""Laws of flat values: through JSON and back every noun is what it was, to its text; other values are refused and never run."""
from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.index import Binary, Float, Int
from aoec.ir.program import Instr
from aoec.ir.text.flat import CLASSES, flat, noun
from aoec.ir.text.show import show
from tests.laws.strategies import NOUNS, element_exprs, integer_exprs

KINDS = {"expr": st.one_of(integer_exprs(("m", "n"), 3), element_exprs({"A": 2, "s": 0}, ("m",), 3, guards=True)),
         **{kind: NOUNS[kind] for kind in ("graph", "trace", "program")}}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_noun_comes_back(kind: str) -> None:
    @settings(max_examples=25, deadline=None)
    @given(KINDS[kind])
    def law(x: object) -> None:
        back = noun(json.loads(json.dumps(flat(x))))
        assert back == x and show(back) == show(x)
    law()


def test_equal_and_yet_other_numbers_stay_apart() -> None:
    e = Binary("+", Binary("*", Float(0.0), Float(-0.0)), Binary("-", Int(1), Float(1.0)))
    assert repr(noun(json.loads(json.dumps(flat(e))))) == repr(e)


@given(st.recursive(st.none() | st.booleans() | st.integers(-3, len(CLASSES) + 1) | st.floats() | st.text(max_size=3),
                    lambda inner: st.lists(inner, max_size=5), max_leaves=20))
@settings(max_examples=300, deadline=None)
def test_other_values_are_refused_or_are_nodes(value: object) -> None:
    try:
        made = noun(value)  # type: ignore[arg-type]
    except (ValueError, TypeError, LookupError, AttributeError):
        return
    assert type(made) in CLASSES


def test_fields_of_an_instruction_that_are_not_written_stay_so() -> None:
    i = Instr("mmad", (("m", Int(16)), ("unit", Int(1))))
    assert noun(json.loads(json.dumps(flat(i)))) == i
