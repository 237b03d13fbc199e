"""Bank: the knowledge bank, one SQLite file that several processes may read and write at once.

Every write is one immediate transaction that reads, joins and writes, so the better record wins whatever the order of
writers, and nothing is ever half-written.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, TypeVar

from sqlalchemy import Column, Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert

from aoec.bank import store
from aoec.bank.builtin import Shelf
from aoec.bank.gradient_traces import GRADIENT_TRACES, GradientTrace, GradientTraces
from aoec.bank.journal import Journal
from aoec.bank.measurements import MEASURED, Measured, Measurements
from aoec.bank.model_plans import MODEL_PLANS, ModelPlan
from aoec.bank.near import family
from aoec.bank.plans import SLICE_PLANS, Plans, SlicePlan
from aoec.bank.record import KEY_FIELDS, Key, Record, checksum, flat, join, parse_record, show_record, unflat
from aoec.bank.rows import Kind, Rows
from aoec.base.errors import AoecError, BackendError, BankError
from aoec.base.files.files import open_plain, reason, write_text

Note = Callable[[Connection, Record], None]
Tell = Callable[[str], None]
T = TypeVar("T")
Kept = Record | Measured | SlicePlan | ModelPlan | GradientTrace
KINDS: tuple[Kind[Any], ...] = (MEASURED, SLICE_PLANS, MODEL_PLANS, GRADIENT_TRACES)  # of rows beside the records, as exported

IMPORT_LIMIT_BYTES = 1 << 30
LINE_LIMIT_BYTES = 4 << 20  # more than the longest plan of a model takes, each character of which may be two there
ASKED = 500  # func keys in one question: SQLite takes no more than 999 values in older versions


class Bank:
    """Records by key; `open` gives one. A bank that cannot be written is still read; `writable` says which.

    A bank may lie over another, `base`, which is asked for what it has not (`claims`) and never written.
    """

    def __init__(self, files: store.Store, base: Shelf | None = None, tell: Tell | None = None) -> None:
        """Create a bank over its files. `tell` gets a sentence for each record that was looked up but is not used."""
        self._store, self.base, self.tell = files, base, tell
        self._told: set[Key] = set()

    @classmethod
    def open(cls, path: str | Path, create: bool = True, writable: bool = True) -> Bank:
        """Return the bank at `path`; BankError where the file is no bank. One that is not there is made, if `create` is set,
        with what is written first."""
        return cls(store.Store(Path(path), create and writable, writable))

    def over(self, base: Shelf | None) -> Bank:
        """Return this bank with another bank as its base, or with none."""
        return Bank(self._store, base, self.tell)

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def writable(self) -> bool:
        return self._store.writable

    @property
    def journal(self) -> Journal:
        """Return what is noted in the same file of jobs that have not ended."""
        return Journal(self._store)

    @property
    def measurements(self) -> Measurements:
        """Return what devices took, in the same file."""
        return Measurements(self._store, MEASURED)

    @property
    def plans(self) -> Plans[SlicePlan]:
        """Return which groups run in slices, in the same file."""
        return Plans(self._store, SLICE_PLANS)

    @property
    def model_plans(self) -> Plans[ModelPlan]:
        """Return how whole models are put together, in the same file."""
        return Plans(self._store, MODEL_PLANS)

    @property
    def gradient_traces(self) -> GradientTraces:
        """Return the measured training steps in the same file."""
        return GradientTraces(self._store, GRADIENT_TRACES)

    def rows(self, kind: Kind[T]) -> Rows[T]:
        """Return the rows of a kind, in the same file."""
        return Rows(self._store, kind)

    def all(self) -> tuple[Kept, ...]:
        """Return all records but changed ones, measured times and plans, each kind sorted."""
        gone = {r.key for r in self.changed_records()}
        return *(r for r in self.list() if r.key not in gone), *(row for kind in KINDS for row in self.rows(kind).of(None))

    def best(self, key: Key) -> Record | None:
        """Return the record of `key`, or None."""
        with self._store.reading() as c:
            return _find(c, key)

    def all_of(self, keys: Iterable[Key]) -> dict[Key, Record]:
        """Return the records of those of the keys that have one, in one reading."""
        wanted = set(keys)
        funcs = sorted({k.func_key for k in wanted})
        out: dict[Key, Record] = {}
        with self._store.reading() as c:
            for first in range(0, len(funcs), ASKED):
                query = select(store.records).where(store.records.c.func_key.in_(funcs[first:first + ASKED]))
                rows = [row._mapping for row in c.execute(query)]
                out |= {r.key: r for row in rows if Key(**{n: row[n] for n in KEY_FIELDS}) in wanted and (r := self._sound(row))}
        return out

    def _sound(self, row: Any) -> Record | None:
        """Return the record of a row. Return None, and tell the listener, where another program has changed it."""
        record = _record(row)
        if _is_changed(row, record):
            self.leave_out(record, "another program has changed it since it was written")
            return None
        return record

    def leave_out(self, record: Record, why: str) -> None:
        """Tell the listener, if there is one, that a record is not used, and why."""
        if self.tell and record.key not in self._told:
            self._told.add(record.key)
            self.tell(f"bank {self.path}: the record of {record.label or record.key.func_key[:12]} is not taken: {why}; aoec bank verify "
                      "tells of all records")

    def changed_records(self) -> tuple[Record, ...]:
        """Return the records that another program has changed since they were written, by their checksums, sorted by key."""
        with self._store.reading() as c:
            rows = [row._mapping for row in c.execute(select(store.records).where(store.records.c.checksum != ""))]
            return tuple(sorted((r for row in rows if _is_changed(row, r := _record(row))), key=lambda r: r.key))

    def count_unmarked(self) -> int:
        """Return how many records have no checksum: an older aoec wrote them, and a change would not be noticed."""
        with self._store.reading() as c:
            return int(c.execute(select(func.count()).select_from(store.records).where(store.records.c.checksum == "")).scalar_one())

    def claims(self, keys: Iterable[Key], own: Mapping[Key, Record] | None = None) -> dict[Key, Record]:
        """Return the records for the keys: those of `all_of`, or the `own` records that are given. Where such a record is missing or no
        faster than the default, return that of the base. This is AOE's order: the custom bank comes first."""
        wanted = set(keys)
        own = dict(self.all_of(wanted) if own is None else own)
        if self.base is None:
            return own
        beneath = self.base.all_of(k for k in wanted if k not in own or not own[k].is_faster)
        return own | {k: r for k, r in beneath.items() if k not in own or r.is_faster}

    def of_funcs(self, func_keys: Iterable[str]) -> tuple[Record, ...]:
        """Return all records of these funcs, whatever machine, model version and memory state they are of; sorted by key."""
        return self._of(store.records.c.func_key, func_keys)

    def of_families(self, families: Iterable[str]) -> tuple[Record, ...]:
        """Return all records of the funcs of these families (near.py); sorted by key."""
        return self._of(store.records.c.family, families)

    def _of(self, column: Column, values: Iterable[str]) -> tuple[Record, ...]:
        asked, found = sorted(set(values) - {""}), []
        with self._store.reading() as c:
            for first in range(0, len(asked), ASKED):
                query = select(store.records).where(column.in_(asked[first:first + ASKED]))
                found += [r for row in c.execute(query) if (r := self._sound(row._mapping))]
        return tuple(sorted(found, key=lambda r: r.key))

    def put(self, record: Record) -> str:
        """Join `record` with what the bank holds for its key, and keep the result. Return "added", "updated" or "kept"."""
        return self.put_all([record])[0]

    def put_all(self, records: Iterable[Record], instead: tuple[Record | None, Record] | None = None,
                note: Note | None = None) -> tuple[str, ...]:
        """Put each record as `put` does, all of them or none, in one transaction.

        `instead` is (what was held before, what was kept for the time being). The former first replaces the latter, if the bank has not
        learned better since. Within the transaction `note` is told what the bank then holds for the last record's key.
        """
        given = [unflat(flat(r)) for r in records]
        with self._store.writing() as c:
            if instead is not None:
                _take_back(c, *instead)
            out = tuple(_put(c, r) for r in given)
            if note is not None:
                held = _find(c, given[-1].key)
                assert held is not None  # it was put just now
                note(c, held)
            return out

    def drop(self, records: Iterable[Record]) -> int:
        """Return how many of these records the bank had and now has not, in one transaction; one that was replaced meanwhile stays."""
        r = store.records.c
        with self._store.writing() as c:
            return sum(c.execute(delete(store.records).where(*[r[n] == v for n, v in flat(record).items()])).rowcount for record in records)

    def drop_all(self, kept: Iterable[Kept]) -> int:
        """Return `drop` of records, measured times and plans."""
        return sum(drop(given) for _, drop, given in self._by_kind(kept) if given)

    def merge(self, other: Bank) -> tuple[str, ...]:
        """Put every record, measured time and plan of another bank as `put` does. The other bank stays as it is."""
        return self._take(other.all())

    def _take(self, found: Iterable[Kept]) -> tuple[str, ...]:
        return tuple(status for put, _, given in self._by_kind(found) if given for status in put(given))

    def _by_kind(self, found: Iterable[Kept]) -> list[tuple[Callable[[list[Any]], tuple[str, ...]], Callable[[list[Any]], int], list[Any]]]:
        """Return (what puts, what drops, those of the kind) for records and each kind of row."""
        of: dict[type, list[Any]] = {Record: [], **{kind.row: [] for kind in KINDS}}
        for one in found:
            of[type(one)].append(one)
        rows = [(self.rows(kind), of[kind.row]) for kind in KINDS]
        return [(self.put_all, self.drop, of[Record]), *((r.put_all, r.drop, given) for r, given in rows)]

    def export(self, path: str | Path, times: bool = True) -> None:
        """Writes all records as JSON lines, sorted by key, then measured times and plans, to a file or to `-`; equal banks without times
        give equal bytes."""
        write_text(path, "".join(line + "\n" for line in self.lines(times)))

    def lines(self, times: bool = True) -> Iterator[str]:
        """Yield the records as lines of canonical JSON, sorted by key, then measured times and plans."""
        yield from (show_record(r, times) for r in self.list())
        yield from (kind.show(row, times) for kind in KINDS for row in self.rows(kind).of(None))

    def import_(self, path: str | Path) -> tuple[str, ...]:
        """Put every line of an export (`-`: standard input), or all of a bank, as `put` does: all or none. Raise BankError that names
        the first line with an error."""
        try:
            return self._take(list(_read_lines("-")) if str(path) == "-" else read_all(str(path)))
        except BankError as e:
            raise BankError(f"{e}; nothing was imported") from e

    def list(self, target: str | None = None, func_key: str = "", kind: str | None = None) -> tuple[Record, ...]:
        """Return records sorted by key; `target` and `kind` select by name, `func_key` by how the key begins."""
        r = store.records.c
        query = select(store.records).where(r.func_key.startswith(func_key, autoescape=True)).order_by(*[r[n] for n in KEY_FIELDS])
        query = query.where(r.target == target) if target is not None else query
        query = query.where(r.kind == kind) if kind is not None else query
        with self._store.reading() as c:
            return tuple(_record(row._mapping) for row in c.execute(query))


