"""How many candidates of a grid keep its constraints, without listing them.

The count is exact by tables (eliminate.py), if need be of parts of the grid. Where even these would be too large, the count is an estimate.
It counts exactly for as many conditions as are cheap. It multiplies this count by the share of seeded draws from what these conditions
leave that keep the others too. The estimate comes with its standard error.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from aoec.ir.func.tir import Constraint
from aoec.ir.index import Expr
from aoec.search.space.draws import Draws, draws
from aoec.search.space.eliminate import Counting, TooLarge, Truths, conjuncts
from aoec.search.space.grid import Grid

PARTS = 16  # that a grid is cut into at most
SAMPLE = 1 << 13  # draws of an estimate


@dataclass(frozen=True)
class Cut:
    """A constraint with how many candidates keep it and all before it; `error`: the standard error of an estimate, 0 where exact."""

    constraint: Constraint
    left: int
    error: float = 0.0


def cuts(grid: Grid, constraints: Sequence[Constraint]) -> list[Cut]:
    """Return what each constraint leaves of a grid, in order: exact, else estimated from seeded draws."""
    return [Cut(c, *left) for c, left in zip(constraints, lefts(grid, tuple(c.condition for c in constraints)))]


@lru_cache(maxsize=16)
def lefts(grid: Grid, conditions: tuple[Expr, ...]) -> list[tuple[int, float]]:
    """Return (candidates that keep the first 1, 2, 3 ... conditions, standard error); kept, as sketches with equal ones follow each
    other."""
    try:
        return [(left, 0.0) for left in exact(Truths(grid), conditions)]
    except TooLarge:
        return estimate_prefixes(grid, conditions)


def exact(known: Truths, conditions: Sequence[Expr], parts: int = PARTS) -> list[int]:
    """Return how many candidates of a grid keep the first 1, 2, 3 ... conditions. TooLarge where that takes too much."""
    try:
        return count_grid(known, conditions)
    except TooLarge:
        if parts == 1:
            raise
    return [sum(lefts) for lefts in zip(*[exact(half, conditions, parts // 2) for half in known.halves()])]


def count_grid(known: Truths, conditions: Sequence[Expr]) -> list[int]:
    """Return the same, of a grid that is not cut into parts."""
    counting, out, left = Counting(known), [], known.grid.size
    for condition in conditions:
        if counting.add(condition):
            left = counting.total() if left else 0
        out.append(left)
    return out


def estimate_prefixes(grid: Grid, conditions: Sequence[Expr], sample: int = SAMPLE) -> list[tuple[int, float]]:
    """Return (candidates that keep the first 1, 2, 3 ... conditions, standard error). It is exact as long as all conditions are cheap."""
    out: list[tuple[int, float]] = []
    parts: list[Expr] = []
    for condition in conditions:
        more = [*parts, *[part for part in conjuncts(condition) if part not in parts]]
        if len(more) > len(parts) or not out:
            found = estimate(draws(grid, more), sample)
            out.append(min(out[-1], found) if out else found)  # what more conditions leave is never more
        else:
            out.append(out[-1])
        parts = more
    return out


def estimate(drawing: Draws, sample: int) -> tuple[int, float]:
    """Return (candidates that keep all conditions, standard error)"""
    total = drawing.kept.total
    if not drawing.others or not total:
        return total, 0.0
    kept = int(drawing.draw_and_check(sample, np.random.RandomState(0))[1].sum())
    share = (kept + 1) / (sample + 2)  # never quite 0 or 1: an estimate of none has an error too
    return total * kept // sample, sqrt(share * (1 - share) / sample) * total
