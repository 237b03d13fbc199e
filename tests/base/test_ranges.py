"""Ranges and axes: the numbers that each form says, and a sentence for what is none."""
from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import ParseError
from aoec.base.ranges import Axis, axis, numbers


@pytest.mark.parametrize("text, wanted", [
    ("64", (64,)), ("64,128", (64, 128)), ("128..1024*2", (128, 256, 512, 1024)), ("128..1000*2", (128, 256, 512)),
    ("16..64+16", (16, 32, 48, 64)), ("16..63+16", (16, 32, 48)), ("1..4", (1, 2, 3, 4)), ("7..7*3", (7,)),
    (" 64 , 16..64*2", (64, 16, 32)), ("0,1", (0, 1)),
])
def test_forms(text: str, wanted: tuple[int, ...]) -> None:
    assert numbers(text) == wanted


@given(st.integers(1, 10_000), st.integers(0, 100_000), st.integers(2, 7))
def test_a_geometric_range_is_all_products_that_fit(first: int, more: int, factor: int) -> None:
    found = numbers(f"{first}..{first + more}*{factor}")
    assert all(b == a * factor for a, b in pairwise(found)) and found[0] == first and found[-1] <= first + more < found[-1] * factor


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 700))
def test_an_arithmetic_range_is_pythons(first: int, more: int, step: int) -> None:
    assert numbers(f"{first}..{first + more}+{step}") == tuple(range(first, first + more + 1, step))


@pytest.mark.parametrize("text, words", [
    ("", "is no range of whole numbers"), ("64,", "is no range"), ("1.5", "is no range"), ("-4", "is no range"), ("4..2", "is empty"),
    ("1..8*1", "never ends"), ("0..8*2", "never ends"), ("1..8+0", "never ends"), ("1..999999999999", "at most 1,000,000"),
    ("1..1000000,1..999999999+1000", "at most 1,000,000"),
])
def test_what_is_no_range(text: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        numbers(text)


def test_axes() -> None:
    assert axis("m=1,2") == Axis("m", False, (1, 2)) and axis("?tm=all") == Axis("tm", True, None)
    for text in ("m", "?=3", "m 3", "2m=3", ""):
        with pytest.raises(ParseError, match="is not of the form"):
            axis(text)
