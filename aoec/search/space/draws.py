"""Candidates of a grid that keep its constraints, each as likely as any other; and all of them, where they are few.

The tables that count candidates (eliminate.py) also give probabilities when they are read backwards, from the last hole to the first. They
say how likely each choice of a hole is among the candidates that keep all conditions. Where the tables of all conditions would be too
large, draws are made by the tables of as many conditions as are cheap. A draw that breaks one of the others is drawn again, which leaves
the chances even. For matrix products of any size at least one draw in 16 is kept. Without the tables it would be one candidate in 20 to
200. A thousand draws take some milliseconds.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Hole, Int, Var, children, evaluate, hole_names
from aoec.search.space.eliminate import INT64, Counting, Elimination, Table, TooLarge, Truths, affordable, conjuncts, eliminate
from aoec.search.space.grid import Grid, Rows

QUICK = 1 << 20  # products at most for the tables that draw: some milliseconds
TRIES = 1 << 17  # draws at most, where some are refused
ROUND = (256, 1 << 14)  # draws of a round


@dataclass(frozen=True)
class Draws:
    """What draws from a grid: the tables of the conditions that every draw keeps, and the others, by which draws are refused."""

    grid: Grid
    kept: Elimination
    others: tuple[Expr, ...]

    def rows(self, count: int, random: np.random.RandomState) -> Rows:
        """Return columns of hole values for `count` candidates that keep all conditions, each drawn with equal chance from all that do;
        none where there are none, and fewer where too many draws were refused."""
        if not self.others:
            return self.any(count, random)
        found, tried, left = list[Rows](), 0, count
        while left > 0 and self.kept.total and tried < max(TRIES, count):
            size = min(max(ROUND[0], left * max(2, tried // max(count - left, 1)) * 9 // 8), ROUND[1])
            rows, holds = self.draw_and_check(size, random)
            found.append({name: values[holds][:left] for name, values in rows.items()})
            tried, left = tried + size, left - int(holds.sum())
        return {name: np.concatenate([np.zeros(0, np.int64), *[f[name] for f in found]]) for name in self.grid.names}

    def draw_and_check(self, count: int, random: np.random.RandomState) -> tuple[Rows, np.ndarray]:
        """Draw as many candidates that keep the conditions of the tables. Return them, and whether each keeps the other conditions too."""
        rows = self.any(count, random)
        return rows, holding(self.others, rows, count if self.kept.total else 0)

    def any(self, count: int, random: np.random.RandomState) -> Rows:
        """Return columns of hole values for candidates that keep the conditions of the tables."""
        digits: dict[int, np.ndarray] = {}
        for hole, tables in self.kept.buckets[::-1]:
            chances = random.random_sample(count if self.kept.total else 0)
            reached = np.cumsum(weights(hole, tables, digits, len(chances), self.grid.counts[hole]), axis=1)
            digits[hole] = np.asarray((reached <= chances[:, None] * reached[:, -1:]).sum(axis=1))
        return {name: np.array(self.grid.choices[h], np.int64)[digits[h]] for h, name in enumerate(self.grid.names)}


def draw_rows(grid: Grid, conditions: Sequence[Expr], count: int, seed: int = 0) -> Rows:
    """Draw `count` candidates that keep all conditions, each with equal chance, as columns of hole values.
    There are fewer where too many draws were refused, and none where no candidate keeps all conditions."""
    return draws(grid, conditions).rows(count, np.random.RandomState(seed))  # whose numbers are the same in every version of NumPy


def some(grid: Grid, conditions: Sequence[Expr], count: int) -> list[tuple[int, ...]]:
    """Return hole values of up to `count` candidates that keep all conditions, some perhaps the same."""
    if not grid.names:
        return [()] if holding(conditions, {}, 1).all() else []
    return list(zip(*[c.tolist() for c in draw_rows(grid, conditions, count).values()]))


def draws(grid: Grid, conditions: Sequence[Expr], work: int = QUICK) -> Draws:
    """Return what draws candidates of a grid that keep all conditions."""
    cheap, others = split_conditions(grid, conditions, work)
    return Draws(grid, eliminate_holes(grid, cheap), tuple(others))


def split_conditions(grid: Grid, conditions: Sequence[Expr], work: int) -> tuple[list[Expr], list[Expr]]:
    """Return (conditions whose tables together take few products, the others). Those with the smallest tables are taken first."""
    parts = list(dict.fromkeys(part for c in conditions for part in conjuncts(c)))
    if grid.size >= INT64:
        return [], parts
    holes = {part: tuple(sorted(map(grid.names.index, hole_names(part)))) for part in parts}
    if affordable(list(holes.values()), grid.counts, work):
        return parts, []
    cheap: list[Expr] = []
    for part in sorted(parts, key=lambda part: prod(grid.counts[h] for h in holes[part])):
        if affordable([holes[c] for c in (*cheap, part)], grid.counts, work):
            cheap.append(part)
    return cheap, [part for part in parts if part not in cheap]


def eliminate_holes(grid: Grid, conditions: Sequence[Expr]) -> Elimination:
    """Return the elimination of all holes of a grid. Holes that no condition reads come first, so that they are last backwards."""
    tables: list[Table] = []
    if conditions:
        counting = Counting(Truths(grid))
        for condition in conditions:
            counting.add(condition)
        tables = counting.tables
    found = eliminate(tables, grid.counts)
    free = sorted(set(range(len(grid.counts))) - {hole for hole, _ in found.buckets})
    total = found.total * prod(grid.counts[h] for h in free)
    return Elimination(total, [*[(h, list[Table]()) for h in free], *found.buckets], found.work)


def weights(hole: int, tables: Sequence[Table], digits: dict[int, np.ndarray], count: int, choices: int) -> np.ndarray:
    """Return float64[row, choice]: how many candidates that keep all conditions a row with this choice of a hole may yet become, by a
    factor of the row."""
    out = np.ones((count, choices))
    for holes, table in tables:
        out *= np.moveaxis(table, holes.index(hole), -1)[tuple(digits[h] for h in holes if h != hole)]
    return out


def holding(conditions: Sequence[Expr], rows: Rows, count: int) -> np.ndarray:
    """Return bool[row]: whether a row keeps all conditions. A condition is asked of rows that kept those before it, and what conditions
    share is found once for these."""
    left, known, out = np.arange(count), dict[Expr, Any](), np.ones(count, bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for condition in conditions:
            out &= np.asarray(value(condition, rows, known)) != 0
            if 2 * np.count_nonzero(out) < len(out):
                left, rows, known = left[out], {name: column[out] for name, column in rows.items()}, {}
                out = np.ones(len(left), bool)
    kept = np.zeros(count, bool)
    kept[left[out]] = True
    return kept


def value(e: Expr, rows: Rows, known: dict[Expr, Any]) -> Any:
    """Return the value of an integer expression for each row; `known` remembers those of expressions in it."""
    if isinstance(e, Int):
        return e.value
    if isinstance(e, (Hole, Var)):
        return rows[e.name]
    if e not in known:
        parts = [value(part, rows, known) for part in children(e)]
        known[e] = INT_OPS[e.op](*parts) if isinstance(e, Binary) else INT_CALLS[e.fn](*parts) if isinstance(e, Call) else evaluate(e, rows)
    return known[e]


# ---------------------------------------------------------------- all of them

def list_ranks(grid: Grid, conditions: Sequence[Expr], most: int) -> np.ndarray | None:
    """Return the ranks in a grid of all candidates that keep all conditions, ascending; None where they are more than `most`. TooLarge
    where that takes too much."""
    found = eliminate_holes(grid, conditions)
    if found.total > most:
        return None
    digits: dict[int, np.ndarray] = {}
    count = min(found.total, 1)
    for hole, tables in found.buckets[::-1]:  # each row becomes a candidate at least, so that no more are held than there are
        source, choice = np.nonzero(weights(hole, tables, digits, count, grid.counts[hole]))
        digits = {h: d[source] for h, d in digits.items()} | {hole: choice}
        count = len(choice)
    steps = np.cumprod([1, *grid.counts[:0:-1]], dtype=np.int64)[::-1]
    return np.sort(sum((digits[h] * step for h, step in zip(range(len(grid.counts)), steps)), np.zeros(count, np.int64)))


def few(grid: Grid, conditions: Sequence[Expr], most: int) -> np.ndarray | None:
    """Return `list_ranks`, or None where that takes too much."""
    try:
        return list_ranks(grid, conditions, most)
    except TooLarge:
        return None
