"""cache_write: a block writes a local buffer, which is then copied out."""
from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Self

from aoec.base.errors import ScheduleError
from aoec.ir.func.regions import shift
from aoec.ir.func.tir import Block, Buffer, Func, Loop
from aoec.ir.index import Read, Var
from aoec.primitives.cache_read import cached_name, copy_loops, offset
from aoec.primitives.nest import (
    accesses,
    check_new,
    child,
    find_block,
    find_buffer,
    insert,
    path_region,
    reductions,
    replace_node,
    wrap,
)
from aoec.primitives.primitive import Primitive
from aoec.primitives.samples import Names
from aoec.primitives.set_scope import check_scope
from aoec.primitives.whole_parts import check_whole_part


@dataclass(frozen=True)
class CacheWrite(Primitive):
    """Lets a block write a new local buffer; a copy under loop `at`, after the block, takes it to where it wrote before.

    The copy block is named <buffer>_out, its loops <buffer>_out_0..; the new buffer <buffer>_<scope> unless `name` is given.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for io in ceildiv(10, ?t) {
            for ii in min(?t, 10 - io*?t) {
              b: Y[io*?t + ii] = exp(X[io*?t + ii])
            }
          }
        }
    call:
        cache_write(block=b, buffer=Y, scope=UB, at=io)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local Y_UB: fp32[min(?t, 10)] in UB
          for io in ceildiv(10, ?t) {
            for ii in min(?t, 10 - io*?t) {
              b: Y_UB[ii] = exp(X[io*?t + ii])
            }
            for Y_out_0 in min(?t, 10 - io*?t) tensor {
              Y_out: Y[io*?t + Y_out_0] = Y_UB[Y_out_0] as copy
            }
          }
        }
    """

    word = "cache_write"
    block: str
    buffer: str
    scope: str
    at: str | None = None
    layout: str = "ND"
    name: str | None = None

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        names = Names(func, random)
        return cls(names.block, names.chosen.target.buffer, "UB", names.loop, name=names.new("w"))

    def apply(self, func: Func) -> Func:
        target = find_buffer(func, self.buffer)
        check_scope(self.scope, self.layout)
        block, above = find_block(func, self.block)
        depth = self._depth(func, block, above)
        check_whole_part(block, above, depth)
        box = path_region(block.target, above, depth, func.buffer(block.target.buffer))
        name, out = self.name or cached_name(target, self.scope), f"{self.buffer}_out"
        loops = copy_loops(out, box)
        point = tuple(Var(x.var) for x in loops)
        copy = Block(out, Read(self.buffer, offset(point, box)), "=", Read(name, point), instr="copy")
        check_new(func, name, out, *[x.var for x in loops])
        body = insert(func.body, child(func, self.at, above, block.name), (wrap(copy, loops),), after=True)
        local = replace(block, target=Read(name, shift(block.target.indices, box)))
        new = Buffer(name, target.dtype, tuple(b.largest for b in box), self.scope, self.layout)
        return replace(func, body=replace_node(body, block.name, lambda n: (local,)), locals=func.locals + (new,))

    def _depth(self, func: Func, block: Block, above: tuple[Loop, ...]) -> int:
        """Return how many loops enclose the copy. Raise ScheduleError where the copy would see less than the block has written."""
        if block.target.buffer != self.buffer:
            raise ScheduleError(f"{block.name} writes {block.target.buffer}, not {self.buffer}")
        if len([r for r, _ in accesses(func, self.buffer)]) > 1:
            raise ScheduleError(f"{self.buffer} is touched elsewhere too; use set_scope, or cache what reads it")
        names = [loop.var for loop in above]
        if self.at is not None and self.at not in names:
            raise ScheduleError(f"{self.at} is not a loop around {block.name}; around it: {', '.join(names) or 'none'}")
        depth = 0 if self.at is None else names.index(self.at) + 1
        held = [v for v in reductions(block, above) if v in names[:depth]]
        if held:
            raise ScheduleError(f"{block.name} accumulates over {held[0]}, so {self.buffer} is not complete in it; use a loop further out")
        return depth
