"""A sweep's rows as CSV and JSON, and as lines along one variable: what a table for people and a picture show."""
from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# of the columns, in this order; a name with a dot at its end stands for all that begin so
COLUMNS = ("schedule", "target", "status", "reason", "found", "file", "verified", "kind", "cycles", "time_us", "launch_us", "bound_us",
           "cores", "bound_by", "verdict", "busy_cycles.", "hbm_bytes", "l2_bytes", "bytes.", "used_bytes.")
ALWAYS = ("schedule", "target", "status", "reason", "kind", "cycles", "time_us", "bound_us")
DONE = ("timed", "wrong value")  # statuses of rows that have a time
SHOWN = 40  # rows of a table for people
Row = dict[str, Any]


@dataclass
class Sheet:
    """Rows of a sweep in slabs of columns. `swept`: its variables, holes as ?name; `x`: the one that lines go along, "" where none varies;
    `apart`: the other sizes, of which each choice is a line of its own; over holes a line takes the fastest."""

    title: str
    state: str
    swept: tuple[str, ...]
    x: str
    apart: tuple[str, ...]
    slabs: list[dict[str, np.ndarray]] = field(default_factory=list)
    count: int = 0

    def add(self, rows: Sequence[Row]) -> None:
        """Keep some rows; numbers take eight bytes each, for there may be a million rows."""
        if not rows:
            return
        self.count += len(rows)
        names = dict.fromkeys(name for row in rows for name in row)
        self.slabs.append({name: column([row.get(name) for row in rows]) for name in names})

    def columns(self) -> list[str]:
        """Return the names of all columns, in order."""
        there = dict.fromkeys([*ALWAYS, *(name for slab in self.slabs for name in slab)])
        ranks = {name: i for i, name in enumerate(COLUMNS)}
        rest = [name for name in there if name not in self.swept]
        return [*self.swept, *sorted(rest, key=lambda name: ranks.get(name, ranks.get(name.partition(".")[0] + ".", len(ranks))))]

    def rows(self, names: Sequence[str]) -> Iterator[Row]:
        """Yield each row, with None where it has nothing in a column."""
        for slab in self.slabs:
            count = len(next(iter(slab.values())))
            table = [slab[n].tolist() if n in slab else [None] * count for n in names]
            for values in zip(*table):
                yield {n: plain(v) for n, v in zip(names, values)}


def column(values: Sequence[Any]) -> np.ndarray:
    """Return the values as an array: of reals, with NaN for what is missing, or of objects."""
    real = all(v is None or isinstance(v, (float, int)) for v in values) and any(isinstance(v, float) for v in values)
    if real:
        return np.array([np.nan if v is None else v for v in values], np.float64)
    out = np.empty(len(values), object)
    out[:] = values
    return out


def plain(value: Any) -> Any:
    """Return a number with six decimals at most (of µs: picoseconds), whole where it is whole. Return None where it is missing."""
    if not isinstance(value, float):
        return value
    return None if value != value else int(value) if value == int(value) else round(value, 6)


# ---------------------------------------------------------------- for programs

def csv_text(sheet: Sheet) -> str:
    """Return a line of names and one a row."""
    names, out = sheet.columns(), io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(sheet.rows(names))
    return out.getvalue()


def json_text(sheet: Sheet) -> str:
    """Return the rows as JSON; what a column says by pipe, path or scope is an object of its own."""
    facts = {"kind": "modelled", "input": sheet.title, "state": sheet.state, "swept": list(sheet.swept)}
    rows = ",\n  ".join(json.dumps(nest_columns(row)) for row in sheet.rows(sheet.columns()))
    return json.dumps(facts)[:-1] + f', "rows": [\n  {rows}\n]}}\n'


def nest_columns(row: Mapping[str, Any]) -> Row:
    """Return a row with its columns `a.b` as {a: {b: ...}}, without what is missing in these."""
    out: Row = {}
    for name, value in row.items():
        head, dot, tail = name.partition(".")
        if not dot:
            out[name] = value
        elif value is not None:
            out.setdefault(head, {})[tail] = value
    return out


# ---------------------------------------------------------------- for people

