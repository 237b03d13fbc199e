"""Proof: the best of a whole space. Each candidate is timed, or excluded by a bound that none like it can beat.

Holes of a sketch are of three kinds. *Outer* holes say what a core does: tiles and grid. *Inner* holes cut that finer: tiles of k, and
tiles of L0 in tiles of L1. Inner cuts add instructions, each with its fixed cost and its rounding, and take none away. So pipes have the
least work with each inner hole at its largest choice, with capacity ignored and with all repeated reads served by L2. *Slots* change no
work. But where slots decide at which address a buffer lies, and so which other buffers conflict with it, every choice of them is examined.

Assignments are bounded level by level: first the outer holes, then one inner hole after the other, and then all of them by the bytes that
really come from HBM. While inner holes are open, a pipe's work is its work with each of them at its largest. The time before its first
instruction and after its last is the time with each of them at its least. Both numbers hold for all assignments of one hole more. So at
first only the own work of these is summed up, in a tenth of the time. Switches are bounded at once, as if what they pass on were there at
its earliest.

The assignments that are left are walked on one core, with slots that conflict with nothing. Those that this leaves are timed with their
slots, cheapest bound first. Timing is abandoned as soon as the remaining work of the candidate shows that it cannot beat the best. Of slots
that conflict with nothing, only the largest that fit together are timed: one more slot starts no instruction later, and costs two flag
operations.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import inf

import numpy as np

from aoec.search.proof.parts import Bounds, Part
from aoec.search.proof.slots import Kinds
from aoec.search.space.grid import NEVER, Candidate, Grid, Rows

TILES = frozenset(("h0", "w0"))  # of inner ones those that cut what leaves L0C, and not what it is a sum of
FIRST_BLOCK, BLOCK = 64, 1024  # assignments of outer holes whose inner ones are looked at together: few of the best first, then more
MANY = 1 << 7  # rows of outer holes from which on they are bounded by their work alone before
FEW = 1 << 8  # rows with inner holes assigned up to which what comes next costs less than their sums, which take some 7 ms of any rows
GLANCES = 16  # of these cost as much as a floor
TASTED = 32  # of its effort: a part that a proof makes before it is foreseen how much it will take
MANY_OPEN, TASTE = 64, 8  # rows with open holes of which each eighth is bounded first, to see whether it pays
DEARER = 1.5  # times what a row costs whose holes are all assigned
WORTH, PASSED = 0.1, 8  # the share of rows that a glance has to exclude, else it is passed over so many times
SUMMED = 1 << 16  # rows whose work is summed up together
WALKED = 1 << 13  # rows whose slots are looked at together
TIMED = 1 << 11  # rows that are timed before the best is looked at again
Step = tuple[str, ...]  # what is done to rows, and the holes that are open then


@dataclass
class Proof:
    """`best`: of the whole space where `closed`; `floor`: ticks that nothing undecided beats. `bounded`: rows that were bounded, `timed`:
    candidates whose timing began; `levels`: by the hole that was assigned last, rows that were bounded and those that no bound excluded."""

    best: Candidate
    ticks: int
    floor: int = 0
    closed: bool = False
    bounded: int = 0
    timed: int = 0
    levels: dict[str, tuple[int, int]] = field(default_factory=dict)
    floors: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # of assignments of outer holes, in the order of work on them
    decided: int = 0  # of these
    begun: int = 0  # the effort behind which it came to them
    ahead: float = 0.0  # what the last of those that count as decided are seen to take still

    def foreseen(self, ticks: int) -> float:
        """Return the effort of a whole proof that begins with these ticks, by what this one has decided of its assignments of outer holes;
        0 where that is nothing."""
        if not self.decided:
            return 0.0
        all_of_it = (self.effort + self.ahead - self.begun) / max(1e-9, share(self.floors, self.decided, self.ticks))
        return self.begun + all_of_it * float(below(self.floors, ticks).sum() / max(1, below(self.floors, self.ticks).sum()))

    def hopeless(self, effort: int, hope: float) -> bool:
        """Return whether enough is done to foresee that it takes more than `hope` times an effort, and more is foreseen."""
        return self.effort > effort / TASTED and self.foreseen(self.ticks) > hope * effort

    def note(self, level: str, count: int, left: int) -> None:
        """Count rows that were bounded at a level, and the rows that are left of them."""
        before = self.levels.get(level, (0, 0))
        self.levels[level] = before[0] + count, before[1] + left
        self.bounded += count

    def glance(self, count: int, left: int) -> None:
        """Count rows that were bounded by their work alone, and the rows that are left of them."""
        before = self.levels.get("work", (0, 0))
        self.levels["work"] = before[0] + count, before[1] + left
        self.bounded += count // GLANCES

    @property
    def effort(self) -> int:
        """Return rows for which something was calculated."""
        return self.bounded + self.timed


@dataclass(frozen=True)
class Ways:
    """A part, and in `columns` its rows once for each way in which slots fit. `source` is the row of the part for each of them. `eased` are
    the slots that change no cost in any row, as they conflict with nothing."""

    part: Part
    columns: Rows
    source: np.ndarray
    eased: tuple[str, ...]

    def prune(self, floors: np.ndarray, found: Proof, level: str) -> Ways:
        """Return the ways that further floors of the part's rows do not exclude."""
        floors = np.maximum(self.part.floors, floors)
        good = floors < found.ticks
        own, place = good[self.source], np.cumsum(good) - 1
        found.note(level, len(good), int(good.sum()))
        part = Part(self.part.grid, self.part.columns, floors, self.part.known).rows(good)
        return Ways(part, {n: v[own] for n, v in self.columns.items()}, place[self.source[own]], self.eased)


