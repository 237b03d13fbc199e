"""Ranges of whole numbers as a user writes them: `64,128`, `128..8192*2` (times 2), `128..1024+128` (plus 128), `1..8` (plus 1)."""
from __future__ import annotations

import re
from dataclasses import dataclass

from aoec.base.errors import ParseError

MOST = 1_000_000  # numbers of one range: more would be no sweep that anybody reads
ITEM = re.compile(r"([0-9]{1,12})(?:\.\.([0-9]{1,12})(?:([*+])([0-9]{1,12}))?)?")
NAME = re.compile(r"(\??)([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
FORMS = "64,128 or 128..8192*2 (times 2) or 128..1024+128 (plus 128)"


@dataclass(frozen=True)
class Axis:
    """A variable and its values in the order given. `hole`: written `?name`, so that nothing but a hole is meant; `values` None: all of
    the hole's own choices."""

    name: str
    hole: bool
    values: tuple[int, ...] | None


def axis(text: str) -> Axis:
    """Return the axis that `m=128..8192*2`, `?tm=64,128` or `?tm=all` says; ParseError where it is none of these."""
    match = NAME.fullmatch(text.strip())
    if match is None:
        raise ParseError(f"{text!r} is not of the form m=128..8192*2 or ?tm=64,128")
    mark, name, values = match.groups()
    return Axis(name, bool(mark), None if values.strip() == "all" else numbers(values))


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list of single ones and ranges, each once, in the order given; ParseError where one is not of these forms."""
    out = dict.fromkeys(n for item in text.split(",") for n in _item(item.strip()))
    if len(out) > MOST:
        raise ParseError(f"{text!r} has {len(out):,} values; at most {MOST:,} are swept")
    return tuple(out)


def _item(text: str) -> range | list[int]:
    """Return the numbers of one item."""
    match = ITEM.fullmatch(text)
    if match is None:
        raise ParseError(f"{text!r} is no range of whole numbers; write {FORMS}")
    first, last = int(match[1]), int(match[2] or match[1])
    step = int(match[4] or 1)
    if last < first:
        raise ParseError(f"{text!r} is empty: {last} is less than {first}")
    if match[3] == "*":
        return _powers(text, first, last, step)
    if step < 1:
        raise ParseError(f"{text!r} never ends: a step of 0")
    if (last - first) // step >= MOST:
        raise ParseError(f"{text!r} has {(last - first) // step + 1:,} values; at most {MOST:,} are swept")
    return range(first, last + 1, step)


def _powers(text: str, first: int, last: int, factor: int) -> list[int]:
    """Return first, first * factor, ... up to last."""
    if first < 1 or factor < 2:
        raise ParseError(f"{text!r} never ends: a range that is multiplied starts at 1 or more, and its factor is 2 or more")
    out = [first]
    while out[-1] * factor <= last:
        out.append(out[-1] * factor)
    return out
