"""How far a choice holds: schedules timed again on seeded machines, whose numbers vary within their confidence (target/vary.py).

A gain that rests on one number is worth what that number is. The machines are the same for everything that is compared, so ticks
of one machine compare, and sums over groups do.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np

from aoec.ir.program import Program
from aoec.search.space.grid import NEVER, Candidate
from aoec.simulate.encode.encode import Encoded, encode
from aoec.simulate.timing.machines import times_on
from aoec.simulate.timing.state import State
from aoec.target.machine import Machine
from aoec.target.vary import varied

if TYPE_CHECKING:
    from aoec.jobs.tune.tuning import Outcome, Problem

MACHINES = 32
BEST = 10  # candidates that are timed again
CONFIRMS = 0.9  # the share of machines that makes a gain one


@dataclass(frozen=True)
class Trust:
    """Ticks of the default and of the chosen schedule on each seeded machine, in the order of seeds."""

    default: tuple[int, ...]
    best: tuple[int, ...]

    @property
    def faster(self) -> int:
        """The machines on which the chosen schedule beats the default."""
        return sum(b < d for d, b in zip(self.default, self.best))

    @property
    def worst(self) -> float:
        """The largest share of the default's time that the chosen schedule takes on any machine: 1.02 is 2 % slower."""
        return max(b / d for d, b in zip(self.default, self.best))

    @property
    def confirmed(self) -> bool:
        return self.faster >= CONFIRMS * len(self.default)


def together(trusts: Sequence[Trust]) -> Trust:
    """Groups one after the other: sums, machine by machine."""
    return Trust(tuple(map(sum, zip(*(t.default for t in trusts)))), tuple(map(sum, zip(*(t.best for t in trusts)))))


@lru_cache(maxsize=8)
def seeded(machine: Machine) -> tuple[Machine, ...]:
    """The machines that a result is held against: seeds 0, 1, 2 ..."""
    return tuple(varied(machine, seed) for seed in range(MACHINES))


def of_programs(default: Program, best: Program, machine: Machine, state: State) -> Trust:
    """Two programs without holes against each other."""
    return Trust(*[tuple(_ticks(encode(program, machine), machine, {}, state)[:, 0].tolist()) for program in (default, best)])


def _ticks(encoded: Encoded, machine: Machine, rows: Mapping[str, np.ndarray], state: State) -> np.ndarray:
    """Ticks [seeded machine, row], NEVER where a row cannot run."""
    found = times_on(encoded, seeded(machine), rows, state)
    return np.array([np.where(times.status == 0, times.total_ticks, NEVER) for times in found])


def weighed(p: Problem, found: Outcome, robust: bool) -> Outcome:
    """A search's outcome with its trust, from its best ten candidates timed again; `robust`: of those that at least 90 % of the
    machines confirm, the one whose worst case is best, instead of the fastest; the default where none is confirmed."""
    if found.best == found.default:
        return found
    ten = leaders(p, found)
    ticks = again(p, ten)
    default = ticks[:, ten.index(found.default)]
    nominal = [ticks for ticks in p.cost(ten) if ticks is not None]
    pick = most_robust(ticks, default, nominal) if robust else ten.index(found.best)
    if pick is None:
        return replace(found, best=found.default, ticks=found.default_ticks, proof="")
    trust = Trust(tuple(map(int, default)), tuple(map(int, ticks[:, pick])))
    return replace(found, best=ten[pick], ticks=nominal[pick], proof=found.proof if ten[pick] == found.best else "", trust=trust)


def leaders(p: Problem, found: Outcome) -> list[Candidate]:
    """The ten fastest candidates that were timed, the found one first, and the default."""
    legal = {c: ticks for c, ticks in p.costs.items() if ticks is not None}
    last = max(nsmallest(BEST, legal.values()))
    fast = sorted((c for c, ticks in legal.items() if ticks <= last), key=lambda c: (legal[c], p.space.rank(c)))
    ten = list(dict.fromkeys([found.best, *fast]))[:BEST]
    return ten if found.default in ten else [*ten, found.default]


def again(p: Problem, candidates: Sequence[Candidate]) -> np.ndarray:
    """Ticks [machine, candidate]; each sketch is timed once, with its candidates as rows."""
    out = np.full((MACHINES, len(candidates)), NEVER, np.int64)
    for grid, places, columns in p.space.slabs(candidates):
        out[:, places] = _ticks(p.sketches[grid].encoded, p.machine, columns, p.state)
    return out


def most_robust(ticks: np.ndarray, default: np.ndarray, nominal: Sequence[int]) -> int | None:
    """The column whose worst ratio to the default is least, of those that enough machines find faster; ties by nominal ticks."""
    ratios = ticks / default[:, None]
    sure = np.flatnonzero((ratios < 1).sum(axis=0) >= CONFIRMS * len(ticks))
    return min(map(int, sure), key=lambda i: (ratios[:, i].max(), nominal[i]), default=None)
