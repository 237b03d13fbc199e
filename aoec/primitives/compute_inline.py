"""compute_inline: an elementwise block is computed where it is read."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.index import Cast, Expr, Read, Var, normalise, substitute, variables
from aoec.ir.tir import Block, Func, blocks
from aoec.primitives.nest import find_block, map_block, map_reads, node_name, own_nest, remove_node, replace_node, tidy, writers
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
        body = rest.body
        for b, _ in blocks(rest.body):
            body = replace_node(body, b.name, lambda n, b=b: (map_block(b, lambda e: map_reads(e, buffer, value)),))  # type: ignore[misc]
        return replace(func, body=body, locals=tuple(b for b in func.locals if b.name != buffer))

    def _loops(self, func: Func, block: Block) -> list[str]:
        """The block's loops in the order of its target's indices."""
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
        overwritten = [b.name for b, _ in blocks(func.body) for r in _inputs(block) if b.target.buffer == r and b is not block
                       and _after(func, b, block)]
        if overwritten:
            raise ScheduleError(f"{overwritten[0]} overwrites what {block.name} reads before it is needed")
        return loops


def _inputs(block: Block) -> set[str]:
    from aoec.ir.evaluate import block_reads
    return {r.buffer for r in block_reads(block)}


def _after(func: Func, b: Block, block: Block) -> bool:
    names = [x.name for x, _ in blocks(func.body)]
    return names.index(b.name) > names.index(block.name)
