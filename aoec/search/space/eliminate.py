"""Conditions on the holes of a grid as tables, and the sum of their product, found hole by hole.

A constraint reads few holes: its truth is a table over the choices of those alone. The number of candidates that keep several constraints
is the sum over all holes of the product of their tables. Such a sum is found hole by hole. The tables that read a hole are multiplied and
summed over it. This leaves a table over the other holes that they read. The method is variable elimination: Dechter, "Bucket elimination: A
unifying framework for reasoning", Artificial Intelligence 113, 1999. So 10^12 candidates are counted by way of tables of some 10^6 numbers.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from aoec.ir.index import Binary, Expr, evaluate, hole_names
from aoec.search.space.grid import Grid

CELLS = 1 << 17  # of a table that are evaluated at a time: temporaries of 1 MiB, which stay in caches
TABLE = 1 << 25  # truth values of one constraint at most: 32 MiB
BUCKET = 1 << 22  # sums at most that are left of one hole: 4 MiB for most, 32 MiB at most
WORK = 1 << 29  # products at most for one grid, or part of one: some seconds
INT64 = 1 << 62  # sums of products stay below it

Table = tuple[tuple[int, ...], np.ndarray]  # holes by place, ascending; one axis each
Bucket = tuple[int, list[Table]]  # a hole, and the tables that read it when it is summed over


class TooLarge(Exception):
    """An exact count would take tables or time beyond the limits."""


# ---------------------------------------------------------------- conditions as tables

class Truths:
    """The tables of conditions on a grid, each found once; a half of a grid has those of the whole, as far as they are of use to it."""

    def __init__(self, grid: Grid, whole: Truths | None = None, hole: int = -1, first: int = 0) -> None:
        self.grid, self.whole, self.hole, self.first = grid, whole, hole, first
        self.known: dict[Expr, Table] = {}

    def halves(self) -> list[Truths]:
        """Return those of the grid in two, by the choices of the hole that has most."""
        counts = self.grid.counts
        hole = counts.index(max(counts))
        parts = ((0, (counts[hole] + 1) // 2), ((counts[hole] + 1) // 2, counts[hole]))
        return [Truths(self.grid.part(hole, first, last), self, hole, first) for first, last in parts if first < last]

    def of(self, condition: Expr) -> Table:
        """Return whether a condition holds, by the choices of the holes that it reads. TooLarge beyond the limit."""
        if condition not in self.known:
            holes = tuple(sorted(map(self.grid.names.index, hole_names(condition))))
            self.known[condition] = holes, self.of_whole(holes, condition)
        return self.known[condition]

    def of_whole(self, holes: tuple[int, ...], condition: Expr) -> np.ndarray:
        """Return the table of a condition that reads these holes: that of the whole grid where it is the same, or a part of one that is
        known."""
        if self.whole is not None and self.hole not in holes:
            return self.whole.of(condition)[1]
        if self.whole is not None and condition in self.whole.known:
            mine = slice(self.first, self.first + self.grid.counts[self.hole])
            return self.whole.known[condition][1][tuple(mine if h == self.hole else slice(None) for h in holes)]
        return truths(self.grid, holes, condition)


class Counting:
    """A growing set of conditions on a grid, and how many candidates keep all. What a new one does not touch is not counted again."""

    def __init__(self, known: Truths) -> None:
        if known.grid.size >= INT64:
            raise TooLarge
        self.grid, self.truths = known.grid, known
        self.tables: list[Table] = []
        self.seen: set[Expr] = set()
        self.known: dict[tuple[int, ...], int] = {}  # tables of a component -> combinations of its holes
        self.work = 0

    def add(self, condition: Expr) -> bool:
        """Return whether the condition can make a difference: it is new, and somewhere false."""
        return any([self.add_one(part) for part in conjuncts(condition)])

    def add_one(self, condition: Expr) -> bool:
        """Return the same, of a condition that is no `and`."""
        if condition in self.seen:
            return False
        self.seen.add(condition)
        holes, truth = self.truths.of(condition)
        if not truth.all():
            self.tables.append((holes, truth))
        return not truth.all()

    def total(self) -> int:
        """Return candidates that keep all conditions."""
        total, used = 1, set[int]()
        for component in components([holes for holes, _ in self.tables]):
            if component not in self.known:
                found = eliminate([self.tables[i] for i in component], self.grid.counts, WORK - self.work)
                self.known[component] = found.total
                self.work += found.work
            total *= self.known[component]
            used |= {h for i in component for h in self.tables[i][0]}
        return total * prod(count for h, count in enumerate(self.grid.counts) if h not in used)


def conjuncts(condition: Expr) -> list[Expr]:
    """Return the conditions that an `and` joins: each reads fewer holes."""
    if isinstance(condition, Binary) and condition.op == "and":
        return [*conjuncts(condition.left), *conjuncts(condition.right)]
    return [condition]


def truths(grid: Grid, holes: tuple[int, ...], condition: Expr) -> np.ndarray:
    """Return bool[choice of the first hole, of the second, ...]: whether the condition holds. TooLarge beyond the limit."""
    counts = [grid.counts[h] for h in holes]
    if prod(counts) > TABLE:
        raise TooLarge
    out = np.empty(counts, bool)
    for part in slices(counts):
        some = {grid.names[h]: np.array(grid.choices[h][s], np.int64).reshape([-1 if i == at else 1 for i in range(len(holes))])
                for at, (h, s) in enumerate(zip(holes, part))}
        with np.errstate(divide="ignore", invalid="ignore"):
            out[part] = np.asarray(evaluate(condition, some)) != 0
    return out


def slices(counts: Sequence[int]) -> Iterator[tuple[slice, ...]]:
    """Yield parts that make up an array of these extents, of at most CELLS each (or one of the last axis)."""
    inner = prod(counts[1:])
    step = max(1, CELLS // inner)
    for start in range(0, counts[0], step) if counts else ():
        here = slice(start, min(start + step, counts[0]))
        for rest in slices(counts[1:]) if inner > CELLS else [tuple(slice(0, c) for c in counts[1:])]:
            yield here, *rest
    if not counts:
        yield ()


def components(groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the groups, by number, put together where they share a member or others of theirs do."""
    found: list[tuple[set[int], list[int]]] = []
    for i, group in enumerate(groups):
        near = [f for f in found if f[0] & set(group)]
        found = [f for f in found if f not in near]
        found.append((set(group).union(*[f[0] for f in near]), sorted([i, *[n for f in near for n in f[1]]])))
    return [tuple(numbers) for _, numbers in found]


