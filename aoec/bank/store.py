"""Store: the SQLite file under a bank: tables, schema version, transactions, and failures as sentences."""
from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Boolean, Column, Connection, Engine, Index, Integer, MetaData, String, Table, create_engine, event, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from aoec.bank.record import INTEGERS, KEY_FIELDS, RECORD_FIELDS, SCHEMA_VERSION
from aoec.base.errors import BackendError, BankError
from aoec.base.files.files import open_plain, reason

APPLICATION_ID = 0x616F6563  # "aoec": marks the file as ours for `file` and for other tools
BUSY_SECONDS = 30.0
HEADER = b"SQLite format 3\0"
SNAPSHOTS, SNAPSHOT_BYTES = 3, 256 << 20  # how often a copy of a bank is begun, and the largest that is copied
DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)  # what SQLite finds in the bytes of a file

metadata = MetaData()
version = Table("aoec_bank", metadata, Column("schema_version", Integer, nullable=False))


def _column(name: str) -> Column:
    return Column(name, Integer if name in INTEGERS else Boolean if name == "verified" else String, nullable=False)


# `family` follows from a record's func (near.py), `checksum` from all of it, and neither is part of it
records = Table("records", metadata, *[Column(n, String, primary_key=True) for n in KEY_FIELDS], *[_column(n) for n in RECORD_FIELDS],
                Column("family", String, nullable=False), Column("checksum", String, nullable=False, server_default=""))
# of a record, as it was written here; "" of one that an older aoec wrote, which knows no such column and reads past it
ADD_CHECKSUM = "ALTER TABLE records ADD COLUMN checksum VARCHAR NOT NULL DEFAULT ''"
families = Index("records_by_family", records.c.family)

# schema version -> what makes a file of it one of the next version
MIGRATIONS = {1: ("ALTER TABLE records ADD COLUMN func VARCHAR NOT NULL DEFAULT ''",
                  "ALTER TABLE records ADD COLUMN family VARCHAR NOT NULL DEFAULT ''",
                  "CREATE INDEX records_by_family ON records (family)")}


class Store:
    """An open bank file. Connections live as long as a transaction, so it may be held across a fork.

    One that is to be made is made with its folder when something is written: who only reads leaves nothing behind.
    """

    def __init__(self, path: Path, create: bool, writable: bool) -> None:
        self.path, self._create = path, create
        _check_file(path, create)
        self.writable = writable and (not path.exists() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)))
        self._opened: Engine | None = None
        if path.exists():
            self._open()

    def _open(self) -> Engine:
        """Return the engine of the file, which is made if that is wanted and it is not there, or no longer."""
        if self._opened is None or self._create and not self.path.exists():
            with _failures(self.path):
                self._opened = self._open_writable(self._create) if self.writable else self._open_read_only()
        return self._opened

    def _open_writable(self, create: bool) -> Engine:
        engine = _engine(self.path, "mode=rwc" if create else "mode=rw")
        _use_wal(engine)
        with engine.execution_options(immediate=True).begin() as c:
            if create and not inspect(c).get_table_names():
                _make(c)
            if _schema(c, self.path) < SCHEMA_VERSION:
                _migrate(c)
            metadata.create_all(c)  # the tables of the journal, which an older bank has not
            _add_checksums(c)
        return engine

    def _open_read_only(self) -> Engine:
        """Return a reader of the bank. Where nobody has the bank open it reads a copy in memory, since SQLite would make files beside
        it. Else it reads the file. Where SQLite cannot keep its side files (a read-only folder), it reads the file as it is. A bank of
        an older schema is not changed; a copy in memory is."""
        if (copy := _snapshot(self.path)) is not None:
            engine = _in_memory(copy)
            with engine.begin() as c:
                if _schema(c, self.path) < SCHEMA_VERSION:
                    _migrate(c)
                _add_checksums(c)
            return engine
        for mode in ("mode=ro", "mode=ro&immutable=1"):
            engine = _engine(self.path, mode)
            try:
                with engine.begin() as c:
                    older = _schema(c, self.path) < SCHEMA_VERSION or not _has_checksums(c)
                return _migrated_copy(engine) if older else engine
            except SQLAlchemyError as e:
                failure = e
        raise failure

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection in a read transaction."""
        engine = _nothing() if self._create and not self.path.exists() else self._open()
        with _failures(self.path), engine.begin() as c:
            yield c

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in an immediate transaction, which is committed at the end and rolled back on any error."""
        if not self.writable:
            raise BankError(f"bank {self.path} is read-only here; name another with --bank, or make it writable")
        _make_folder(self.path)
        with _failures(self.path), self._open().execution_options(immediate=True).begin() as c:
            yield c

    def appending(self, statement: str) -> Appending:
        """Return what runs a statement again and again; to be closed."""
        _make_folder(self.path)
        self._open()
        return Appending(self.path, statement)


