"""add_parts: a sum is made in parts, each of which is added to the result."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Func, Node
from aoec.ir.index import Cast, Read
from aoec.primitives.nest import find_block, find_loop, node_name, own_nest, readers, reductions, remove_node, replace_node, writers
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class AddParts(Primitive):
    """Lets every iteration of `loop`, over which a local sum is made, add its own part to the output: so its iterations may be cores.

    The block only takes the sum out, in the dtype of the sum: a part that is rounded, or overflows, where the sum would not, is no part of
    it. The output starts as zeros.

    before:
        func f(A: fp32[4, 8]) -> (Y: fp32[4]) {
          local C: fp32[4]
          for k in 8 {
            for i in 4 {
              sum: C[i] += A[i, k]
            }
          }
          for o in 4 {
            out: Y[o] = C[o]
          }
        }
    call:
        add_parts(block=out, loop=k)
    after:
        func f(A: fp32[4, 8]) -> (Y: fp32[4]) {
          local C: fp32[4]
          for k in 8 {
            for i in 4 {
              sum: C[i] += A[i, k]
            }
            for o in 4 {
              out: Y[o] += C[o]
            }
          }
        }
    """

    word = "add_parts"
    block: str
    loop: str

    def apply(self, func: Func) -> Func:
        block, _ = find_block(func, self.block)
        loop, outside = find_loop(func, self.loop)
        nest, shared = own_nest(func, self.block)
        if outside or shared:
            raise ScheduleError(f"{self.loop} and the loops of {self.block} must be outermost; reorder first, compute_at afterwards")
        self._check(func, block)

        def adding(n: Node) -> Node:
            return replace(n, op="+=") if isinstance(n, Block) else replace(n, body=tuple(adding(c) for c in n.body))
        body = replace_node(remove_node(func.body, node_name(nest)), self.loop, lambda n: (replace(loop, body=(*loop.body, adding(nest))),))
        return replace(func, body=body)

    def _check(self, func: Func, block: Block) -> None:
        """Raise ScheduleError unless the block takes out one local sum over the loop, and nothing else reads it."""
        value = block.value
        if isinstance(value, Cast) and isinstance(value.value, Read):
            raise ScheduleError(f"{self.block} rounds to {value.dtype}: parts would be rounded before they are added; keep the sum's dtype "
                                "and cast it in a group of its own")
        if block.op != "=" or not isinstance(value, Read) or block.target.buffer not in {b.name for b in func.outputs}:
            raise ScheduleError(f"{self.block} does more than take a sum out into an output, so parts of the sum cannot be added")
        made = writers(func, value.buffer)
        whole = [b.name for b, path in made if b.op != "+=" or b.init is not None or self.loop not in reductions(b, path)]
        if value.buffer not in {b.name for b in func.locals} or whole or not made:
            raise ScheduleError(f"{value.buffer} is not a plain sum over {self.loop} that starts from zero")
        if len(readers(func, value.buffer)) > 1:
            raise ScheduleError(f"{value.buffer} is read by others beside {self.block}, which need the whole sum")
