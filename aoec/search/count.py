"""How many candidates of a grid keep its constraints, exactly and without listing them; and some that do, each equally likely.

A constraint reads few holes: its truth is a table over the choices of those alone. The number of candidates that keep several is the sum
over all holes of the product of their tables, and a sum of products is found hole by hole: the tables that read a hole are multiplied
and summed over it, which leaves a table over the holes that they share (variable elimination: Dechter, "Bucket elimination: A unifying
framework for reasoning", Artificial Intelligence 113, 1999). So 10^12 candidates are counted by way of tables of some 10^6 numbers.
Backwards, from the last hole to the first, the same tables say how likely each choice of a hole is among the candidates that keep all.
Where even these tables would be too large the grid is cut into parts, and at last a seeded sample estimates the numbers.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np

from aoec.ir.index import Binary, Expr, evaluate, hole_names
from aoec.ir.tir import Constraint
from aoec.search.grid import Grid, Rows

CELLS = 1 << 20  # of a table that are evaluated at a time: temporaries of 8 MiB
TABLE = 1 << 25  # truth values of one constraint at most: 32 MiB
BUCKET = 1 << 22  # sums at most that are left of one hole: 32 MiB
WORK = 1 << 29  # products at most for one grid, or part of one: some seconds
PARTS = 16  # that a grid is cut into at most
SAMPLE = 1 << 17  # candidates of an estimate

Table = tuple[tuple[int, ...], np.ndarray]  # holes by place, ascending; one axis each
Bucket = tuple[int, list[Table]]  # a hole, and the tables that read it when it is summed over


class TooLarge(Exception):
    """An exact count would take tables or time beyond the limits."""


@dataclass(frozen=True)
class Cut:
    """A constraint with how many candidates keep it and all before it; `error`: the standard error of an estimate, 0 where exact."""

    constraint: Constraint
    left: int
    error: float = 0.0


def cuts(grid: Grid, constraints: Sequence[Constraint]) -> list[Cut]:
    """What each constraint leaves of a grid, in order: exact, else estimated from a seeded sample."""
    conditions = [c.condition for c in constraints]
    try:
        return [Cut(c, left) for c, left in zip(constraints, exact(grid, conditions))]
    except TooLarge:
        return [Cut(c, *estimate) for c, estimate in zip(constraints, estimated(grid, conditions))]


def exact(grid: Grid, conditions: Sequence[Expr], parts: int = PARTS) -> list[int]:
    """How many candidates keep the first 1, 2, 3 ... conditions. TooLarge where that takes too much."""
    try:
        return counted(grid, conditions)
    except TooLarge:
        if parts == 1:
            raise
    return [sum(lefts) for lefts in zip(*[exact(half, conditions, parts // 2) for half in halves(grid)])]


def counted(grid: Grid, conditions: Sequence[Expr]) -> list[int]:
    """The same, of a grid that is not cut into parts."""
    counting, out, left = Counting(grid), [], grid.size
    for condition in conditions:
        if counting.add(condition):
            left = counting.total() if left else 0
        out.append(left)
    return out


def halves(grid: Grid) -> list[Grid]:
    """The grid in two, by the choices of the hole that has most."""
    hole = grid.counts.index(max(grid.counts))
    values, middle = grid.choices[hole], (grid.counts[hole] + 1) // 2
    return [Grid(grid.names, (*grid.choices[:hole], some, *grid.choices[hole + 1:])) for some in (values[:middle], values[middle:]) if some]


# ---------------------------------------------------------------- conditions as tables

class Counting:
    """A growing set of conditions on a grid, and how many candidates keep all. What a new one does not touch is not counted again."""

    def __init__(self, grid: Grid) -> None:
        if grid.size >= 1 << 62:  # sums of products are int64
            raise TooLarge
        self.grid = grid
        self.tables: list[Table] = []
        self.seen: set[Expr] = set()
        self.known: dict[tuple[int, ...], int] = {}  # tables of a component -> combinations of its holes
        self.work = 0

    def add(self, condition: Expr) -> bool:
        """Whether the condition can make a difference: it is new, and somewhere false."""
        return any([self.add_one(part) for part in conjuncts(condition)])

    def add_one(self, condition: Expr) -> bool:
        """The same, of a condition that is no `and`."""
        if condition in self.seen:
            return False
        self.seen.add(condition)
        holes = tuple(sorted(map(self.grid.names.index, hole_names(condition))))
        truth = truths(self.grid, holes, condition)
        if not truth.all():
            self.tables.append((holes, truth))
        return not truth.all()

    def total(self) -> int:
        """Candidates that keep all conditions."""
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
    """The conditions that an `and` joins: each reads fewer holes."""
    if isinstance(condition, Binary) and condition.op == "and":
        return [*conjuncts(condition.left), *conjuncts(condition.right)]
    return [condition]


def truths(grid: Grid, holes: tuple[int, ...], condition: Expr) -> np.ndarray:
    """bool[choice of the first hole, of the second, ...]: whether the condition holds. TooLarge beyond the limit."""
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
    """Parts that make up an array of these extents, of at most CELLS each (or one of the last axis)."""
    inner = prod(counts[1:])
    step = max(1, CELLS // inner)
    for start in range(0, counts[0], step) if counts else ():
        here = slice(start, min(start + step, counts[0]))
        for rest in slices(counts[1:]) if inner > CELLS else [tuple(slice(0, c) for c in counts[1:])]:
            yield here, *rest
    if not counts:
        yield ()


def components(groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The groups, by number, put together where they share a member or others of theirs do."""
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
    """The holes of tables summed over, the one that takes the fewest products first. TooLarge where that is more than `work`."""
    total, buckets, done = scalars(tables), [], 0
    while tables := [t for t in tables if t[0]]:
        cost, hole = min((cost_of(tables, h, counts), h) for h in {h for holes, _ in tables for h in holes})
        done += cost
        if done > work:
            raise TooLarge
        mine = [t for t in tables if hole in t[0]]
        buckets.append((hole, mine))
        left = summed(mine, hole, counts)
        total *= scalars([left])
        tables = [*[t for t in tables if hole not in t[0]], left]
    return Elimination(total, buckets, done)


