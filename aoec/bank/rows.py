"""Rows: what a bank keeps beside its records. Each kind is a table of frozen dataclasses with a key, checked fields, lines of an export.

Of two rows of one key a join stays. It is commutative, associative and idempotent, so that banks are merged in any order, any number of
times, with one result.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Integer, String, Table, delete, inspect, select
from sqlalchemy.dialects.sqlite import insert

from aoec.bank import lines
from aoec.bank.record import CREATED, INTEGER_LIMIT, NAME_LIMIT
from aoec.bank.store import Store, metadata
from aoec.base.errors import BankError

T = TypeVar("T")
Test = Callable[[str], bool]
SHOWN = 60  # characters of a value that is refused


class Kind(Generic[T]):
    """What one kind of row is.

    `row`: a frozen dataclass of str and int fields, `target` and `created` among them. `key`: names of its fields. `table`: where a bank's
    file has the rows. `word`, `version`: of a line of an export. `name`: of one row, in words. `texts`: which values a text can have; one
    that is not named is a printable line of at most NAME_LIMIT characters. `least`: of an integer, 0 where it is not named. `fault`: why
    the fields of a row do not fit each other, "" where they do. `join`: what stays of two rows of one key.
    """

    def __init__(self, row: type[T], key: Collection[str], table: str, word: str, version: int, name: str, texts: Mapping[str, Test],
                 least: Mapping[str, int], fault: Callable[[T], str], join: Callable[[T, T], T]) -> None:
        self.row, self.key, self.word, self.version, self.name, self.join = row, tuple(key), word, version, name, join
        self._texts, self._least, self._fault = {"created": is_created} | dict(texts), least, fault
        declared = fields(row)  # type: ignore[arg-type]
        self.names = tuple(f.name for f in declared)
        self._integers = frozenset(f.name for f in declared if f.type == "int")
        self.table = Table(table, metadata, *[
            Column(n, Integer if n in self._integers else String, primary_key=n in self.key, nullable=False) for n in self.names])

    def check_fields(self, data: Mapping[str, Any]) -> T:
        """Return the row of its fields; BankError where one is missing, unknown or impossible."""
        if wrong := set(data) ^ set(self.names):
            listed = ", ".join(sorted(str(n)[:40] for n in wrong)[:5])
            raise BankError(f"{self.name} has the fields {', '.join(self.names)}, no more and no less; wrong here: {listed}")
        for name, value in data.items():
            if not self._can_be(name, value):
                raise BankError(f"field {name} of {self.name} cannot be {str(value)[:SHOWN]!r}")
        row = self.row(**data)
        if why := self._fault(row):
            raise BankError(f"{self.name} {why}")
        return row

    def _can_be(self, name: str, value: object) -> bool:
        if name in self._integers:
            return type(value) is int and self._least.get(name, 0) <= value < INTEGER_LIMIT
        return isinstance(value, str) and self._texts.get(name, is_name)(value)

    def show(self, row: T, times: bool = True) -> str:
        """Return one line of canonical JSON; without times it says nothing of when it was made."""
        return lines.show(values(row), self.word, self.version, times)

    def parse(self, line: str) -> T | None:
        """Return the row of a line of an export; None of a line that is of something else."""
        data = lines.parse(line, self.word, self.version, self.name)
        return None if data is None else self.check_fields(data)

    def read(self, data: Mapping[str, Any]) -> T | None:
        """Return the row of values that a line has; None where they are of something else."""
        own = lines.strip(data, self.word, self.version, self.name)
        return None if own is None else self.check_fields(own)

    @property
    def mark(self) -> dict[str, int]:
        """Return what tells a line from those of other kinds: its word, with the version."""
        return {self.word: self.version}

    def identity(self, row: T) -> tuple[Any, ...]:
        """Return the values of its key."""
        return tuple(getattr(row, n) for n in self.key)


class Rows(Generic[T]):
    """The rows of one kind in a bank's file."""

    def __init__(self, store: Store, kind: Kind[T]) -> None:
        self._store, self._kind = store, kind

    def put_all(self, found: Iterable[T]) -> tuple[str, ...]:
        """Put rows into their table, in one transaction. Return "added", "updated" or "kept" for each. Of two rows of one key, their
        join is kept."""
        kind, table = self._kind, self._kind.table
        given, out = [kind.check_fields(values(row)) for row in found], []
        with self._store.writing() as c:
            for row in given:
                was = c.execute(select(table).where(*[table.c[n] == getattr(row, n) for n in kind.key])).first()
                held = kind.check_fields(dict(was._mapping)) if was is not None else None
                joined = row if held is None else kind.join(held, row)
                if joined != held:
                    c.execute(insert(table).prefix_with("OR REPLACE"), [values(joined)])
                out.append("added" if held is None else "kept" if _is_equal(held, joined) else "updated")
        return tuple(out)

    def drop(self, rows: Iterable[T]) -> int:
        """Return how many of these rows the bank had and now has not; one that was replaced meanwhile stays."""
        table = self._kind.table
        with self._store.writing() as c:
            return sum(c.execute(delete(table).where(*[table.c[n] == v for n, v in values(row).items()])).rowcount for row in rows)

    def of(self, target: str | None, **begins: str) -> tuple[T, ...]:
        """Return the rows, sorted; `target` selects by name, `begins` by how fields begin. A bank that an older aoec wrote has none."""
        table = self._kind.table
        query = select(table).where(*[table.c[n].startswith(v, autoescape=True) for n, v in begins.items()])
        query = query.where(table.c.target == target) if target is not None else query
        with self._store.reading() as c:
            found = c.execute(query).all() if inspect(c).has_table(table.name) else []
        return tuple(sorted(self._kind.check_fields(dict(row._mapping)) for row in found))  # type: ignore[type-var]


def values(row: Any) -> dict[str, Any]:
    """Return the fields of a row by name."""
    return asdict(row)


def _is_equal(held: Any, joined: Any) -> bool:
    """Return whether a join says nothing new; when a row was made is no news."""
    return bool(replace(held, created=joined.created) == joined)


# ---------------------------------------------------------------- tests of texts

def is_name(text: str) -> bool:
    """Return whether a text is a printable line of at most NAME_LIMIT characters."""
    return len(text) <= NAME_LIMIT and text.isprintable()


def is_created(text: str) -> bool:
    """Return whether a text is a time as banks have it, or none."""
    return bool(CREATED.fullmatch(text))


def hex_digits(count: int) -> Test:
    """Return a test of texts: so many hex digits."""
    pattern = re.compile(f"[0-9a-f]{{{count}}}")
    return lambda text: bool(pattern.fullmatch(text))


def any_of(choices: Collection[str]) -> Test:
    """Return a test of texts: one of the choices."""
    return lambda text: text in choices


def block(limit: int) -> Test:
    """Return a test of texts: printable lines, of so many characters in all."""
    return lambda text: len(text) <= limit and all(line.isprintable() for line in text.split("\n"))
