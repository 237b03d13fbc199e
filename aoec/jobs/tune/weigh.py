"""The result of a search held against seeded machines: its fastest candidates timed again, and which of them is chosen."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import nsmallest

import numpy as np

from aoec.jobs.tune.trust import CONFIRMS, Trust, seeded_machines, ticks_on
from aoec.jobs.tune.tuning import Outcome, Problem
from aoec.search.space.grid import NEVER, Candidate

BEST = 10  # candidates that are timed again


def weigh(p: Problem, found: Outcome, robust: bool) -> Outcome:
    """Return a search's outcome with its trust, from its best ten candidates timed again. With `robust`, it is not the fastest, but the
    candidate with the best worst case of those that at least 90 % of the machines confirm. It is the default where none is confirmed."""
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
    """Return the ten fastest candidates that were timed, the found one first, and the default."""
    legal = {c: ticks for c, ticks in p.costs.items() if ticks is not None}
    last = max(nsmallest(BEST, legal.values()))
    fast = sorted((c for c, ticks in legal.items() if ticks <= last), key=lambda c: (legal[c], p.space.rank(c)))
    ten = list(dict.fromkeys([found.best, *fast]))[:BEST]
    return ten if found.default in ten else [*ten, found.default]


def again(p: Problem, candidates: Sequence[Candidate]) -> np.ndarray:
    """Return ticks [machine, candidate]; each sketch is timed once, with its candidates as rows."""
    out = np.full((len(seeded_machines(p.machine)), len(candidates)), NEVER, np.int64)
    for grid, places, columns in p.space.slabs(candidates):
        out[:, places] = ticks_on(p.sketches[grid].encoded, p.machine, columns, p.state)
    return out


def most_robust(ticks: np.ndarray, default: np.ndarray, nominal: Sequence[int]) -> int | None:
    """Return the column whose worst ratio to the default is least, of those that enough machines find faster; ties by nominal ticks."""
    ratios = ticks / default[:, None]
    sure = np.flatnonzero((ratios < 1).sum(axis=0) >= CONFIRMS * len(ticks))
    return min(map(int, sure), key=lambda i: (ratios[:, i].max(), nominal[i]), default=None)
