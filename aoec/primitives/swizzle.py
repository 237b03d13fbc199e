"""swizzle: two nested loops over blocks become one, which walks the blocks in an order that keeps their operands near."""
from __future__ import annotations

from dataclasses import dataclass, replace
from math import lcm
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func, Loop
from aoec.ir.index import Expr, Int, Var, lt, maximum, minimum, normalise, select, variables
from aoec.primitives.nest import check_fused, check_new, find_loop, replace_node, substitute_all
from aoec.primitives.primitive import Primitive
from aoec.primitives.reorder import check_values
from aoec.primitives.samples import Names

ORDERS = ("diagonal", "rows", "columns")


@dataclass(frozen=True)
class Swizzle(Primitive):
    """Makes one loop of two that are nested perfectly, and walks their iterations tile by tile.

    A tile is `rows` iterations of the outer loop by `columns` of the inner one; the last tile of a loop has what is left. Tiles follow
    each other along the inner loop, and every other row of tiles runs backwards. Within a tile of h by w iterations, by `order`:
    diagonal: iteration b of the tile is (b % h, (b + b // lcm(h, w)) % w). rows: the inner loop runs faster. columns: the outer one does.
    `cores`: how many cores take the iterations of the loop in turn (split with deal=cyclic). With rows and columns, each of them then has
    a run of neighbours of each tile, the first cores the first runs. Extents and sizes of tiles must be
    numbers, and no block may accumulate over only one of the two loops.

    before:
        func f(X: fp32[4, 6]) -> (Y: fp32[4, 6]) {
          for i in 4 {
            for j in 6 {
              b: Y[i, j] = X[i, j]
            }
          }
        }
    call:
        swizzle(outer=i, inner=j, fused=t, order=diagonal)
    after:
        func f(X: fp32[4, 6]) -> (Y: fp32[4, 6]) {
          for t in 24 {
            b: Y[t%4, (t + t//12)%6] = X[t%4, (t + t//12)%6]
          }
        }
    """

    word = "swizzle"
    outer: str
    inner: str
    fused: str
    order: str
    rows: Expr | None = None
    columns: Expr | None = None
    cores: Expr = Int(1)

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        inside = names.around[names.around.index(names.loop) + 1:] if names.loop in names.around else []
        rows, columns = (random.choice((None, Int(random.randint(1, 4)))) for _ in range(2))
        cores = Int(random.randint(1, 5))
        return cls(names.loop, (inside or names.loops)[0], names.new("v"), random.choice(ORDERS), rows, columns, cores)

    def apply(self, func: Func) -> Func:
        outer, inner = (find_loop(func, name)[0] for name in (self.outer, self.inner))
        if self.order not in ORDERS:
            raise ScheduleError(f"no order {self.order}; there is {', '.join(ORDERS)}")
        if outer.body != (inner,):
            raise ScheduleError(f"{self.inner} is not the only thing directly inside {self.outer}")
        if outer.kind != "serial" or inner.kind != "serial":
            raise ScheduleError("core and tensor loops cannot be walked in another order; swizzle before binding or tensorizing")
        if self.fused not in (self.outer, self.inner):
            check_new(func, self.fused)
        check_fused(inner.body, outer, inner)
        check_values(func, self.outer, [outer, inner], (self.outer, self.inner))
        grid = BlockWalk.of(self, outer, inner)
        row, column = grid.place(self.order, Var(self.fused))
        body = substitute_all(inner.body, {self.outer: row, self.inner: column})
        fused = Loop(self.fused, Int(grid.height * grid.width), body)
        return replace(func, body=replace_node(func.body, self.outer, lambda n: (fused,)))


@dataclass(frozen=True)
class BlockWalk:
    """The iterations of two loops, `height` by `width` of them, in tiles of `rows` by `columns`, dealt to `cores`."""

    height: int
    width: int
    rows: int
    columns: int
    cores: int

    @classmethod
    def of(cls, s: Swizzle, outer: Loop, inner: Loop) -> BlockWalk:
        """Return the grid of two loops. Raise ScheduleError where something is no number."""
        height, width = (number_of(loop.extent, f"the extent of {loop.var}") for loop in (outer, inner))
        rows, columns = (most if n is None else min(number_of(n, what), most) for n, most, what in (
            (s.rows, height, "rows"), (s.columns, width, "columns")))
        return cls(height, width, rows, columns, number_of(s.cores, "cores"))

    def place(self, order: str, t: Expr) -> tuple[Expr, Expr]:
        """Return (iteration of the outer loop, of the inner one) that stands at a place of the walk."""
        down, across = -(-self.height // self.rows), -(-self.width // self.columns)
        i, within = (t // (self.rows * self.width), t % (self.rows * self.width)) if down > 1 else (Int(0), t)
        h = least(self.rows, self.height, i)
        j: Expr = Int(0)
        w: Expr = Int(self.width)
        b = within
        if across > 1:
            back = i % 2 if down > 1 else Int(0)
            missing = back * (across * self.columns - self.width)  # of the last tile of a row: the first of one that runs back
            at = (within + missing * h) // (h * self.columns)
            j = at + back * (Int(across - 1) - at * 2)
            b = within - maximum(0, at * self.columns - missing) * h
            w = least(self.columns, self.width, j)
        if order == "diagonal":
            return i * self.rows + b % h, j * self.columns + (b + b // self.common(i, j)) % w
        k = self.run(t, (t - b) % self.cores, h * w) + b // self.cores
        x, y = (k // w, k % w) if order == "rows" else (k % h, k // h)
        return i * self.rows + x, j * self.columns + y

    def common(self, i: Expr, j: Expr) -> Expr:
        """Return the least common multiple of the sides of tile (i, j)."""
        heights, widths = (self.rows, self.height % self.rows or self.rows), (self.columns, self.width % self.columns or self.columns)
        by_row = [choose(j, self.width, self.columns, *[Int(lcm(x, y)) for y in widths]) for x in heights]
        return choose(i, self.height, self.rows, *by_row)

    def run(self, t: Expr, first: Expr, count: Expr) -> Expr:
        """Return where in a tile of so many iterations the run of a core begins, if core `first` has the first of those that are dealt."""
        core, end = t % self.cores, first + count
        return end // self.cores * core + minimum(end % self.cores, core) - minimum(first, core)


def number_of(e: Expr, what: str) -> int:
    """Return the value of an expression that is a number of 1 or more."""
    e = normalise(e)
    if not isinstance(e, Int) or e.value < 1:
        names = ", ".join(sorted(variables(e)))
        raise ScheduleError(f"{what} must be a number of 1 or more" + (f", and depends on {names}" if names else "; fill its holes first"))
    return e.value


def least(size: int, extent: int, at: Expr) -> Expr:
    """Return how many iterations tile `at` of a loop has."""
    return Int(size) if extent % size == 0 else minimum(size, Int(extent) - at * size)


def choose(at: Expr, extent: int, size: int, of_whole: Expr, of_last: Expr) -> Expr:
    """Return one of two values: one where tile `at` of a loop is whole, the other where it is the last and shorter."""
    return of_whole if extent % size == 0 or of_whole == of_last else select(lt(at, extent // size), of_whole, of_last)
