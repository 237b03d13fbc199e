"""split: one loop becomes two."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Constraint, Func, Loop, Node
from aoec.ir.index import Expr, Hole, Int, Var, ceildiv, eq, le, minimum, variables
from aoec.ir.text.show import show
from aoec.primitives.nest import check_new, find_loop, replace_node, substitute_all
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Split(Primitive):
    """Splits a loop into tiles of `factor` iterations, or into `parts` nearly equal parts.

    The last tile is shorter where the factor does not divide the extent. With `parts`, no part may be empty: a constraint says
    so. With deal=cyclic the parts take iterations in turn, as cards are dealt: part o has o, o + parts, ..., and the first parts
    have one more where they do not come out even. `most`, with `factor`: a constraint says that the factor is at most that.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for i in 10 {
            b: Y[i] = X[i]
          }
        }
    call:
        split(loop=i, factor=?t, outer=io, inner=ii)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for io in ceildiv(10, ?t) {
            for ii in min(?t, 10 - io*?t) {
              b: Y[io*?t + ii] = X[io*?t + ii]
            }
          }
        }
    """

    word = "split"
    loop: str
    factor: Expr | None = None
    parts: Expr | None = None
    outer: str = ""
    inner: str = ""
    deal: str = ""
    most: Expr | None = None

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names, size = Names(func, random), random.randint(1, 5)
        number = Hole(names.new("h"), (size, 7)) if random.randrange(2) else Int(size)
        outer, inner = names.new("o"), names.new("i")
        if random.randrange(2):
            return cls(names.loop, factor=number, outer=outer, inner=inner, most=random.choice((None, None, number, Int(3))))
        return cls(names.loop, parts=number, outer=outer, inner=inner, deal=random.choice(("", "cyclic")))

    def apply(self, func: Func) -> Func:
        loop, _ = find_loop(func, self.loop)
        if (self.factor is None) == (self.parts is None):
            raise ScheduleError("give either factor (iterations in a tile) or parts (number of tiles)")
        if self.deal not in ("", "cyclic") or self.deal and self.parts is None:
            raise ScheduleError("deal is cyclic, with parts, or is left out")
        if self.most is not None and (self.factor is None or variables(self.most)):
            raise ScheduleError("most goes with factor, and is of holes and numbers alone")
        if isinstance(size := self.factor or self.parts, Int) and size.value < 1:
            raise ScheduleError(f"a loop is split into tiles of 1 iteration or more, not by {size.value}")
        if loop.kind != "serial":
            raise ScheduleError(f"loop {self.loop} is a {loop.kind} loop already; split it before binding or tensorizing it")
        outer, inner = self.outer or f"{self.loop}_o", self.inner or f"{self.loop}_i"
        check_new(replace(func, body=replace_node(func.body, self.loop, lambda n: n.body)), outer, inner)  # type: ignore[union-attr]
        factor, count, constraints = self._tiles(loop.extent)
        variable, size = self._inner(loop.extent, factor, count, outer, inner)

        def split_loop(n: Node) -> tuple[Node, ...]:
            assert isinstance(n, Loop)
            return (Loop(outer, count, (Loop(inner, size, substitute_all(n.body, {n.var: variable})),)),)
        return replace(func, body=replace_node(func.body, self.loop, split_loop), constraints=func.constraints + constraints)

    def _inner(self, extent: Expr, factor: Expr, count: Expr, outer: str, inner: str) -> tuple[Expr, Expr]:
        """Return (the old variable, the extent of the inner loop)."""
        if self.deal:
            return Var(inner) * count + Var(outer), ceildiv(extent - Var(outer), count)
        return Var(outer) * factor + Var(inner), minimum(factor, extent - Var(outer) * factor)

    def _tiles(self, extent: Expr) -> tuple[Expr, Expr, tuple[Constraint, ...]]:
        """Return (iterations in a tile, number of tiles, constraints)."""
        if self.factor is not None:
            return self.factor, ceildiv(extent, self.factor), self._most(self.factor)
        assert self.parts is not None
        if variables(extent):
            raise ScheduleError(f"the extent of {self.loop} depends on {', '.join(sorted(variables(extent)))}, so parts could be empty; "
                                "split it by factor, or split the outer loop of the pair")
        if self.deal:
            return self.parts, self.parts, (Constraint(le(self.parts, extent), f"loop {self.loop} has an iteration for every part"),)
        factor = ceildiv(extent, self.parts)
        reason = f"none of the parts of loop {self.loop} is empty; use fewer parts or smaller tiles"
        return factor, self.parts, (Constraint(eq(ceildiv(extent, factor), self.parts), reason),)

    def _most(self, factor: Expr) -> tuple[Constraint, ...]:
        """Return what is asked of the factor."""
        if self.most is None:
            return ()
        return (Constraint(le(factor, self.most), f"a tile of loop {self.loop} is at most {show(self.most)}; use a smaller tile"),)
