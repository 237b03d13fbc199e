"""Measured times: what a device took for operators, beside the records, which are modelled; none of them ever takes the place of another.

One is an operator of a profile (of so many calls of equal shapes); it is named by the file's hash and its first line there, so that
reading a file twice, or merging banks in any order, keeps each once.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sqlalchemy import Column, Integer, String, Table, inspect, select
from sqlalchemy.dialects.sqlite import insert

from aoec.bank import lines
from aoec.bank.record import CREATED, INTEGER_LIMIT, NAME_LIMIT, TEXT_LIMIT
from aoec.bank.store import Store, metadata
from aoec.base.errors import BankError

VERSION = 1  # of a line of an export
WHEN = ("", "before", "after")  # of what was delivered; "" of a profile alone
INTEGERS = ("line", "time_ns", "least_ns", "most_ns", "calls", "cores")


@dataclass(frozen=True, order=True)
class Measured:
    """`target`: the chip; `func_key`: of the func that does the same, "" where none is known here; `trace`: the schedule that is taken to
    have run, "" of the vendor's own, which is not known; `work`: the operator and its sizes in words. `time_ns`: the median of its
    `calls`; `cores`: 0 where the file does not say. `source`: the file's name, `digest` the first 16 hex digits of its sha256, `line` the
    first that it is in."""

    target: str
    digest: str
    line: int
    func_key: str
    trace: str
    work: str
    op_type: str
    op_name: str
    when: str
    time_ns: int
    least_ns: int
    most_ns: int
    calls: int
    cores: int
    source: str
    created: str = ""

    @property
    def us(self) -> float:
        return self.time_ns / 1e3


KEY = ("target", "digest", "line")
table = Table("measured", metadata, *[
    Column(f.name, Integer if f.name in INTEGERS else String, primary_key=f.name in KEY, nullable=False) for f in fields(Measured)])


class Measurements:
    """The measured times in a bank's file."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def put_all(self, found: Iterable[Measured]) -> tuple[str, ...]:
        """"added" or "kept" for each, in one transaction. Of one that is known in another form the canonically greater is kept."""
        given, out = [check_fields(asdict(m)) for m in found], []
        with self._store.writing() as c:
            for m in given:
                row = c.execute(select(table).where(*[table.c[n] == getattr(m, n) for n in KEY])).first()
                held = check_fields(dict(row._mapping)) if row is not None else None
                if held is None or _order(held) < _order(m):
                    c.execute(insert(table).prefix_with("OR REPLACE"), [asdict(m)])
                out.append("kept" if held is not None and _order(held) >= _order(m) else "added" if held is None else "updated")
        return tuple(out)

    def list(self, target: str | None = None, func_key: str = "") -> tuple[Measured, ...]:
        """Measured times, sorted; `target` selects by name, `func_key` by how the key begins. A bank that an older aoec wrote has none."""
        query = select(table).where(table.c.func_key.startswith(func_key, autoescape=True))
        query = query.where(table.c.target == target) if target is not None else query
        with self._store.reading() as c:
            found = c.execute(query).all() if inspect(c).has_table(table.name) else []
        return tuple(sorted(check_fields(dict(row._mapping)) for row in found))


def _order(m: Measured) -> tuple[object, ...]:
    """Which of two of one key is kept: one that knows its func and schedule, then any, always the same. When it was read is no matter."""
    return bool(m.func_key), bool(m.trace), replace(m, created="")


def check_fields(data: dict[str, Any]) -> Measured:
    """The measured time of its fields; BankError where one is missing, unknown or impossible."""
    names = [f.name for f in fields(Measured)]
    if wrong := set(data) ^ set(names):
        listed = ", ".join(sorted(str(n)[:40] for n in wrong)[:5])
        raise BankError(f"a measured time has the fields {', '.join(names)}, no more and no less; wrong here: {listed}")
    for name, value in data.items():
        if not _good(name, value):
            raise BankError(f"field {name} of a measured time cannot be {str(value)[:60]!r}")
    m = Measured(**data)
    if not 0 < m.least_ns <= m.time_ns <= m.most_ns or not m.calls:
        raise BankError(f"a measured time lies between its least and its most: {m.least_ns}, {m.time_ns}, {m.most_ns}")
    return m


def _good(name: str, value: object) -> bool:
    if name in INTEGERS:
        return type(value) is int and 0 <= value < INTEGER_LIMIT
    if not isinstance(value, str):
        return False
    if name == "trace":
        return len(value) <= TEXT_LIMIT and all(c.isprintable() or c == "\n" for c in value)
    good = len(value) <= NAME_LIMIT and value.isprintable()
    patterns = {"digest": re.compile(r"[0-9a-f]{16}"), "created": CREATED, "func_key": re.compile(r"([0-9a-f]{64})?")}
    return good and (name != "when" or value in WHEN) and (name not in patterns or bool(patterns[name].fullmatch(value)))


def show(m: Measured, times: bool = True) -> str:
    """One line of canonical JSON; without times it says nothing of when it was read."""
    return lines.show(asdict(m), "measured", VERSION, times)


def parse(line: str) -> Measured | None:
    """The measured time of a line of an export; None of a line that is of something else."""
    data = lines.parse(line, "measured", VERSION, "a measured time")
    return None if data is None else check_fields(data)