def scalars(tables: Sequence[Table]) -> int:
    """The product of the tables that read no hole."""
    return prod(int(table) for holes, table in tables if not holes)


def cost_of(tables: Sequence[Table], hole: int, counts: Sequence[int]) -> int:
    """Products that it takes to sum over a hole."""
    return prod(counts[h] for h in {h for holes, _ in tables if hole in holes for h in holes})


def summed(tables: Sequence[Table], hole: int, counts: Sequence[int]) -> Table:
    """The product of the tables, summed over a hole: a table over their other holes."""
    holes = tuple(sorted({h for axes, _ in tables for h in axes} - {hole}))
    if prod(counts[h] for h in holes) > BUCKET:
        raise TooLarge
    label = {h: i for i, h in enumerate((*holes, hole))}  # einsum takes few labels, and grids may have many holes
    operands: list[object] = []
    for axes, table in tables:
        operands += [table, [label[h] for h in axes]]
    sums = np.einsum(*operands, [label[h] for h in holes], dtype=np.int64, casting="unsafe")  # type: ignore[call-overload]
    return holes, np.asarray(sums)


# ---------------------------------------------------------------- some of them

def drawn(grid: Grid, conditions: Sequence[Expr], count: int, seed: int = 0) -> Rows:
    """Columns of hole values for candidates that keep all conditions, each drawn with equal chance from all that do; none where there are
    none. TooLarge where that takes too much."""
    found = decided(grid, conditions)
    random = np.random.RandomState(seed)  # whose numbers are the same in every version of NumPy
    digits: dict[int, np.ndarray] = {}
    for hole, tables in found.buckets[::-1]:
        chances = random.random_sample(count if found.total else 0)
        reached = np.cumsum(weights(hole, tables, digits, len(chances), grid.counts[hole]), axis=1)
        digits[hole] = np.asarray((reached <= chances[:, None] * reached[:, -1:]).sum(axis=1))
    return {name: np.array(grid.choices[h], np.int64)[digits[h]] for h, name in enumerate(grid.names)}


def listed(grid: Grid, conditions: Sequence[Expr], most: int) -> np.ndarray | None:
    """The ranks in a grid of all candidates that keep all conditions, ascending; None where they are more than `most`. TooLarge where that
    takes too much."""
    found = decided(grid, conditions)
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
    """`listed`, or None where that takes too much."""
    try:
        return listed(grid, conditions, most)
    except TooLarge:
        return None


def decided(grid: Grid, conditions: Sequence[Expr]) -> Elimination:
    """The elimination of all holes of a grid, those first that no condition reads (they come last backwards)."""
    counting = Counting(grid)
    for condition in conditions:
        counting.add(condition)
    found = eliminate(counting.tables, grid.counts)
    free = sorted(set(range(len(grid.counts))) - {hole for hole, _ in found.buckets})
    total = found.total * prod(grid.counts[h] for h in free)
    return Elimination(total, [*[(h, list[Table]()) for h in free], *found.buckets], found.work)


def some(grid: Grid, conditions: Sequence[Expr], count: int) -> list[tuple[int, ...]]:
    """Hole values of `count` candidates that keep all conditions, some perhaps the same; of a grid whose tables are too large: of any."""
    try:
        rows = drawn(grid, conditions, count)
    except TooLarge:
        rows = drawn(grid, [], count)
    return list(zip(*[c.tolist() for c in rows.values()])) if grid.names else [()]


def weights(hole: int, tables: Sequence[Table], digits: dict[int, np.ndarray], count: int, choices: int) -> np.ndarray:
    """float64[row, choice]: how many candidates that keep all conditions a row with this choice of a hole may yet become, by a factor
    of the row."""
    out = np.ones((count, choices))
    for holes, table in tables:
        out *= np.moveaxis(table, holes.index(hole), -1)[tuple(digits[h] for h in holes if h != hole)]
    return out


# ---------------------------------------------------------------- estimates

def estimated(grid: Grid, conditions: Sequence[Expr]) -> list[tuple[int, float]]:
    """(candidates that keep the first 1, 2, 3 ... conditions, standard error), from a seeded sample of the grid."""
    random, out = np.random.RandomState(0), []
    rows = {name: np.array(c, np.int64)[random.randint(len(c), size=SAMPLE)] for name, c in zip(grid.names, grid.choices)}
    holds = np.ones(SAMPLE, bool)
    for condition in conditions:
        with np.errstate(divide="ignore", invalid="ignore"):
            holds &= np.asarray(evaluate(condition, rows)) != 0
        share = (int(holds.sum()) + 1) / (SAMPLE + 2)  # never quite 0 or 1: an estimate of none has an error too
        out.append((round(float(holds.mean()) * grid.size), sqrt(share * (1 - share) / SAMPLE) * grid.size))
    return out
