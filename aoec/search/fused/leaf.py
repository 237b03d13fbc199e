"""What an operator keeps in the buffer below its fused loops: in each order of its tensors, every chain of tiles.

A tensor has a place in the nest. The loops above that place are cut into tiles, and the tensor holds what its tile touches. Each tile of a
loop divides the tile of that loop above it. Two kinds of choices are left out, because another choice is no worse in bytes moved or in
bytes held. First, a loop that does not index a tensor is not cut directly above it: the tensor would be fetched again for nothing. Second,
a loop that indexes only the innermost tensor, alone in its dimension, is cut to single elements above that tensor: no tensor below is
fetched more often for it. A tensor with a window may slide along one loop: from one iteration to the next it keeps what both touch, and
fetches the rest.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from aoec.search.fused.chain import Access
from aoec.search.fused.spans import Spans, divisors, split, touches

Table = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Kept:
    """A tensor in GM that an operator may keep in the buffer."""

    access: Access
    shape: tuple[int, ...]
    bits: int
    written: bool

    def traffic(self, volume: Any, first: Any) -> Any:
        """Return bits between the memories where `volume` elements are brought in, `first` of them for the first time. Sums go both ways; a
        first element of a sum is not fetched."""
        return self.bits * (2 * volume - first if self.written else volume)


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a tensor stands below the fused loops: tile of each loop above it, and the loop along which it slides, or ""."""

    tensor: str
    tiles: tuple[tuple[str, int], ...]
    slide: str = ""


@dataclass(frozen=True)
class Front:
    """Choices of which none is better than another: bits moved, bits held, and where the tensors stand."""

    moved: Table
    held: Table
    stands: tuple[tuple[Stand, ...], ...]


def pareto(rows: Table) -> Table:
    """Return indices of rows of which no other row is as small in every column; of equal rows the first."""
    order = np.lexsort(rows.T[::-1])
    kept: list[int] = []
    best = np.empty((0, rows.shape[1]), rows.dtype)
    if rows.shape[1] == 2:  # in order of the first column a row stands where its second one falls
        second = rows[order, 1]
        falls = np.concatenate(([True], second[1:] < np.minimum.accumulate(second)[:-1]))
        return order[falls]
    step = 64
    for begin in range(0, len(order), step):
        some = order[begin:begin + step]
        if len(best):
            some = some[~np.any(np.all(best[None] <= rows[some][:, None], axis=2), axis=1)]
        own: list[int] = []
        for i in some:
            if not own or not (rows[own] <= rows[i]).all(1).any():
                own.append(int(i))
        if own:
            kept += own
            best = np.concatenate((best, rows[own]))
    return np.array(kept, np.int64)


class Tables:
    """Of the loops of a nest: the tiles of each, its trips by tile, and for each tensor elements by tile."""

    def __init__(self, where: Mapping[str, Spans]) -> None:
        self.where = where
        self.tiles = {v: divisors(s.box) for v, s in where.items()}
        self.windows: dict[tuple[Kept, int], tuple[Table, Table]] = {}
        self.trips = {v: np.array([split(s, t).trips for t in self.tiles[v]], np.float64) for v, s in where.items()}

    def window(self, kept: Kept, dim: int) -> tuple[Table, Table]:
        """Return elements of a dimension that all trips touch, and the most that one touches, by the tile of each of its loops."""
        found = self.windows.get((kept, dim))
        if found is None:
            found = self.windows[kept, dim] = self._window(kept, dim)
        return found

    def _window(self, kept: Kept, dim: int) -> tuple[Table, Table]:
        index = kept.access.dims[dim]
        names = [v for v, _ in index.terms]
        shape = tuple(len(self.tiles[v]) for v in names)
        total, box = np.empty(shape), np.empty(shape)
        for at in np.ndindex(*shape):
            cuts = {v: split(self.where[v], self.tiles[v][i]) for v, i in zip(names, at, strict=True)}
            found = touches(index, cuts, kept.shape[dim])
            total[at], box[at] = found.total, found.box
        return total, box


def tile_pairs(parents: Table, column: int, tiles: Sequence[int]) -> Table:
    """Return pairs (row, number of a tile) where the tile divides the one that the row has in a column."""
    divides = np.array([[b % a == 0 for a in tiles] for b in tiles])
    return np.column_stack(np.nonzero(divides[parents[:, column]]))


