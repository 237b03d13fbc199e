"""stage: what a block computes goes through a local buffer that is indexed by the block's own loops."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.regions import largest
from aoec.ir.func.tir import Buffer, Func, Loop
from aoec.ir.index import Read, Var, substitute, variables
from aoec.primitives.cache_read import cached_name
from aoec.primitives.nest import Path, check_new, extents, find_block, find_buffer, own_nest, replace_node, tidy, wrap
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names
from aoec.primitives.set_scope import check_scope


@dataclass(frozen=True)
class Stage(Primitive):
    """Parts a block in two: the first computes into a new local buffer with a dimension for each of the block's own loops, the second
    takes it from there to where the block wrote. So a buffer on chip is free of how the target is indexed (channels in planes, say).

    With `at`, only the block's loops inside that one are its own: the buffer holds what one iteration of `at` computes.
    A block that adds each element once to its target computes what it adds, and then adds it from there.
    The new buffer and the block that fills it are named <target>_<scope>, the loops of that block <target>_<scope>_0..

    before:
        func f(C: fp32[3, 20]) -> (Y: fp32[2, 3, 10]) {
          for i in 3 {
            for j in 20 {
              out: Y[j//10, i, j%10] = max(C[i, j], 0.0)
            }
          }
        }
    call:
        stage(block=out, scope=UB, layout=NZ)
    after:
        func f(C: fp32[3, 20]) -> (Y: fp32[2, 3, 10]) {
          local Y_UB: fp32[3, 20] in UB NZ
          for Y_UB_0 in 3 {
            for Y_UB_1 in 20 {
              Y_UB: Y_UB[Y_UB_0, Y_UB_1] = max(C[Y_UB_0, Y_UB_1], 0.0)
            }
          }
          for i in 3 {
            for j in 20 {
              out: Y[j//10, i, j%10] = Y_UB[i, j]
            }
          }
        }
    """

    word = "stage"
    block: str
    scope: str
    layout: str = "ND"
    at: str | None = None

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        return cls(names.block, "UB", at=random.choice((None, names.loop)))

    def apply(self, func: Func) -> Func:
        block, above = find_block(func, self.block)
        check_scope(self.scope, self.layout)
        shared = self._shared_loops(func, above)
        own = above[len(shared):]
        repeated = {lp.var for lp in own} - {v for i in block.target.indices for v in variables(i)}
        if block.op != "=" and (block.op != "+=" or repeated) or block.instr is not None:
            raise ScheduleError(f"{self.block} accumulates or belongs to an instruction; only what takes each element once is staged")
        if not own:
            raise ScheduleError(f"{self.block} has no loops of its own")
        target = find_buffer(func, block.target.buffer)
        name = cached_name(target, self.scope)
        loops = [Loop(f"{name}_{i}", lp.extent, ()) for i, lp in enumerate(own)]
        check_new(func, name, *[lp.var for lp in loops])
        if any(variables(lp.extent) & {x.var for x in own} for lp in own):
            raise ScheduleError(f"an extent of the loops of {self.block} hangs on another of them; stage it before they are split")
        new = {lp.var: Var(x.var) for lp, x in zip(own, loops)}
        filling = replace(block, name=name, op="=", target=Read(name, tuple(new.values())), value=tidy(substitute(block.value, new)))
        taking = replace(block, value=Read(name, tuple(Var(lp.var) for lp in own)))
        body = replace_node(func.body, own[0].var, lambda n: (wrap(filling, loops), wrap(taking, list(own))))
        shape = tuple(largest(lp.extent, extents(shared)) for lp in own)
        return replace(func, body=body, locals=(*func.locals, Buffer(name, target.dtype, shape, self.scope, self.layout)))

    def _shared_loops(self, func: Func, above: Path) -> Path:
        """Return the loops around both blocks."""
        shared, names = own_nest(func, self.block)[1], [lp.var for lp in above]
        if self.at is None or shared and self.at == shared[-1].var:
            return shared
        if self.at not in names[len(shared):]:
            raise ScheduleError(f"{self.at} is not a loop of {self.block} alone; its own are {', '.join(names[len(shared):]) or 'none'}")
        return above[:names.index(self.at) + 1]
