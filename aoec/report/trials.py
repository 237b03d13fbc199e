"""The table of all that a search looked at, a row a candidate, in the form that the ending of its file says."""
from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

COLUMNS = ("order", "rank", "sketch", "status", "ticks", "modelled_us", "reason")


@dataclass(frozen=True)
class Line:
    """One candidate: its place among all, in the canonical order of the space, its sketch and the values of its holes, how it ended."""

    order: int
    rank: int
    sketch: int
    holes: Mapping[str, int]
    status: str
    ticks: int | None
    modelled_us: float | None
    reason: str


def as_csv(lines: Iterable[Line], names: Sequence[str]) -> str:
    """Return the table as CSV; a hole that a sketch has not, a time that there is not, is empty."""
    out = StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write([*COLUMNS, *[f"?{n}" for n in names]])
    for line in lines:
        write([*[getattr(line, c) for c in COLUMNS], *[line.holes.get(n, "") for n in names]])
    return out.getvalue()


def as_json_lines(lines: Iterable[Line], names: Sequence[str] = ()) -> str:
    """Return the table as JSON, a line a candidate."""
    return "".join(json.dumps({**{c: getattr(x, c) for c in COLUMNS}, "holes": dict(x.holes)}) + "\n" for x in lines)


FORMS: dict[str, Callable[[Iterable[Line], Sequence[str]], str]] = {".csv": as_csv, ".jsonl": as_json_lines}  # by the ending of a file