@dataclass
class Line:
    """The times of one schedule on one machine along x, in µs: `best` by x, `every` row, `level` where x does not matter to it.

    `illegal`: x -> why, where no row has a time; a row without an x of its own is in none. `sizes`: the other sizes, in words: lines of
    the same ones compare.
    """

    label: str
    sizes: str = ""
    best: dict[int, float] = field(default_factory=dict)
    every: list[tuple[int, float]] = field(default_factory=list)
    level: float | None = None
    illegal: dict[int, str] = field(default_factory=dict)


def lines(sheet: Sheet) -> tuple[list[Line], list[Line]]:
    """Return the lines of schedules, and those of lower bounds by machine and other sizes."""
    targets = {v for row in sheet.rows(["target"]) for v in row.values()}
    out: dict[str, Line] = {}
    bounds: dict[str, Line] = {}
    for row in sheet.rows([*sheet.swept, "schedule", "target", "status", "reason", "time_us", "bound_us"]):
        sizes = [f"{name}={row[name]}" for name in sheet.apart]
        words = sizes + ([row["target"]] if len(targets) > 1 else [])
        line = out.setdefault(label := " ".join([row["schedule"], *words]), Line(label, " ".join(sizes)))
        x = row[sheet.x] if sheet.x else 0
        put(line, x, row)
        if row["bound_us"] is not None and x is not None:
            bounds.setdefault(label := " ".join(["bound", *words]), Line(label)).best[x] = row["bound_us"]
    for line in out.values():
        line.illegal = {x: why for x, why in line.illegal.items() if x not in line.best}
    return list(out.values()), list(bounds.values())


def put(line: Line, x: int | None, row: Row) -> None:
    """Count a row in."""
    us = row["time_us"]
    if row["status"] not in DONE:
        if x is not None:
            line.illegal.setdefault(x, row["reason"])
    elif x is None:
        line.level = min(us, us if line.level is None else line.level)
    else:
        line.every.append((x, us))
        line.best[x] = min(us, line.best.get(x, us))


def table(sheet: Sheet) -> str:
    """Return a column for each line and a row for each value of x, the least first, in µs; the fastest is marked, what is illegal is a
    dash."""
    drawn, _ = lines(sheet)
    xs = sorted({x for line in drawn for x in (*line.best, *line.illegal)})
    head = [sheet.x or "", *(f"{line.label} " for line in drawn)]
    body = [[str(x) if sheet.x else "", *cells(drawn, x)] for x in xs[:SHOWN]]
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    more = [f"... and {len(xs) - SHOWN:,} more"] if len(xs) > SHOWN else []
    text = ["  ".join(word.rjust(width) for word, width in zip(row, widths)).rstrip() for row in [head, *body]]
    return "\n".join([f"{sheet.title}: µs, modelled, {sheet.state}; * the fastest", *text, *more]) + "\n"


def cells(drawn: Sequence[Line], x: int) -> list[str]:
    """Return the times of all lines at x; of those of the same sizes the fastest is marked."""
    times = [(line.sizes, line.best.get(x, line.level)) for line in drawn]
    groups = {sizes: [t for same, t in times if same == sizes and t is not None] for sizes, _ in times}
    counts = {sizes: sum(line.sizes == sizes for line in drawn) for sizes in groups}
    return ["- " if t is None else f"{t:,.2f}" + ("*" if t == min(groups[sizes]) and counts[sizes] > 1 else " ") for sizes, t in times]


def summary(sheet: Sheet, expected: int) -> str:
    """Return how many rows of each status there are, and why the first that is not timed is not."""
    counts: dict[str, int] = {}
    first = ""
    for row in sheet.rows(["status", "reason"]):
        counts[row["status"]] = counts.get(row["status"], 0) + 1
        first = first or (row["reason"] if row["status"] != "timed" else "")
    words = ", ".join(f"{n:,} {status}" for status, n in counts.items())
    rows = (f"{sheet.count:,}" if sheet.count == expected else f"{sheet.count:,} of {expected:,}") + " row" + "s" * (expected > 1)
    return f"{rows}: {words or 'none'}" + (f"; the first reason: {first}" if first else "")


def skipped_words(verified: Iterable[str]) -> str:
    """Say how many rows were not checked for values, and why the first was not; empty where all were."""
    left = [v for v in verified if v and v.startswith("skipped")]
    return f"values not checked: {len(left):,} row{'s' * (len(left) > 1)} ({left[0]})" if left else ""