class Appending:
    """A statement that is run again and again, each time a transaction, on a connection of its own that stays open and waits for no disk:
    some 30 us, where a transaction that waits takes 5 ms. A process that is killed loses none of it; a machine whose power goes, at most
    the last ones (synchronous = NORMAL: https://www.sqlite.org/pragma.html#pragma_synchronous)."""

    def __init__(self, path: Path, statement: str) -> None:
        self._path, self._statement = path, statement
        with _failures(path):
            self._connection = _connection(path, "mode=rw")
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def write(self, row: tuple[str | int | bytes, ...]) -> None:
        """Run the statement for a row of values."""
        with _failures(self._path):
            self._connection.execute(self._statement, row)

    def close(self) -> None:
        with _failures(self._path):
            self._connection.close()


def _connection(path: Path, mode: str) -> sqlite3.Connection:
    """Return a connection that leaves transactions to what is said on it."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None)


def _engine(path: Path, mode: str) -> Engine:
    return _transactional(create_engine("sqlite://", poolclass=NullPool, creator=lambda: _connection(path, mode)))


def _transactional(engine: Engine) -> Engine:
    """Return the engine, whose connections leave transactions to what is said here (isolation_level None keeps the driver out of it)."""
    @event.listens_for(engine, "begin")
    def begin(c: Connection) -> None:
        c.exec_driver_sql("BEGIN IMMEDIATE" if c.get_execution_options().get("immediate") else "BEGIN")

    return engine


def _use_wal(engine: Engine) -> None:
    """Switch to the write-ahead log, in which readers never wait for a writer. SQLite does not queue for this switch, so concurrent
    openers try again."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as e:
            if "locked" not in str(e) or time.monotonic() > until:
                raise
            time.sleep(0.01)
        finally:
            raw.close()


def _make(c: Connection) -> None:
    metadata.create_all(c)
    c.execute(version.insert().values(schema_version=SCHEMA_VERSION))
    c.execute(text(f"PRAGMA application_id = {APPLICATION_ID}"))


def _schema(c: Connection, path: Path) -> int:
    """Return the schema version of a bank; BankError where the tables are not a bank's, or a later version's."""
    if c.execute(text("PRAGMA application_id")).scalar() != APPLICATION_ID or not inspect(c).has_table(version.name):
        tables = ", ".join(inspect(c).get_table_names()[:4]) or "none"
        raise BankError(f"{path} is an SQLite file and no aoec bank (its tables: {tables}); name another with --bank")
    found = c.execute(version.select()).scalar()
    if found is None:
        raise BankError(f"bank {path} {_damage_words('it says no schema version')}")
    if type(found) is not int or found > SCHEMA_VERSION or found not in (*MIGRATIONS, SCHEMA_VERSION):
        raise BankError(f"bank {path} has schema version {found} and this aoec knows version {SCHEMA_VERSION}; "
                        "use the aoec that wrote it, or export it with that and import that here")
    return found


def _migrate(c: Connection) -> None:
    """Migrate the bank to this schema within the connection's transaction, wholly or not at all."""
    for schema in range(c.execute(version.select()).scalar_one(), SCHEMA_VERSION):
        for statement in MIGRATIONS[schema]:
            c.execute(text(statement))
    c.execute(version.update().values(schema_version=SCHEMA_VERSION))


def _has_checksums(c: Connection) -> bool:
    """Return whether the records of a bank have a column for checksums."""
    return any(column["name"] == "checksum" for column in inspect(c).get_columns(records.name))


def _add_checksums(c: Connection) -> None:
    """Add a column for checksums to the records of a bank, where it is missing in a bank of this schema."""
    if not _has_checksums(c):
        c.execute(text(ADD_CHECKSUM))


