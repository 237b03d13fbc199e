"""compute_inline: an elementwise block is computed where it is read."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.evaluate import block_reads, lifetime
from aoec.ir.func.tir import Block, Func
from aoec.ir.index import Cast, Expr, Read, Var, normalise, substitute, variables
from aoec.primitives.nest import (
    check_lifetimes,
    find_block,
    map_nodes,
    map_reads,
    node_name,
    own_nest,
    precedes,
    remove_node,
    tidy,
    writers,
)
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class ComputeInline(Primitive):
    """Replaces every read of what a block writes by the block's value, and removes block and buffer.

    Only for a plain assignment to a local buffer whose indices are its loops; a buffer that is not fp32 leaves a cast behind.

    before:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          local T: fp32[10]
          for i in 10 {
            a: T[i] = exp(X[i])
          }
          for j in 10 {
            b: Y[j] = T[j] + 1.0
          }
        }
    call:
        compute_inline(block=a)
    after:
        func f(X: fp32[10]) -> (Y: fp32[10]) {
          for j in 10 {
            b: Y[j] = exp(X[j]) + 1.0
          }
        }
    """

    word = "compute_inline"
    block: str

    def apply(self, func: Func) -> Func:
        block, _ = find_block(func, self.block)
        buffer = block.target.buffer
        loops = self._loops(func, block)
        dtype = func.buffer(buffer).dtype
        rest = replace(func, body=remove_node(func.body, node_name(own_nest(func, self.block)[0])))

        def value(r: Read) -> Expr:
            e = tidy(substitute(block.value, {v: normalise(i) for v, i in zip(loops, r.indices)}))
            return e if dtype == "fp32" else Cast(dtype, e)
        body = map_nodes(rest.body, lambda e: map_reads(e, buffer, value))
        result = replace(func, body=body, locals=tuple(b for b in func.locals if b.name != buffer))
        check_lifetimes(func, result, block, buffer)
        return result

    def _loops(self, func: Func, block: Block) -> list[str]:
        """Return the block's loops in the order of its target's indices."""
        buffer = block.target.buffer
        if buffer not in {b.name for b in func.locals} or len(writers(func, buffer)) > 1:
            raise ScheduleError(f"{buffer} is not a local buffer that {block.name} alone writes")
        if block.op != "=":
            raise ScheduleError(f"{block.name} accumulates; only plain assignments can be inlined")
        if block.instr is not None:
            raise ScheduleError(f"{block.name} belongs to an instruction already")
        loops = [i.name for i in block.target.indices if isinstance(i, Var)]
        if len(set(loops)) != len(block.target.indices) or not variables(block.value) <= set(loops):
            raise ScheduleError(f"the indices of {buffer} are not the loops of {block.name}; inline it before splitting or moving it")
        for r in block_reads(block):
            self._check_input(func, block, r.buffer)
        return loops

    def _check_input(self, func: Func, block: Block, buffer: str) -> None:
        """Raise ScheduleError where what the block reads is no longer there when its value is needed."""
        late = [b.name for b, _ in writers(func, buffer) if not precedes(func, b.name, block.name)]
        if late:
            raise ScheduleError(f"{late[0]} writes {buffer}, which {block.name} reads, before the value is needed")
        alive = lifetime(func, buffer)
        if len(alive) > len(lifetime(func, block.target.buffer)):
            raise ScheduleError(f"{buffer} lives in one iteration of {alive[-1].var} only, and {block.target.buffer} is read outside it")