def _find(c: Connection, key: Key) -> Record | None:
    r = store.records.c
    row = c.execute(select(store.records).where(*[r[n] == getattr(key, n) for n in KEY_FIELDS])).first()
    record = None if row is None else _record(row._mapping)
    return None if row is None or record is None or _is_changed(row._mapping, record) else record


def _record(row: Any) -> Record:
    """Return the record of a row, which another program may have changed."""
    try:
        return unflat({n: bool(v) if n == "verified" else v for n, v in row.items() if n not in ("family", "checksum")})
    except BankError as e:
        raise BankError(f"the bank holds a record that is none ({e}); drop it with another tool, or move the bank away") from e


def _is_changed(row: Any, record: Record) -> bool:
    """Return whether the record of a row is another one than was written."""
    return bool(row["checksum"]) and row["checksum"] != checksum(record)


def _put(c: Connection, record: Record) -> str:
    known = _find(c, record.key)
    joined = record if known is None else join(known, record)
    if joined == known:
        return "kept"
    beside = {"family": family(joined.func), "checksum": checksum(joined)}
    c.execute(insert(store.records).prefix_with("OR REPLACE"), [flat(joined) | beside])
    if known is None:
        return "added"
    return "kept" if replace(known, created=joined.created) == joined else "updated"  # when it was made is no news


