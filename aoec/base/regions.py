"""Regions of a model that run in slices, as words: g3..g12/4 is from group g3 to g12, in four."""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from aoec.base.errors import ParseError

Regions = tuple[tuple[str, str, int], ...]  # first group, last group, slices


@dataclass(frozen=True)
class Slices:
    """Which regions are to run in slices: these, or by a `source`: "bank", what a bank says is faster; "search", what is found to be, where
    the bank says nothing; "" no others."""

    regions: Regions = ()
    source: str = ""


SOURCES = {"none": "", "auto": "search", "bank": "bank"}  # by the words of users


def regions(text: str) -> Regions:
    """Return the regions that a text names; ParseError where it names none."""
    found = [re.fullmatch(r"([^./,\s]+)(?:\.\.([^./,\s]+))?/([0-9]{1,4})", part) for part in text.split(",")]
    if not all(found):
        raise ParseError(f"{text!r} is not of the form g3..g12/4, or g3..g12/4,g15/2")
    return tuple((m[1], m[2] or m[1], int(m[3])) for m in found if m)


def show(found: Iterable[tuple[str, str, int]]) -> str:
    """Return the text of regions, which `regions` reads."""
    return ",".join(f"{first}..{last}/{slices}" if first != last else f"{first}/{slices}" for first, last, slices in found)


def parse_slices(text: str) -> Slices:
    """Parse what a user asks for. ParseError where it is neither of SOURCES, and names no regions."""
    return Slices(source=SOURCES[text]) if text in SOURCES else Slices(regions(text))
