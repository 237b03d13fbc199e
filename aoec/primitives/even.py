"""even: the tiles of a loop come out even."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.regions import lift, same
from aoec.ir.func.tir import Constraint, Func, Loop, Node, walk
from aoec.ir.index import Call, Expr, Int, Var, affine, call, ceildiv, eq, normalise, rebuild, variables
from aoec.ir.text.show import show
from aoec.primitives.nest import find_loop, map_nodes, replace_node
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Even(Primitive):
    """Says that the tiles of a split loop divide it: no tile is shorter, so tiles may be fused, dealt out or rotated.

    `loop` is the outer loop of a split of `extent` iterations by `factor`, which a constraint says divides it. Every extent below
    that was cut to what is left at the end loses the cut. Without `extent` it is what the loop's own trip count says; one that hangs
    on other loops is divided whatever they stand at.

    before:
        func f(X: fp32[12]) -> (Y: fp32[12]) {
          for io in ceildiv(12, ?t) {
            for ii in min(?t, 12 - io*?t) {
              b: Y[io*?t + ii] = exp(X[io*?t + ii])
            }
          }
        }
    call:
        even(loop=io, extent=12, factor=?t)
    after:
        func f(X: fp32[12]) -> (Y: fp32[12]) {
          require 12 % ?t == 0 "the tiles of loop io divide it evenly; use a tile that divides 12"
          for io in 12//?t {
            for ii in ?t {
              b: Y[io*?t + ii] = exp(X[io*?t + ii])
            }
          }
        }
    """

    word = "even"
    loop: str
    factor: Expr
    extent: Expr | None = None

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        """Return a step with the extent and the factor that the loop was split from, where it is the outer loop of a split."""
        names = Names(func, random)
        trips = next((n.extent for n, _ in walk(func.body) if isinstance(n, Loop) and n.var == names.loop), Int(1))
        extent, factor = trips.args if isinstance(trips, Call) and trips.fn == "ceildiv" else (trips, Int(1))
        return cls(names.loop, factor, None if variables(extent) else random.choice((None, extent)))

    def apply(self, func: Func) -> Func:
        loop, _ = find_loop(func, self.loop)
        extent = self.extent if self.extent is not None else self._split(loop.extent)
        if not same(loop.extent, ceildiv(extent, self.factor)):
            raise ScheduleError(f"{self.loop} is not the outer loop of a split of {show(extent)} by {show(self.factor)}")
        slack = extent - Var(self.loop) * self.factor - self.factor  # never below 0 where the factor divides the extent

        def uncut(n: Node) -> tuple[Node, ...]:
            assert isinstance(n, Loop)
            body = map_nodes(n.body, lambda x: without_cuts(x, slack))
            return (replace(n, extent=normalise(extent // self.factor), body=body),)
        reason = f"the tiles of loop {self.loop} divide it evenly; use a tile that divides {show(extent)}"
        even = tuple(Constraint(eq(n % self.factor, 0), reason) for n in self._dividends(extent))
        return replace(func, body=replace_node(func.body, self.loop, uncut), constraints=(*func.constraints, *even))

    def _split(self, trips: Expr) -> Expr:
        """Return the extent that was split, from how many tiles there are; of a plain number of them all are whole, or keep their cuts."""
        if isinstance(trips, Call) and trips.fn == "ceildiv" and same(trips.args[1], self.factor):
            return trips.args[0]
        return trips * self.factor

    def _dividends(self, extent: Expr) -> Iterator[Expr]:
        """Yield what the factor must divide: of each argument of a minimum the constant, and the step of every loop."""
        for least in smallest(normalise(extent)):
            atoms: dict[str, Expr] = {}  # quotients of loops: any whole number
            names = variables(least)
            parts = affine(lift(least, names, atoms), names | atoms.keys())
            if parts is None:
                raise ScheduleError(f"the extent of {self.loop} is not a minimum of sums of loops, so nothing says what divides it")
            yield from (parts[1], *parts[0].values())


def smallest(e: Expr) -> tuple[Expr, ...]:
    """Return the expressions whose minimum is `e`."""
    return tuple(x for a in e.args for x in smallest(a)) if isinstance(e, Call) and e.fn == "min" else (e,)



def without_cuts(e: Expr, slack: Expr) -> Expr:
    """Return `e` without those arguments of a minimum that are another argument plus `slack`."""
    e = rebuild(e, lambda c: without_cuts(c, slack))
    if not (isinstance(e, Call) and e.fn == "min"):
        return e
    kept = [q for q in e.args if not any(p is not q and normalise(q - p - slack) == Int(0) for p in e.args)]
    return call("min", *kept) if len(kept) > 1 else kept[0]
