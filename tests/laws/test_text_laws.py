"""Laws of text: every noun reads back as it was written, and a damaged text is read or refused, never worse."""
from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError, ParseError
from aoec.ir.check import check
from aoec.ir.func.meaning import Argument, Meaning, Statement
from aoec.ir.index import Float, Hole, Int, Read
from aoec.ir.text import parse
from aoec.ir.text.show import show
from tests.laws.strategies import NOUNS, element_exprs, integer_exprs

PARSERS = {"meaning": parse.parse_meaning, "graph": parse.parse_graph, "plan": parse.parse_plan, "func": parse.parse_func,
           "trace": parse.parse_trace, "program": parse.parse_program}
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
EXPRS = st.one_of(integer_exprs(("m", "n", "inf", "min"), 3), element_exprs({"A": 2, "inf": 1, "s": 0}, ("m", "for"), 3, guards=True))


@QUICK
@given(EXPRS)
def test_an_expression_reads_back(e):
    assert parse.parse_expr(show(e)) == e


@pytest.mark.parametrize("kind", sorted(NOUNS))
def test_a_noun_reads_back_and_its_text_damaged_or_cut_is_read_or_refused(kind):
    """Three laws of one noun, for to draw it takes longer than to ask any of them."""
    @QUICK
    @given(NOUNS[kind], st.data(), st.floats(0, 1))
    def law(noun, data, part):
        check(noun)
        text = show(noun)
        reads_back_and_is_stable(kind, noun, text)
        damaged_is_read_or_refused_with_its_place(kind, text, data)
        cut_is_refused_at_its_end(kind, text[:int(part * (len(text) - 1))])
    law()


def reads_back_and_is_stable(kind, noun, text):
    again = PARSERS[kind](text)
    assert again == noun
    assert show(again) == text


TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\??[A-Za-z_][A-Za-z0-9_]*|[0-9.]+|[-+*/=<>!]+|[^\sA-Za-z0-9_]')


def damaged_is_read_or_refused_with_its_place(kind, text, data):
    words = TOKEN.findall(text)
    at = data.draw(st.integers(0, len(words) - 1))
    strange = ["$", "(", "]", "9" * 30, "in", "for", "1.", '"', "\x00", "sha256:", "=="]
    other = data.draw(st.one_of(st.sampled_from(words), st.sampled_from(strange)))
    how = data.draw(st.sampled_from(["drop", "replace", "insert"]))
    words[at:at + (how != "insert")] = [] if how == "drop" else [other]
    try:
        PARSERS[kind](" ".join(words), "t")
    except ParseError as e:  # CheckError is one
        assert str(e).startswith("t:") and len(str(e)) < 1500
        assert isinstance(e, CheckError) or re.search("expected|too", e.message)


def cut_is_refused_at_its_end(kind, cut):
    with pytest.raises(ParseError) as e:
        PARSERS[kind](cut, "t")
    assert e.value.line <= cut.count("\n") + 1


def test_a_target_named_in_after_a_hole_is_quoted():
    """`init ?d in[...]` would read as the hole's choices."""
    statements = (Statement(Read("b", (Int(0),)), "=", Float(0.0), Hole("d")), Statement(Read("in", ()), "=", Float(0.0)))
    noun = Meaning("a", (Argument("a", ()),), (), (Argument("in", ()),), statements)
    assert parse.parse_meaning(show(noun)) == noun