def _take_back(c: Connection, before: Record | None, kept: Record) -> None:
    if _find(c, kept.key) == kept:
        r = store.records.c
        c.execute(delete(store.records).where(*[r[n] == getattr(kept.key, n) for n in KEY_FIELDS]))
        if before is not None:
            _put(c, before)


def read_records(path: str) -> tuple[Record, ...]:
    """Return the records of a bank, or of an export of one, sorted by key; BankError where a file is neither."""
    return tuple(sorted((r for r in read_all(path) if isinstance(r, Record)), key=lambda r: r.key))


def read_all(path: str) -> tuple[Kept, ...]:
    """Return the records, measured times and plans of a bank, or of an export of one; BankError where a file is neither."""
    try:
        with open_plain(path) as f:
            head = f.read(len(store.HEADER))
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}") from e
    return Bank.open(path, create=False, writable=False).all() if head == store.HEADER else tuple(_read_lines(path))


def _read_lines(path: str) -> Iterator[Kept]:
    """Yield the records, measured times and plans of an export file, with the line number in every refusal."""
    try:
        with nullcontext(sys.stdin.buffer) if path == "-" else open_plain(path) as f:
            yield from _records(f, path)
    except OSError as e:
        raise BackendError(f"cannot read {path}: {reason(e)}") from e


