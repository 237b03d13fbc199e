"""What became of each candidate that a search looked at: its status, out of a closed list, and the whole table of them.

Batches are noted as they are timed, as columns. Counts and the best are always kept, the columns where the table is asked for.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from aoec.ir.func.tir import Constraint
from aoec.ir.refusal import refusals
from aoec.search.space.grid import Candidate, Rows, Space

BEST = 100  # candidates whose times are always kept


class Status(Enum):
    """How a candidate ended. Nothing else can become of one.

    TIMED: all of it, by this search. CACHED: its time was known before the search asked for it (the default's short list). ILLEGAL: it
    breaks a constraint. FAILED: no constraint is broken and it cannot be timed or run all the same. WRONG_VALUE: it ran, and what it gave
    differs from the reference. ABANDONED: its timing ended as soon as it could not become the best.
    """

    TIMED = "timed"
    CACHED = "cached"
    ILLEGAL = "illegal"
    FAILED = "failed"
    WRONG_VALUE = "wrong value"
    ABANDONED = "abandoned"


LEGAL = (Status.TIMED, Status.CACHED, Status.ABANDONED)


class Phase(Enum):
    """What asks for candidates. DEFAULT: the choice of the default schedule, and schedules that a search begins with. SEARCH: the strategy,
    whose trials a budget counts. PROOF: a proof before or after it. SETTLING: what was found, with each hole at its best in turn."""

    DEFAULT = "default"
    SEARCH = "search"
    PROOF = "proof"
    SETTLING = "settling"


@dataclass(frozen=True)
class Trial:
    """A candidate with what became of it; `order`: its place among all that were looked at. `ticks` None: there is no time."""

    order: int
    candidate: Candidate
    status: Status
    ticks: int | None
    reason: str = ""


@dataclass(frozen=True)
class Batch:
    """Candidates of one sketch that were timed together; `codes`: 0 timed, n > 0 constraint n - 1 is broken, below zero an error."""

    grid: int
    columns: Rows
    ticks: np.ndarray
    codes: np.ndarray

    def candidate(self, row: int) -> Candidate:
        return self.grid, tuple([int(c[row]) for c in self.columns.values()])


@dataclass
class Ledger:
    """`whole`: every batch is kept, not only counts and the best; `abandoned`: the code of a timing that was given up."""

    space: Space
    whole: bool = False
    abandoned: int | None = None
    phase: Phase = Phase.DEFAULT  # what asks for candidates now
    best: list[tuple[int, int, Candidate]] = field(default_factory=list)  # (ticks, rank, candidate) of at most BEST, sorted
    _codes: Counter[int] = field(default_factory=Counter)  # 1 stands for any constraint
    _phases: Counter[Phase] = field(default_factory=Counter)
    _batches: list[Batch] = field(default_factory=list)
    _cached: set[Candidate] = field(default_factory=set)
    _again: Counter[Candidate] = field(default_factory=Counter)

    def note(self, grid: int, columns: Rows, ticks: np.ndarray, codes: np.ndarray, again: Collection[Candidate] = ()) -> None:
        """Count a batch of candidates. None of them was counted before, except those in `again`: they were given up earlier and are now
        looked at again. For these, the new result replaces the old one."""
        self._again.update(again)
        if self.abandoned is not None:
            self._codes[self.abandoned] -= len(again)
        batch = Batch(grid, columns, ticks, codes)
        for code, count in zip(*np.unique(np.minimum(codes, 1), return_counts=True)):
            self._codes[int(code)] += int(count)
            if self.status(int(code)) in LEGAL:
                self._phases[self.phase] += int(count)
        self._phases[self.phase] -= len(again)  # legal ones all, which were counted when they were first looked at
        self._keep_best(batch)
        if self.whole:
            self._batches.append(batch)

    def note_cached(self, candidates: Iterable[Candidate]) -> None:
        """Record that legal candidates were asked for whose time was already known."""
        self._cached.update(candidates)

    def status(self, code: int) -> Status:
        """Return what a code of a timing says."""
        if code == self.abandoned:
            return Status.ABANDONED
        return Status.TIMED if code == 0 else Status.ILLEGAL if code > 0 else Status.FAILED

    def counts(self) -> dict[Status, int]:
        """Return how many candidates ended in each status."""
        out = dict.fromkeys(Status, 0)
        for code, count in self._codes.items():
            out[self.status(code)] += count
        out[Status.TIMED] -= len(self._cached)
        out[Status.CACHED] += len(self._cached)
        return out

    def by_phase(self) -> dict[Phase, int]:
        """Return how many legal candidates each phase was the first to ask for; together they are those timed, cached and abandoned."""
        return {phase: self._phases[phase] for phase in Phase}

    def trials(self, constraints: Callable[[int], Sequence[Constraint]], errors: Mapping[int, str]) -> Iterator[Trial]:
        """Yield every candidate in the order in which they were looked at; `constraints`: of a sketch; `errors`: what codes below zero
        mean."""
        order, again = 0, self._again.copy()
        for batch in self._batches:
            reasons = why(batch, constraints(batch.grid), errors)
            for row, (code, ticks) in enumerate(zip(batch.codes.tolist(), batch.ticks.tolist())):
                candidate, status = batch.candidate(row), self.status(code)
                if again[candidate]:  # what a later batch says holds
                    again[candidate] -= 1
                    continue
                status = Status.CACHED if candidate in self._cached else status
                yield Trial(order, candidate, status, ticks if code == 0 else None, reasons.get(row, ""))
                order += 1

    def _keep_best(self, batch: Batch) -> None:
        full = len(self.best) == BEST
        good = np.flatnonzero((batch.codes == 0) & (batch.ticks <= self.best[-1][0] if full else True))
        if len(good) > BEST:
            good = good[batch.ticks[good] <= np.partition(batch.ticks[good], BEST - 1)[BEST - 1]]
        found = [(int(batch.ticks[row]), batch.candidate(row)) for row in good.tolist()]
        if found:
            self.best = sorted([*self.best, *[(ticks, self.space.rank(c), c) for ticks, c in found]])[:BEST]


def why(batch: Batch, constraints: Sequence[Constraint], errors: Mapping[int, str]) -> dict[int, str]:
    """Return row -> why it was not timed, for those that were not."""
    out: dict[int, str] = {}
    for code in np.unique(batch.codes[batch.codes != 0]).tolist():
        rows = np.flatnonzero(batch.codes == code)
        some = {name: values[rows] for name, values in batch.columns.items()}
        words = refusals(constraints[code - 1], some, len(rows)) if code > 0 else [errors[code]] * len(rows)
        out |= dict(zip(rows.tolist(), words))
    return out
