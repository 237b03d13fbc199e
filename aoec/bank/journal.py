"""Journal: what is noted of tuning jobs in a bank's own file until they end, so that a broken one can go on.

Three tables. *Batches* of a search: what the model machine answered it, in order. *Stops*: what was kept in haste of a search that a user
ended, and what the bank held before. *Outcomes* of a job: what became of each task that is done. All of it goes when it is no longer
needed: a search's with its record, a job's with its end. It is never exported or merged.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Column, Connection, Integer, LargeBinary, String, Table, delete, func, select
from sqlalchemy.dialects.sqlite import dialect, insert

from aoec.bank.store import Store, metadata

batches = Table("journal_batches", metadata, Column("search", String, primary_key=True), Column("number", Integer, primary_key=True),
                Column("question", String, nullable=False), Column("timed", Integer, nullable=False),
                Column("milliseconds", Integer, nullable=False), Column("answer", LargeBinary, nullable=False))
stops = Table("journal_stops", metadata, Column("search", String, primary_key=True), Column("before", String, nullable=False),
              Column("kept", String, nullable=False))
outcomes = Table("journal_outcomes", metadata, Column("job", String, primary_key=True), Column("number", Integer, primary_key=True),
                 Column("outcome", String, nullable=False))
READ_LIMIT = 1 << 20  # batches of one search
# the same search asks the same, so what a batch replaces is what another process has written, or an earlier run
NOTE = str(insert(batches).prefix_with("OR REPLACE").compile(dialect=dialect()))


@dataclass(frozen=True)
class Batch:
    """An answer of the model machine: a hash of what was asked, how many candidates it timed, seconds since the search began, and the
    answer itself, packed."""

    question: str
    timed: int
    seconds: float
    answer: bytes


@dataclass(frozen=True)
class Stop:
    """Records as lines of JSON: what the bank held of a task before a search that was ended early ("" for nothing), and what it kept."""

    before: str
    kept: str


class Journal:
    """The journal in a bank's file. What takes a connection works within the caller's transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ---- of a search

    def notes(self, search: str) -> Notes:
        """Return where a search is noted; to be closed."""
        return Notes(self._store, search)

    def batches(self, search: str) -> tuple[Batch, ...]:
        """Return the batches of a search from its first one on, as far as none is missing."""
        t = batches.c
        query = select(t.number, t.question, t.timed, t.milliseconds, t.answer).where(t.search == search).order_by(t.number)
        with self._store.reading() as c:
            return tuple(Batch(str(question), int(timed), ms / 1e3, bytes(answer)) for at, (number, question, timed, ms, answer)
                         in enumerate(c.execute(query.limit(READ_LIMIT))) if number == at)

    def timed_counts(self, searches: Iterable[str]) -> dict[str, int]:
        """Return how many candidates each of the searches had timed when it broke off; without those of which nothing is known."""
        t, wanted = batches.c, set(searches)
        with self._store.reading() as c:
            found = c.execute(select(t.search, func.sum(t.timed)).group_by(t.search))
            return {search: int(count) for search, count in found if search in wanted}

    def forget(self, search: str) -> None:
        """Delete the notes of a search."""
        with self._store.writing() as c:
            end_search(c, search)

    def stops(self, searches: Iterable[str]) -> dict[str, Stop]:
        """Return what was kept of each of the searches that a user ended."""
        wanted = set(searches)
        with self._store.reading() as c:
            found = c.execute(select(stops.c.search, stops.c.before, stops.c.kept))
            return {search: Stop(before, kept) for search, before, kept in found if search in wanted}

    # ---- of a job

    def outcomes(self, job: str) -> tuple[str, ...]:
        """Return what became of the tasks that are done, oldest first."""
        with self._store.reading() as c:
            found = c.execute(select(outcomes.c.outcome).where(outcomes.c.job == job).order_by(outcomes.c.number))
            return tuple(str(outcome) for outcome, in found)

    def end(self, job: str) -> None:
        """Delete the notes of a job, because it has ended or begins anew."""
        with self._store.writing() as c:
            c.execute(delete(outcomes).where(outcomes.c.job == job))


class Notes:
    """The batches of one search, written one by one: no kill takes one back."""

    def __init__(self, store: Store, search: str) -> None:
        self._row, self._search = store.appending(NOTE), search

    def note(self, number: int, b: Batch) -> None:
        """Write batch `number` to the bank's file."""
        self._row.write((self._search, number, b.question, b.timed, round(b.seconds * 1e3), b.answer))

    def close(self) -> None:
        self._row.close()


def end_search(c: Connection, search: str) -> None:
    """Delete the notes of a search."""
    c.execute(delete(batches).where(batches.c.search == search))
    c.execute(delete(stops).where(stops.c.search == search))


def note_stop(c: Connection, search: str, stop: Stop) -> None:
    """Note what a bank kept of a search that a user ended."""
    c.execute(insert(stops).prefix_with("OR REPLACE"), [{"search": search, "before": stop.before, "kept": stop.kept}])


def note_outcome(c: Connection, job: str, outcome: str) -> None:
    """Note the outcome of a task, after those of the tasks that are done already."""
    last = c.execute(select(func.coalesce(func.max(outcomes.c.number), 0)).where(outcomes.c.job == job)).scalar_one()
    c.execute(insert(outcomes), [{"job": job, "number": last + 1, "outcome": outcome}])


@lru_cache(maxsize=8)
def open_journal(path: Path) -> Journal:
    """Open the journal of a bank's file, once for a process, whatever searches it makes."""
    return Journal(Store(path, create=True, writable=True))
