"""fuse: two nested loops become one."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func, Loop
from aoec.ir.index import Var, variables
from aoec.primitives.nest import check_fused, check_new, find_loop, replace_node, substitute_all
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Fuse(Primitive):
    """Makes one loop of two that are nested perfectly.

    The inner extent must not depend on the outer loop, and no block may accumulate over only one of the two.

    before:
        func f(X: fp32[8, 4]) -> (Y: fp32[8, 4]) {
          for i in 8 {
            for j in 4 {
              b: Y[i, j] = X[i, j]
            }
          }
        }
    call:
        fuse(outer=i, inner=j, fused=ij)
    after:
        func f(X: fp32[8, 4]) -> (Y: fp32[8, 4]) {
          for ij in 32 {
            b: Y[ij//4, ij%4] = X[ij//4, ij%4]
          }
        }
    """

    word = "fuse"
    outer: str
    inner: str
    fused: str

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        inside = names.around[names.around.index(names.loop) + 1:] if names.loop in names.around else []
        return cls(names.loop, (inside or names.loops)[0], names.new("v"))

    def apply(self, func: Func) -> Func:
        outer, _ = find_loop(func, self.outer)
        inner, _ = find_loop(func, self.inner)
        if outer.body != (inner,):
            raise ScheduleError(f"{self.inner} is not the only thing directly inside {self.outer}")
        if self.outer in variables(inner.extent):
            raise ScheduleError(f"the extent of {self.inner} depends on {self.outer}; fuse before splitting with a tail")
        if outer.kind != "serial" or inner.kind != "serial":
            raise ScheduleError("core and tensor loops cannot be fused; fuse before binding or tensorizing")
        if self.fused not in (self.outer, self.inner):
            check_new(func, self.fused)
        check_fused(inner.body, outer, inner)
        both = Var(self.fused)
        body = substitute_all(inner.body, {self.outer: both // inner.extent, self.inner: both % inner.extent})
        fused = Loop(self.fused, outer.extent * inner.extent, body)
        return replace(func, body=replace_node(func.body, self.outer, lambda n: (fused,)))
