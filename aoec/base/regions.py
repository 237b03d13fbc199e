"""Regions of a model that run in slices, as words: g3..g12/4 is from group g3 to g12, in four."""
from __future__ import annotations

import re

from aoec.base.errors import ParseError

Regions = tuple[tuple[str, str, int], ...]  # first group, last group, slices


def regions(text: str) -> Regions:
    """The regions that a text names; ParseError where it names none."""
    found = [re.fullmatch(r"([^./,\s]+)(?:\.\.([^./,\s]+))?/([0-9]{1,4})", part) for part in text.split(",")]
    if not all(found):
        raise ParseError(f"{text!r} is not of the form g3..g12/4, or g3..g12/4,g15/2")
    return tuple((m[1], m[2] or m[1], int(m[3])) for m in found if m)


def asked(text: str) -> Regions | None:
    """The regions that a user asks for: of "none" nothing, of "auto" None; ParseError of what is neither, and names none."""
    return None if text == "auto" else () if text == "none" else regions(text)