def _records(f: IO[bytes], path: str) -> Iterator[Kept]:
    number = read = 0
    while raw := f.readline(LINE_LIMIT_BYTES + 1):
        number, read = number + 1, read + len(raw)
        if len(raw) > LINE_LIMIT_BYTES or read > IMPORT_LIMIT_BYTES:
            what, limit = ("line", LINE_LIMIT_BYTES) if len(raw) > LINE_LIMIT_BYTES else ("file", IMPORT_LIMIT_BYTES)
            raise BankError(f"{path}:{number}: the {what} is longer than {limit:,} bytes")
        try:
            if raw.strip():
                yield _parse_line(raw)
        except (AoecError, UnicodeDecodeError) as e:
            raise BankError(f"{path}:{number}: {str(e).splitlines()[0]}") from e


def _parse_line(raw: bytes) -> Kept:
    """Return the record of a line, its measured time or plan. A record's trace must be a schedule without holes: the next compile
    applies it."""
    from aoec.ir.rewrite import holes as holes_of
    from aoec.ir.text.parse import parse_trace  # here: what lists records needs no grammar

    line = raw.decode("utf-8")
    for kind in KINDS:
        if (row := kind.parse(line)) is not None:
            return row  # type: ignore[no-any-return]
    record = parse_record(line)
    if open_holes := holes_of(parse_trace(record.trace, "trace")):
        raise BankError(f"its trace leaves ?{', ?'.join(open_holes)} open")
    return record


def statuses(outcome: Sequence[str]) -> str:
    """Return a count of each outcome of puts, as "2 added, 1 kept"."""
    counts = {name: outcome.count(name) for name in ("added", "updated", "kept")}
    return ", ".join(f"{n:,} {name}" for name, n in counts.items() if n) or "nothing to add"
