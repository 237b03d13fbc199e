"""Moves: which row of a table lies beside a candidate, or between two. What they give is a row that is free, so legal and new."""
from __future__ import annotations

from random import Random

import numpy as np

from aoec.search.space.grid import Space
from aoec.search.strategies.table import Table

MUTATED = 0.2  # of the children; and every one that would be a parent


def beside(table: Table, free: np.ndarray, codes: np.ndarray, random: Random) -> int | None:
    """Return a free row that differs in one column, each column equally likely and then each row, else any that differs in two; None where
    there is none. So a switch of two values is tried as often as a tile of forty."""
    steps = np.where(free, table.steps(codes), 3)
    rows = np.flatnonzero(steps == 1)
    if len(rows):
        columns = (table.codes[rows] != codes).argmax(axis=1)
        present = np.unique(columns)
        rows = rows[columns == present[random.randrange(len(present))]]
    else:
        rows = np.flatnonzero(steps == 2)
    return int(rows[random.randrange(len(rows))]) if len(rows) else None


def rarest(table: Table, free: np.ndarray, tried: np.ndarray, score: np.ndarray, random: Random) -> int:
    """Return a free row with a value that was hardly tried. The column is drawn at random. Of its values, take the one that occurs least
    among the tried rows, and of the free rows with it the one of the lowest score. `tried` holds codes, [row, column]. So no value of a
    hole is given up because it looked bad beside wrong values of the others."""
    column = random.randrange(table.codes.shape[1])
    left = table.codes[free, column]
    values, counts = np.unique(np.concatenate([left, tried[:, column]]), return_counts=True)
    counts = np.where(np.isin(values, left), counts - (left[:, None] == values).sum(axis=0), np.iinfo(np.int64).max)
    chosen = values[counts.argmin()]
    return int(np.where(free & (table.codes[:, column] == chosen), score, np.inf).argmin())


def between(table: Table, free: np.ndarray, parents: tuple[np.ndarray, np.ndarray], random: Random) -> int:
    """Return the free row that is nearest to a child of two rows of codes. Each column of the child is from either parent, and now and then
    from any row.

    Crossing breaks rules that hold between holes. The nearest legal candidate keeps the most of what was crossed. Among rows that differ in
    as many columns, the one whose codes are nearer is taken; of equals, any.
    """
    child = np.where([random.random() < 0.5 for _ in parents[0]], *parents)
    if random.random() < MUTATED or any(np.array_equal(child, p) for p in parents):
        column = random.randrange(len(child))
        child[column] = table.codes[random.randrange(len(table)), column]
    apart = np.abs(table.codes - child) / np.maximum(table.codes.max(axis=0), 1)
    distance = np.where(free, np.round(table.steps(child) + 0.3 * apart.sum(axis=1), 6), np.inf)
    rows = np.flatnonzero(distance == distance.min())
    return int(rows[random.randrange(len(rows))])


def mutants(space: Space, rank: int, count: int, random: Random) -> list[int]:
    """Return the ranks of `count` candidates of the same grid in which two or three holes have any of their choices; some may be equal."""
    number = space.grid_of(rank)
    grid, out = space.grids[number], []
    digits = grid.digits(rank - space.starts[number])
    for _ in range(count):
        child = list(digits)
        for hole in random.sample(range(len(child)), min(len(child), random.randint(2, 3))):
            child[hole] = random.randrange(grid.counts[hole])
        out.append(space.starts[number] + grid.at(child))
    return out