def prove(grids: Sequence[Grid], bounds: Bounds, best: Candidate, ticks: int, effort: int,
          stop: Callable[[], bool] = lambda: False, hope: float = inf) -> Proof:
    """Return the best candidate of the grids; the search begins with the given one. The proof is not closed where more than about `effort`
    rows had to be looked at. It is not closed either where the rows so far foretell `hope` times as many, or where `stop` ended it."""
    found = Proof(best, ticks)
    learned = Learned()
    levels = [Levels(i, grid, bounds, learned) for i, grid in enumerate(grids)]
    parts: list[Part] = []
    for level in levels:
        part = level.outer(found, effort)
        if part is None or stop():
            return found
        parts.append(part)
    todo = [some for part in parts for some in blocks(part, FIRST_BLOCK, BLOCK)]
    todo.sort(key=lambda p: (int(p.floors[0]), p.grid))
    found.floors, found.begun = np.concatenate([part.floors for part in todo] or [np.zeros(0, np.int64)]), found.effort
    for part in todo:
        if not search_inner(levels[part.grid], part, found, effort, hope) or found.hopeless(effort, hope) or stop():
            found.floor = min(found.ticks, int(part.floors[0]))
            return found
    found.floor, found.closed = found.ticks, True
    return found


def share(floors: np.ndarray, decided: int, ticks: int) -> float:
    """Return how much of the work on assignments the first so many of them were. Each is taken to need more work the further its floor is
    below the best."""
    ticks_below = below(floors, ticks)
    whole = int(ticks_below.sum())
    return int(ticks_below[:decided].sum()) / whole if whole else 1.0


def below(floors: np.ndarray, ticks: int) -> np.ndarray:
    """Return by how much floors are below the best."""
    return np.maximum(ticks - floors, 0)


def blocks(part: Part, count: int, most: int) -> Iterator[Part]:
    """Yield the rows of a part, those with the lowest floors first, some at a time, each time twice as many up to `most`."""
    order, start = np.argsort(part.floors, kind="stable"), 0
    while start < len(order):
        yield part.rows(order[start:start + count])
        start, count = start + count, min(2 * count, most)


def search_inner(level: Levels, part: Part, found: Proof, effort: int, hope: float) -> bool:
    """Return whether all of a part is decided: its inner holes are assigned, and what no bound excludes is timed. Where the part is given
    up before, it counts as decided, with what is seen ahead."""
    found.decided, found.ahead = found.decided + len(part.floors), 0.0
    part = part.rows(part.floors < found.ticks)
    for at, name in enumerate(level.inner):
        part, rest = level.assign(part, name), level.inner[at + 1:]
        found.ahead = len(part.floors) // GLANCES
        if found.effort + found.ahead > effort:
            return False
        part = level.prune_by_work_if_many(part, rest, found)
        found.ahead = len(part.floors)
        if found.effort + found.ahead > effort:
            return False
        if rest:
            part = level.prune_by_sample(part, rest, found)
    return level.decide_rows(part, found, effort, hope)


@dataclass
class Learned:
    """By step of a proof, what each row saved when it was last taken, and how often it was passed over since. Sketches of a func are
    alike in it, so that none begins as if nothing were known."""

    saved: dict[Step, tuple[float, int]] = field(default_factory=dict)

    def passes(self, step: Step, least: float) -> bool:
        """Return whether a step is passed over, as it saved less than `least` when it was last taken; now and then it is taken all the
        same."""
        saved, passed = self.saved.get(step, (inf, 0))
        if saved < least and passed < PASSED:
            self.saved[step] = saved, passed + 1
            return True
        return False

    def note(self, step: Step, saved: float) -> None:
        """Record that a step was taken, and how much it saved a row."""
        self.saved[step] = saved, 0

    def of(self, step: Step) -> float:
        """Return what a step saved a row when it was last taken; 1 where it never was."""
        return self.saved.get(step, (1.0, 0))[0]