def _migrated_copy(engine: Engine) -> Engine:
    """Return an engine on a copy of a bank in memory, which is of this schema."""
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    raw = engine.raw_connection()
    try:
        assert raw.driver_connection is not None
        raw.driver_connection.backup(copy)
    finally:
        raw.close()
    made = _in_memory(copy)
    with made.begin() as c:
        _migrate(c)
        _add_checksums(c)
    return made


def _snapshot(path: Path) -> sqlite3.Connection | None:
    """Return a bank in memory with what a file holds; None where somebody has the file open, or writes it meanwhile, or it is too large."""
    for _ in range(SNAPSHOTS):
        try:
            with open(path, "rb") as f:
                before, data = os.stat(path), bytearray(f.read(SNAPSHOT_BYTES + 1))
            after = os.stat(path)
        except OSError:
            return None
        if len(data) > SNAPSHOT_BYTES or os.path.exists(f"{path}-wal"):
            return None
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            data[18:20] = b"\1\1"  # without a write-ahead log (https://www.sqlite.org/fileformat.html#file_format_version_numbers)
            copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            copy.deserialize(bytes(data))
            return copy
    return None


def _in_memory(only: sqlite3.Connection) -> Engine:
    """Return an engine on a bank in memory, which has one connection: a thread that wants it waits until no other has it."""
    return _transactional(create_engine("sqlite://", poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=BUSY_SECONDS,
                                        creator=lambda: only))


@lru_cache(maxsize=1)
def _nothing() -> Engine:
    """Return an engine on an empty bank in memory."""
    empty = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    made = _in_memory(empty)
    with made.begin() as c:
        metadata.create_all(c)
    return made


def _make_folder(path: Path) -> None:
    """Make the folder of a bank where there is none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise BankError(f"cannot make the folder of bank {path}: {reason(e)}") from e


def _check_file(path: Path, create: bool) -> None:
    """Raise BankError where there is no file, nor with `create` one could be made, or it is not SQLite's."""
    try:
        if create and not _is_there(path):
            if why := _no_place(next(p for p in path.absolute().parents if p.exists())):
                raise BankError(f"bank {path} cannot be made: {why}; name another with --bank")
            return
        with open_plain(path) as f:
            head = f.read(len(HEADER))
    except BackendError as e:
        raise BankError(f"bank {path} cannot be opened ({e}); name another with --bank") from e
    except FileNotFoundError as e:
        at = next(p for p in path.absolute().parents if p.exists())
        what = "file" if at == path.absolute().parent else f"folder {path.parent}"
        raise BankError(f"there is no bank {path}: no such {what}; aoec compile makes one, --bank names another") from e
    except OSError as e:
        raise BankError(f"cannot open bank {path}: {reason(e)}") from e
    if head != HEADER and not (create and not head):
        raise BankError(f"{path} is not a bank: it does not begin as an SQLite file does; name another with --bank")


def _is_there(path: Path) -> bool:
    """Return whether there is a file; OSError where its folder does not say."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _no_place(folder: Path) -> str:
    """Return why nothing can be made in what is there of a path; "" where it can."""
    if not folder.is_dir():
        return f"{folder} is no folder"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"{folder} may not be written to"


@contextmanager
def _failures(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into a BankError of one sentence."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, UnicodeDecodeError) as e:
        cause = getattr(e, "orig", None) or e
        raise BankError(f"bank {path} {_sentence(cause, str(cause).splitlines()[0])}") from e


def _sentence(cause: BaseException, words: str) -> str:
    """Return what is wrong with a bank, and what would help. It is called damaged where SQLite says so of its bytes, or a text in it is
    none."""
    if isinstance(cause, UnicodeDecodeError) or getattr(cause, "sqlite_errorcode", 0) & 0xFF in DAMAGE:
        return _damage_words(words)
    if "locked" in words:
        return f"is busy: another process has been writing for {BUSY_SECONDS:.0f} s; try again"
    if "readonly" in words or "unable to open" in words:
        return f"cannot be opened here ({words}); name another with --bank"
    if "full" in words:
        return f"cannot grow ({words}); free some space"
    if "I/O" in words:  # a full or failing disk, a limit on the size of files: what was committed before is not touched
        return f"cannot be read or written ({words}); see to the disk that it is on: what the bank held it still holds"
    return f"cannot be used here ({words}); nothing in it was changed"


def _damage_words(words: str) -> str:
    return (f"is damaged ({words}). Keep the file: sqlite3 FILE .recover gets back what can still be read. --bank names a new one, into "
            "which aoec bank import takes an export or a copy from before")
