"""rotate: a loop starts elsewhere on every core."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func, Loop, Node, blocks, walk
from aoec.ir.index import Expr, Var, substitute, variables
from aoec.primitives.nest import find_loop, map_block, reductions, replace_node, tidy
from aoec.primitives.primitive import Primitive
from aoec.primitives.reorder import check_values
from aoec.primitives.samples import Names


@dataclass(frozen=True)
class Rotate(Primitive):
    """Starts a loop at another iteration on every core, and goes round: its index becomes (loop + the sum of `by`) % extent.

    So cores that read the same tiles do not read them at the same time. `by` names loops around it. Nothing below may be cut short
    at the end of the loop (use even).

    before:
        func f(X: fp32[4, 12]) -> (Y: fp32[4]) {
          for c in 4 core {
            for io in 12//?t {
              for ii in ?t {
                b: Y[c] += X[c, io*?t + ii]
              }
            }
          }
        }
    call:
        rotate(loop=io, by=c)
    after:
        func f(X: fp32[4, 12]) -> (Y: fp32[4]) {
          for c in 4 core {
            for io in 12//?t {
              for ii in ?t {
                b: Y[c] += X[c, ?t*((c + io)%(12//?t)) + ii]
              }
            }
          }
        }
    """

    word = "rotate"
    loop: str
    by: tuple[str, ...]

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        return cls(names.loop, tuple(names.around[:1]))

    def apply(self, func: Func) -> Func:
        loop, above = find_loop(func, self.loop)
        outside = [x.var for x in above]
        unknown = [v for v in self.by if v not in outside]
        if unknown or not self.by:
            known = ", ".join(outside) or "none"
            raise ScheduleError(f"{', '.join(unknown) or 'nothing'} is no loop around {self.loop}; around it: {known}")
        ragged = [n.var for n, _ in walk(loop.body) if isinstance(n, Loop) and self.loop in variables(n.extent)]
        if ragged or variables(loop.extent):
            name = ragged[0] if ragged else self.loop
            raise ScheduleError(f"the extent of {name} varies, so iterations of {self.loop} are not alike; use even")
        check_values(func, self.loop, [loop], (self.loop,))
        for b, around in [(b, around) for b, around in blocks(func.body) if loop in around]:
            if self.loop in variables(b.target) and (held := set(self.by) & set(reductions(b, around))):
                raise ScheduleError(f"{b.name} accumulates over {sorted(held)[0]}, so where it writes cannot hang on that")
        turned: Expr = Var(self.loop)
        for v in self.by:
            turned = turned + Var(v)
        index = {self.loop: turned % loop.extent}

        def rotate_node(n: Node) -> Node:
            if isinstance(n, Loop):
                return replace(n, body=tuple(rotate_node(c) for c in n.body))
            return map_block(n, lambda e: tidy(substitute(e, index)) if self.loop in variables(e) else e)
        return replace(func, body=replace_node(func.body, self.loop, lambda n: (rotate_node(loop),)))
