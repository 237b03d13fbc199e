"""The candidate of our vector sketches that comes nearest to what a stock rule wants: cores first, then the tile in UB, then slots."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product as pairs
from math import log, prod

import numpy as np

from aoec.ir.func.tir import Func
from aoec.ir.index import Expr, hole_names
from aoec.ir.schedule import Trace
from aoec.search.sketches.nests import output_nest
from aoec.search.space.draws import holding
from aoec.search.space.grid import Candidate, Grid
from aoec.search.stock.vector_rules import PING_PONG, Wanted

SLOTS = ("di", "do")
NEAREST = 2000  # rows of a sketch that are asked whether they are legal, the nearest first
GRIDS = 24  # ways over cores that are tried
MOST_ROWS = 1 << 18  # of one of them

Scored = tuple[tuple[float, ...], tuple[int, ...]]  # (distance, values of the holes)


def nearest(func: Func, sketches: Sequence[Trace], grids: Sequence[Grid], conditions: Callable[[int], Sequence[Expr]],
            wanted: Wanted) -> Candidate | None:
    """Return the nearest legal candidate, of equal ones the first; None where no list of a sketch has one."""
    found = [(score, number, values) for number, (trace, grid) in enumerate(zip(sketches, grids))
             for score, values in best_of(func, trace, grid, conditions(number), wanted)]
    return min(((number, values) for _, number, values in sorted(found)[:1]), default=None)


def best_of(func: Func, trace: Trace, grid: Grid, conditions: Sequence[Expr], wanted: Wanted) -> list[Scored]:
    """Return (distance, values) of the nearest legal candidate of a sketch; [] where there is none."""
    choices = dict(zip(grid.names, grid.choices))
    tiles, shared = tile_holes(func, trace, grid.names), [n for n in grid.names if n.startswith("g")]
    free = {n: (nearest_choice(c, PING_PONG),) if n in SLOTS else (c[0],) for n, c in choices.items() if n not in tiles and n not in shared}
    rows = []
    for given in grids_near(shared, choices, wanted.cores):
        part = Grid(grid.names, tuple(free.get(n) or ((given[n],) if n in given else choices[n]) for n in grid.names))
        if part.size <= MOST_ROWS:
            rows.append(np.stack(list(part.rows(0, part.size).values()), axis=1))
    if not rows:
        return []
    table = np.concatenate(rows)
    far = distances(table, grid.names, tiles, shared, rest_of(func, tiles), wanted)
    order = np.lexsort((*[table[:, at] for at in range(table.shape[1] - 1, -1, -1)], far[1], far[0]))[:NEAREST]
    for slots in (PING_PONG, 1):
        kept = table[order].copy()
        for name in SLOTS:
            if name in grid.names:
                kept[:, grid.names.index(name)] = nearest_choice(choices[name], slots)
        legal = np.flatnonzero(holding(conditions, dict(zip(grid.names, kept.T)), len(kept)))
        if len(legal):
            at = order[legal[0]]
            return [((float(far[0][at]), float(far[1][at]), float(PING_PONG - slots)), tuple(kept[legal[0]].tolist()))]
    return []


def tile_holes(func: Func, trace: Trace, names: Sequence[str]) -> dict[str, str]:
    """Return hole -> the loop of the result that it cuts."""
    loops = {lp.var for lp in output_nest(func).loops}
    out: dict[str, str] = {}
    for s in trace.steps:
        fields = dict(s.fields)
        if s.primitive == "split" and isinstance(f := fields.get("factor"), Expr):
            for name in hole_names(f):
                if name in names and str(fields["loop"]) in loops:
                    out.setdefault(name, str(fields["loop"]))
    return out


def rest_of(func: Func, tiles: dict[str, str]) -> int:
    """Return elements of a tile along the loops behind the first cut one that stay whole."""
    out = output_nest(func)
    names = [lp.var for lp in out.loops]
    first = min((names.index(v) for v in tiles.values()), default=0)
    return prod(out.extent(v) for v in names[first:] if v not in tiles.values())


def grids_near(shared: Sequence[str], choices: dict[str, tuple[int, ...]], cores: int) -> list[dict[str, int]]:
    """Return the ways over cores that come nearest to their number, those that do not exceed it first."""
    every = [dict(zip(shared, values)) for values in pairs(*[choices[n] for n in shared])]
    every.sort(key=lambda g: (prod(g.values()) > cores, abs(prod(g.values()) - cores), [-v for v in g.values()]))
    return every[:GRIDS]


def distances(table: np.ndarray, names: Sequence[str], tiles: dict[str, str], shared: Sequence[str], rest: int,
              wanted: Wanted) -> tuple[np.ndarray, np.ndarray]:
    """Return (of cores, of the tile) for each row: logarithms of ratios. A tile that is larger than wanted counts twice, for UB has no
    room."""
    cores = np.prod([table[:, names.index(n)] for n in shared], axis=0) if shared else np.ones(len(table))
    size = np.prod([table[:, names.index(n)] for n in tiles], axis=0) * rest if tiles else np.full(len(table), rest)
    ratio = np.log(np.maximum(size, 1)) - log(wanted.elements)
    return np.abs(np.log(cores) - log(wanted.cores)), np.where(ratio > 0, 2 * ratio, -ratio)


def nearest_choice(values: Sequence[int], wanted: int) -> int:
    """Return the choice nearest to a number."""
    return min(values, key=lambda v: (abs(v - wanted), v))
