"""Resumption of a tuning job that was broken off. Here, a job and its searches read the job's journal (bank/journal.py).

Three things are known of a broken job:

- The outcomes of tasks that were done. So the result counts what the bank learned from this job and from no other.
- The model machine's answers to searches under way. They are given again when a search resumes (jobs/tune/answers.py).
- The best so far of searches that a user ended. It is in the bank, and is replaced when the search resumes and ends.
"""
from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from aoec.bank.bank import Bank
from aoec.bank.journal import Stop, end_search, note_outcome, note_stop, open_journal
from aoec.bank.record import Key, Record, parse_record, show_record
from aoec.base.errors import BankError
from aoec.base.text import plural
from aoec.jobs.tune.answers import Answers
from aoec.jobs.tune.budget import Limits, as_dict, parse_spent, words
from aoec.jobs.tune.order import Order, Solved, search_of
from aoec.jobs.tune.story import recall_story
from aoec.jobs.tune.trust import Trust


@dataclass(frozen=True)
class Search:
    """One search in the journal of a bank, as a worker process gets it. `again`: it resumes from its notes."""

    bank: Path
    name: str
    again: bool

    def answers(self) -> Answers:
        """Return what the search was answered before, if it goes on; what it is answered from now on is noted."""
        journal = open_journal(self.bank)
        return Answers(journal.batches(self.name) if self.again else (), journal.notes(self.name))


def search_name(key: Key, order: Order) -> str:
    """Return what a search follows from: equal ones are asked and answer the same."""
    counts = order.counts.get(search_of(key)) if order.counts else None
    kind, amount = ("seconds", order.seconds) if order.seconds is not None else next(iter(words(order.budget).items()))
    return digest([key.digest, order.strategy, kind, amount, order.seed, order.until, *([asdict(counts)] if counts else [])])


def job_name(keys: Iterable[Key], order: Order) -> str:
    """Return what a job follows from, as far as its outcomes do."""
    return digest([*sorted(search_name(k, order) for k in keys), order.repeat])


def digest(facts: list[Any]) -> str:
    return sha256(json.dumps(facts).encode()).hexdigest()