class Chains:
    """Every chain of tiles for tensors in one order, a row each: bits moved and held, and the way back to what was chosen."""

    def __init__(self, tables: Tables, order: Sequence[Kept]) -> None:
        self.tables, self.order = tables, order
        self.columns = {v: i for i, v in enumerate(tables.tiles)}
        self.at = np.zeros((1, len(self.columns)), np.int64)  # of each row the number of each loop's tile
        self.moved, self.held = np.zeros(1), np.zeros(1)
        self.trail: list[tuple[Table, Table, Table]] = []  # of each tensor: the row above, tiles and slides of each row
        for kept in order:
            self.add(kept, kept is order[-1])

    def choices(self, kept: Kept, last: bool) -> tuple[Table, Table]:
        """Return (row above, number of each loop's tile) of every way to cut the loops above a tensor."""
        rows, at = np.arange(len(self.at)), self.at
        for dim in kept.access.dims:
            for v, _ in dim.terms:
                column, tiles = self.columns[v], self.tables.tiles[v]
                if last and len(dim.terms) == 1:
                    at = at.copy()
                    at[:, column] = len(tiles) - 1
                    continue
                pairs = tile_pairs(at, column, tiles)
                rows, at = rows[pairs[:, 0]], at[pairs[:, 0]]
                at[:, column] = pairs[:, 1]
        return rows, at

    def add(self, kept: Kept, last: bool) -> None:
        """Place the next tensor."""
        rows, at = self.choices(kept, last)
        above = self.at[rows]
        volumes, box = self.volumes(kept, above, at)
        first = prod(self.tables.window(kept, d)[0].max() for d in range(len(kept.access.dims))) if kept.written else 0
        out = [(rows[ok], at[ok], np.full(int(ok.sum()), i), kept.traffic(volume[ok], first), box[ok] * kept.bits)
               for i, (ok, volume) in enumerate(volumes)]
        rows, self.at, slides, moved, held = (np.concatenate(x) for x in zip(*out, strict=True))
        self.moved, self.held = self.moved[rows] + moved, self.held[rows] + held
        self.trail.append((rows, self.at, slides))

    def volumes(self, kept: Kept, above: Table, at: Table) -> tuple[list[tuple[Table, Table]], Table]:
        """Return (which rows may, elements that come in) with no slide, and with a slide along each loop of `slides`; and elements held."""
        names = kept.access.loops()
        again = np.ones(len(at))
        for v, column in self.columns.items():
            if v not in names:
                again *= self.tables.trips[v][at[:, column]]
        totals, box = [], np.ones(len(at))
        for d, dim in enumerate(kept.access.dims):
            total, most = self.tables.window(kept, d)
            place = tuple(at[:, self.columns[v]] for v, _ in dim.terms)
            totals.append(total[place])
            box *= most[place]
        out = [(np.ones(len(at), bool), again * np.prod(totals, 0) if totals else again)]
        for d, v in slides(kept.access):
            dim = kept.access.dims[d]
            alone = np.ones(len(at), bool)
            for other, _ in dim.terms:
                if other != v:
                    alone &= self.tables.trips[other][at[:, self.columns[other]]] == 1
            alone &= at[:, self.columns[v]] != above[:, self.columns[v]]
            place = tuple((above if o == v else at)[:, self.columns[o]] for o, _ in dim.terms)
            rest = np.prod([*totals[:d], *totals[d + 1:]], 0) if len(totals) > 1 else 1.0
            out.append((alone, again * rest * self.tables.window(kept, d)[0][place]))
        return out, box

    def stands(self, row: int) -> tuple[Stand, ...]:
        """Return where the tensors of a row stand, from the outermost."""
        out = []
        for kept, (above, at, slide) in zip(self.order[::-1], self.trail[::-1], strict=True):
            tiles = tuple((v, self.tables.tiles[v][at[row, c]]) for v, c in self.columns.items())
            i = int(slide[row])
            out.append(Stand(kept.access.tensor, tiles, slides(kept.access)[i - 1][1] if i else ""))
            row = int(above[row])
        return tuple(out[::-1])


def slides(access: Access) -> list[tuple[int, str]]:
    """Return (dimension, loop) along which a window may slide."""
    return [(d, v) for d, dim in enumerate(access.dims) if len(dim.terms) > 1 for v, _ in dim.terms]


def front(where: Mapping[str, Spans], kept: Sequence[Kept]) -> Front:
    """Return the choices for these tensors below fused loops that stand as given."""
    if not kept:
        return Front(np.zeros(1), np.zeros(1), ((),))
    tables = Tables(where)
    every = [Chains(tables, order) for order in permutations(kept)]
    moved, held = np.concatenate([c.moved for c in every]), np.concatenate([c.held for c in every])
    ends = np.cumsum([len(c.moved) for c in every])
    best = pareto(np.column_stack((moved, held)))
    stands = []
    for i in best:
        which = int(np.searchsorted(ends, i, side="right"))
        stands.append(every[which].stands(int(i - ends[which] + len(every[which].moved))))
    return Front(moved[best], held[best], tuple(stands))