class Levels(Kinds):
    """One sketch of a proof, level by level."""

    def __init__(self, number: int, grid: Grid, bounds: Bounds, learned: Learned) -> None:
        super().__init__(number, grid, bounds)
        self.learned = learned
        self.growth = {n: float(len(self.choices[n])) for n in self.inner}  # rows that one became when a hole was last assigned

    def outer(self, found: Proof, effort: int) -> Part | None:
        """Return all assignments of the outer holes that the constraints allow and no bound excludes; None where they are too many."""
        columns: Rows = {}
        count = 1
        for name in self.outer_names:
            columns, source = self.grown(columns, count, name)
            count = len(source)
            if found.effort + count // GLANCES > effort:
                return None
        part = Part(self.number, columns, np.zeros(count, np.int64))
        if count >= MANY:
            part = self.prune_by_work(part, self.inner, found)
        return self.prune_by_bounds(part, self.inner, found)

    def assign(self, part: Part, name: str) -> Part:
        """Return the part with a further inner hole assigned."""
        columns, source = self.grown(part.columns, len(part.floors), name)
        self.growth[name] = len(source) / max(1, len(part.floors))
        return Part(self.number, columns, part.floors[source], part.of_rows()[:, source])

    def prune_by_work_if_many(self, part: Part, rest: Sequence[str], found: Proof) -> Part:
        """Prune a part by its work alone, where that is likely to pay.
        It is left as it is where it has few rows, or where this step excluded few when it was last done."""
        if len(part.floors) < FEW or self.learned.passes(("work", *rest), WORTH):
            return part
        left = self.prune_by_work(part, rest, found)
        if (count := len(part.floors)) >= MANY_OPEN:
            self.learned.note(("work", *rest), 1 - len(left.floors) / count)
        return left

    def prune_by_work(self, part: Part, rest: Sequence[str], found: Proof) -> Part:
        """Return the rows of a part that their work alone does not exclude, beside what is known. The `rest` of the inner holes is open."""
        if not (count := len(part.floors)):
            return part
        left = []
        for start in range(0, count, SUMMED):
            some = part.rows(np.arange(start, min(start + SUMMED, count)))
            columns = self.fill_open(some.columns, len(some.floors), rest)
            left.append(some.tighten(self.bounds.work_floors(self.number, columns, self.switches, bool(rest), found.ticks), found.ticks))
        part = reduce(Part.join, left)
        found.glance(count, len(part.floors))
        return part

    def prune_by_sample(self, part: Part, rest: Sequence[str], found: Proof) -> Part:
        """Return the rows of a part that no bound excludes. The `rest` of the inner holes is open.
        Each TASTE-th row is tried first. Where too few of these are excluded to pay for the rest, the others are left as they are."""
        count = len(part.floors)
        if count < MANY_OPEN:
            return self.prune_by_bounds(part, rest, found)
        chosen = np.arange(count) % TASTE == 0
        some, others = self.prune_by_bounds(part.rows(chosen), rest, found), part.rows(~chosen)
        if (chosen.sum() - len(some.floors)) * self.growth[rest[0]] > DEARER * chosen.sum():
            others = self.prune_by_bounds(others, rest, found)
        return some.join(others)

    def prune_by_bounds(self, part: Part, rest: Sequence[str], found: Proof) -> Part:
        """Return the rows of a part that no bound excludes. The `rest` of the inner holes is open, and so are switches and slots."""
        if (count := len(part.floors)) and rest:
            columns = self.fill_open(part.columns, count, rest)
            known = part.of_rows()[0]
            parts = self.bounds.parts(self.number, columns, self.least(rest), TILES.isdisjoint(rest), found.ticks, known)
            part = part.tighten(parts, found.ticks)
        elif count:
            floors = np.maximum(part.floors, self.floors(part.columns, count, found.ticks))
            part = Part(self.number, part.columns, floors, part.known).rows(floors < found.ticks)
        found.note(f"before {rest[0]}" if rest else "whole", count, len(part.floors))
        return part

    def floors(self, columns: Rows, count: int, limit: int) -> np.ndarray:
        """Return ticks that no row beats, whatever the switches and slots that are not among its columns."""
        return self.bounds.floors(self.number, self.fill_open(columns, count, ()), limit)

    def least(self, rest: Sequence[str]) -> dict[str, int | None]:
        """Return the least choices of the inner holes that are open, None for the others."""
        return {n: min(self.choices[n]) if n in rest else None for n in self.inner}

    def prune_by_walk(self, part: Part, found: Proof) -> Part:
        """Return the rows that neither floors nor the walk of a core exclude with the largest slots that fit, cheapest first.
        Every hole of the part's work is assigned."""
        left = reduce(Part.join, [self.prune_alike(some, eased, found) for some, eased in self.by_cost(part)])
        return left.rows(np.argsort(left.floors, kind="stable"))

    def prune_alike(self, part: Part, eased: tuple[str, ...], found: Proof) -> Part:
        """Prune by a walk rows in which the same slots change no cost.
        Before the walks of all ways in which slots fit come floors, and one walk with each slot at its most, whether they fit together
        or not. Whichever excluded more when it was last asked comes first."""
        if not eased:
            part = self.prune_by_bounds(part, (), found)
        if not len(part.floors):
            return part
        ways = self.ways(part, eased)
        for at, name in enumerate(sorted(("loose", "whole"), key=lambda n: -self.learned.of((n,))) if eased else ()):
            if at and ((count := len(ways.part.floors)) < MANY_OPEN or self.learned.passes((name,), WORTH)):
                break  # few rows are sooner walked with all ways
            count = len(ways.part.floors)
            floors = self.loosely_walked(ways, found) if name == "loose" else self.floors(ways.part.columns, count, found.ticks)
            ways = ways.prune(floors, found, name)
            if count >= MANY_OPEN:
                self.learned.note((name,), 1 - len(ways.part.floors) / count)
        ways = ways.prune(self.least_alone(ways, ways.columns, ways.source, found.ticks), found, "slots")
        return ways.part

    def ways(self, part: Part, eased: tuple[str, ...]) -> Ways:
        """Return a part, every hole of whose work is assigned, with its slots, of which some change no cost in it: whatever the
        switches."""
        columns, source = self.with_slots(part, [n for n in self.shifting if n not in eased], eased)
        return Ways(part, self.fill_open(columns, len(source), ()), source, eased)

    def least_alone(self, ways: Ways, columns: Rows, source: np.ndarray, limit: int, spare: np.ndarray | int = 0) -> np.ndarray:
        """Return, for each row of a part, the least time that a core alone takes in the rows that came of it, less what these may save."""
        least = np.full(len(ways.part.floors), NEVER)
        if len(source):
            np.minimum.at(least, source, self.bounds.core_floors(self.number, columns, limit + int(np.max(spare))) - spare)
        return least

    def loosely_walked(self, ways: Ways, found: Proof) -> np.ndarray:
        """Return ticks that no row of a part beats by the walk of a core with each of the eased slots at its most, less the flags of so
        many as do not fit."""
        most = {n: max(self.choices[n]) for n in ways.eased}
        others = [ways.columns[n] for n in self.shifting if n not in ways.part.columns and n not in most]
        own = np.unique(np.stack([ways.source, *others]) if others else ways.source, axis=-1, return_index=True)[1]
        slots = np.full(len(ways.part.floors), sum(most.values()))
        np.minimum.at(slots, ways.source, np.sum([ways.columns[n] for n in ways.eased], axis=0))
        source = ways.source[own]
        spare = self.bounds.slot_ticks * (sum(most.values()) - slots[source])
        rows = {n: np.full(len(own), most[n]) if n in most else v[own] for n, v in ways.columns.items()}
        return self.least_alone(ways, rows, source, found.ticks, spare if len(own) else 0)

    def decide_rows(self, part: Part, found: Proof, effort: int, hope: float) -> bool:
        """Return whether all rows of a part are decided: pruned by a walk, and timed where that excludes none.
        Every hole of the part's work is assigned. The effort ahead is estimated from what the rows so far took."""
        order, begun, done, cut = np.sort(part.floors), found.effort, 0, False
        for some in blocks(part, WALKED, WALKED):
            left = self.prune_by_walk(some.rows(some.floors < found.ticks), found)
            for few in blocks(left, TIMED, TIMED):
                if cut := found.effort > effort:
                    break
                self.time(few.rows(few.floors < found.ticks), found)
            done += len(some.floors)
            found.ahead = (found.effort - begun) * (1 / share(order, done, found.ticks) - 1)
            if cut or found.hopeless(effort, hope):
                return False
        found.ahead = 0.0
        return True

    def time(self, part: Part, found: Proof) -> None:
        """Time a part, every hole of whose work is assigned. Each choice of the slots that shift other buffers is timed. Of the other
        slots, the largest that fit together are timed."""
        columns, source = self.with_slots(part, (*self.shifting, *self.switches), self.plain)
        if not len(source):
            return
        found.timed += len(source)
        ticks = self.bounds.times(self.number, columns, found.ticks)
        at = int(np.argmin(ticks))
        if ticks[at] < found.ticks:
            found.ticks = int(ticks[at])
            found.best = (self.number, tuple(int(columns[n][at]) for n in self.grid.names))