# ---------------------------------------------------------------- elimination

@dataclass(frozen=True)
class Elimination:
    """`total` combinations of the tables' holes keep all of them; `buckets` in the order in which holes were summed over; `work`:
    products made."""

    total: int
    buckets: list[Bucket]
    work: int


def eliminate(tables: Sequence[Table], counts: Sequence[int], work: int = WORK) -> Elimination:
    """Return the holes of tables summed over, the one that takes the fewest products first. TooLarge where that is more than `work`."""
    total, buckets, done = scalars(tables), [], 0
    while tables := [t for t in tables if t[0]]:
        cost, hole = min((cost_of(tables, h, counts), h) for h in {h for holes, _ in tables for h in holes})
        done += cost
        if done > work:
            raise TooLarge
        mine = [t for t in tables if hole in t[0]]
        buckets.append((hole, mine))
        left = sum_out(mine, hole, counts)
        total *= scalars([left])
        tables = [*[t for t in tables if hole not in t[0]], left]
    return Elimination(total, buckets, done)


def scalars(tables: Sequence[Table]) -> int:
    """Return the product of the tables that read no hole."""
    return prod(int(table) for holes, table in tables if not holes)


def cost_of(tables: Sequence[Table], hole: int, counts: Sequence[int]) -> int:
    """Return products that it takes to sum over a hole."""
    return prod(counts[h] for h in {h for holes, _ in tables if hole in holes for h in holes})


def sum_out(tables: Sequence[Table], hole: int, counts: Sequence[int]) -> Table:
    """Sum the product of the tables over a hole. The result is a table over their other holes.
    Its numbers are the narrowest that surely hold it: most sums are small, and bytes take an eighth of the memory of int64."""
    holes = tuple(sorted({h for axes, _ in tables for h in axes} - {hole}))
    if prod(counts[h] for h in holes) > BUCKET:
        raise TooLarge
    if len(tables) == 1 and counts[hole] == 1:  # the same numbers, for nothing
        return holes, tables[0][1].reshape([counts[h] for h in holes])
    most = prod(int(table.max(initial=0)) for _, table in tables)
    narrow, wide = np.min_scalar_type(most), np.min_scalar_type(counts[hole] * most)
    spread = sorted((along(table, axes, (hole, *holes)).astype(narrow, copy=False) for axes, table in tables), key=lambda t: t.size)
    sums = np.zeros([counts[h] for h in holes], wide)
    for at in range(counts[hole]):  # whole tables at a time: numbers lie in a row then, which adding up along each row would not find
        first, *others = [t[at] for t in spread]
        for t in others:
            first = first * t
        sums += first
    return holes, sums


def along(table: np.ndarray, axes: Sequence[int], holes: Sequence[int]) -> np.ndarray:
    """Return the table with an axis for each of some holes, in their order: of length 1 for those that it does not read."""
    order = sorted(range(len(axes)), key=lambda i: holes.index(axes[i]))
    lengths = {axes[i]: table.shape[i] for i in order}
    return np.ascontiguousarray(table.transpose(order)).reshape([lengths.get(h, 1) for h in holes])


def affordable(groups: Sequence[tuple[int, ...]], counts: Sequence[int], work: int) -> bool:
    """Return whether no table is too large and `eliminate` would do with so many products, known from the holes that each table reads."""
    sets, done = [frozenset(g) for g in groups if g], 0
    if any(prod(counts[h] for h in g) > min(TABLE, work) for g in groups):
        return False
    while sets:
        joint = {h: frozenset[int]().union(*[g for g in sets if h in g]) for h in frozenset[int]().union(*sets)}
        cost, hole = min((prod(counts[h] for h in together), hole) for hole, together in joint.items())
        done += cost
        if done > work or cost // counts[hole] > BUCKET:
            return False
        left = joint[hole] - {hole}
        sets = [*[g for g in sets if hole not in g], *[left] * bool(left)]
    return True
