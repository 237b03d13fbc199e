"""The short list of a sketch.

It has the vendor's stock cube block (128 x 256 x 64, double buffered), and legal candidates around that block and around even shares of
each axis. Their core grids have every shape that keeps the cores busy. The list also has candidates like given ones of another sketch.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.ir.index import Expr
from aoec.search.default.block import Conditions, busy, evenly, stock, up_to
from aoec.search.space.draws import holding, some
from aoec.search.space.grid import Candidate, Grid, Rows, Space

# hole -> values around which the short list is laid
STOCK = {"tm": (128, 64, 256), "tn": (256, 128, 64), "n1": (16, 8, 4), "tk": (64, 128, 256), "sk": (4, 1, 1024), "w0": (128, 256, 64),
         "h0": (1 << 20, 4, 1), "rk": (1, 2), "pm": (1, 2), "pn": (1, 2), "uc": (4, 2),
         "tr": (64, 128, 32), "tp": (2, 4, 1), "k1": (8, 16, 4), "vc": (2, 1)}
SLOTS = ("da", "db", "d0a", "d0b", "dc", "uf", "pl", "ps", "di", "do")
LIST = 200  # of a sketch
FEW, LIKE = 16, 3  # of a list; of those like one
SAMPLE = 512  # of all like one that are looked at


def list_candidates(space: Space, number: int, conditions: Conditions) -> list[Candidate]:
    """Return the short list of one sketch."""
    grid, kept = space.grids[number], conditions(number)
    return list(dict.fromkeys([*shortlist(grid, number, kept), *stock(grid, number, kept)]))


def few(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return some candidates of a list, evenly."""
    return list(candidates[evenly(len(candidates), FEW)])


def shortlist(grid: Grid, number: int, conditions: Sequence[Expr]) -> list[Candidate]:
    """Return legal candidates of one sketch: stock and even tiles, doubled slots, grids of every shape that keep the cores busy; at most
    LIST of them, drawn from all."""
    part = Grid(grid.names, tuple(around(grid, name, values) for name, values in zip(grid.names, grid.choices)))
    kept = [*conditions, *busy(grid)]
    return [(number, v) for v in sorted(set(some(part, kept, LIST)))]


def around(grid: Grid, name: str, values: tuple[int, ...]) -> tuple[int, ...]:
    """Return the choices of a hole that the short list uses."""
    if name in SLOTS:
        return (up_to(values, 2),)
    if name in STOCK:
        return tuple(dict.fromkeys(min(values, key=lambda v: abs(v - s)) for s in STOCK[name]))
    if name.startswith("g"):
        return values
    return tuple(sorted({values[(len(values) - 1) * i // 7] for i in range(8)}))


def alike(space: Space, candidates: Sequence[Candidate], number: int, conditions: Sequence[Expr]) -> list[Candidate]:
    """Return legal candidates of a sketch that are like given ones of other sketches: LIKE for each, and FEW at most. Holes of the same
    name have the same numbers, or the nearest choices. Other holes have the choices of a short list."""
    grid, out = space.grids[number], dict[Candidate, None]()
    for other, values in candidates:
        known = dict(zip(space.grids[other].names, values))
        part = Grid(grid.names, tuple(
            (min(choices, key=lambda v: (abs(v - known[name]), v)),) if name in known else around(grid, name, choices)
            for name, choices in zip(grid.names, grid.choices)))
        rows, count = sample_grid(part)
        legal = np.flatnonzero(holding(conditions, rows, count))
        legal = legal[evenly(len(legal), LIKE)]
        out |= dict.fromkeys((number, v) for v in zip(*[column[legal].tolist() for column in rows.values()]))
    return list(out)[:FEW]


def sample_grid(grid: Grid) -> tuple[Rows, int]:
    """Return (columns, count) of all candidates of a grid, or of a fixed sample of a large one."""
    if grid.size <= SAMPLE:
        return grid.rows(0, grid.size), grid.size
    random = np.random.RandomState(0)  # whose numbers are the same in every version of NumPy
    return {name: np.array(c, np.int64)[random.randint(len(c), size=SAMPLE)] for name, c in zip(grid.names, grid.choices)}, SAMPLE