class Unfinished:
    """A job in the journal of its bank, from its begin to its end. Nothing is noted without a search, or in a bank that is read only."""

    def __init__(self, bank: Bank, order: Order, noted: bool = True) -> None:
        self.bank, self.order = bank, order
        self._on = noted and order.tune and not order.frozen and bank.writable
        self._name, self._begun = "", set[str]()
        self._done: dict[Key, Solved] = {}
        self._stops: dict[Key, Stop] = {}
        self.searched: dict[str, Limits | None] = {}  # what each search of the run had, by name (order.py)

    def another(self, order: Order) -> Unfinished:
        """Return a further job of the same run: what the run itself has noted is none that was broken off."""
        other = Unfinished(self.bank, order)
        other._begun, other.searched = self._begun, self.searched
        return other

    def begin(self, keys: Iterable[Key]) -> str:
        """Return a line about the notes of an earlier run, "" where there are none. `keys`: those of the best schedules of the job's
        tasks."""
        if not self._on:
            return ""
        journal = self.bank.journal
        searches = {search_name(k, self.order): k for k in keys}
        self._name = job_name(searches.values(), self.order)
        if self._name in self._begun:
            return ""
        self._begun.add(self._name)
        timed = journal.timed_counts(searches)
        self._stops = {searches[s]: stop for s, stop in journal.stops(searches).items()}
        done = [s for s in map(solved_of, journal.outcomes(self._name)) if s is not None]
        if self.order.resume:
            self._done = {s.best.key: s for s in done}
        elif done:
            journal.end(self._name)
        return describe_resume(len(done), timed.values(), self.order.resume)

    def done(self, key: Key) -> Solved | None:
        """Return what became of a task before the job was broken off."""
        return self._done.get(key)

    def search(self, key: Key) -> Search | None:
        """Return the search of a task. Return None where nothing is noted."""
        return Search(self.bank.path, search_name(key, self.order), self.order.resume) if self._on else None

    def before(self, held: Mapping[Key, Record]) -> dict[Key, Record]:
        """Return what the bank held before the job began. That is what it holds now, without the best so far of searches that a user ended
        and that resume."""
        out = dict(held)
        for key, (earlier, kept) in ((k, stop) for k in self._stops if (stop := self._stop(k))):
            if out.get(key) == kept:
                del out[key]
                out |= {key: earlier} if earlier is not None else {}
        return out

    def keep(self, solved: Solved, before: Record | None) -> None:
        """Put the records and the outcome of a task into the bank together, and delete the notes of its search. After a search that a user
        ended, the bank gets the best schedule so far, and the answers stay. `before`: what the bank held."""
        if not self.bank.writable:
            return
        records = [solved.default, *([solved.best] if self.order.tune else [])]
        if not self._on:
            self.bank.put_all(records)
            return
        key = solved.best.key
        name = search_name(key, self.order)

        def note(c: Any, held: Record) -> None:
            if solved.stopped:
                note_stop(c, name, Stop(show(before), show(held)))
            else:
                end_search(c, name)
                note_outcome(c, self._name, text_of(solved))

        self.bank.put_all(records, self._stop(key), note)

    def note(self, solved: Mapping[Key, Solved]) -> None:
        """Note what limits the searches of these tasks had."""
        self.searched |= {search_of(k): s.spent.limits for k, s in solved.items() if self.order.tune and not s.found}

    def fail(self, key: Key) -> None:
        """Delete the notes of a task's search: there is no schedule."""
        if self._on:
            self.bank.journal.forget(search_name(key, self.order))

    def end(self) -> None:
        """Delete the notes of the job: it has ended."""
        if self._on and self._name:
            self.bank.journal.end(self._name)

    def _stop(self, key: Key) -> tuple[Record | None, Record] | None:
        """Return (what the bank held before, what it kept) of a search that a user ended and that goes on now."""
        stop = self._stops.get(key) if self.order.resume else None
        try:
            return (parse_record(stop.before) if stop.before else None, parse_record(stop.kept)) if stop else None
        except BankError:  # another program has been at it
            return None


def describe_resume(done: int, timed: Iterable[int], resume: bool) -> str:
    """Return a line on what there is of an earlier run."""
    counts = sorted(timed, reverse=True)
    if not done and not counts:
        return ""
    groups = f"{plural(done, 'group')} done" * bool(done)
    under_way = f"{len(counts)} under way (after {', '.join(f'{n:,}' for n in counts[:3])}{', ...' * (len(counts) > 3)} candidates)"
    what = " and ".join(filter(None, [groups, under_way * bool(counts)]))
    return f"going on from an interrupted run: {what}" if resume else f"an interrupted run had {what}; --resume would go on from there"


def show(record: Record | None) -> str:
    return show_record(record) if record is not None else ""


def text_of(solved: Solved) -> str:
    """Return a solved task as a line of JSON."""
    trust = solved.trust and [solved.trust.default, solved.trust.best]
    return json.dumps({"default": show(solved.default), "best": show(solved.best), "held": show(solved.held),
                       "spent": as_dict(solved.spent), "trust": trust, "candidates": dict(solved.candidates)}, separators=(",", ":"))


def solved_of(text: str) -> Solved | None:
    """Return the solved task of a line. Return None where it is none. Its records are claims, as all of a bank are."""
    try:
        said = json.loads(text)
        trust = Trust(*(tuple(map(int, ticks)) for ticks in said["trust"])) if said["trust"] else None
        best = parse_record(said["best"])
        return Solved(parse_record(said["default"]), best, False, parse_spent(said["spent"]), trust, counts(said["candidates"]),
                      parse_record(said["held"]) if said["held"] else None, story=recall_story(best))
    except (BankError, ValueError, TypeError, LookupError, RecursionError):
        return None


def counts(said: Mapping[Any, Any]) -> dict[str, int]:
    return {str(status): int(n) for status, n in said.items()}
