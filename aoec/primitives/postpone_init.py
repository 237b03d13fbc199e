"""postpone_init: what a sum starts from is added where the sum is read."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Func
from aoec.ir.index import Expr, Read, Var, normalise, reads, substitute, variables
from aoec.primitives.nest import find_block, map_nodes, map_reads, replace_node, tidy, writers
from aoec.primitives.primitive import Primitive

SUMS = ("fp32", "int32")  # dtypes of what the cube sums


@dataclass(frozen=True)
class PostponeInit(Primitive):
    """Lets a sum start from zero, and adds its init wherever the sum is read: for cores whose cube cannot start from a bias.

    A sum of reals is of another order, so it rounds differently, as it does after `reorder`. Only before the loops of the block are split.

    before:
        func f(A: fp32[3, 5], B: fp32[5, 4], bias: fp32[4]) -> (Y: fp32[3, 4]) {
          local C: fp32[3, 4]
          for i in 3 {
            for j in 4 {
              for k in 5 {
                mm: C[i, j] += A[i, k]*B[k, j] init bias[j]
              }
            }
          }
          for oi in 3 {
            for oj in 4 {
              out: Y[oi, oj] = max(C[oi, oj], 0.0)
            }
          }
        }
    call:
        postpone_init(block=mm)
    after:
        func f(A: fp32[3, 5], B: fp32[5, 4], bias: fp32[4]) -> (Y: fp32[3, 4]) {
          local C: fp32[3, 4]
          for i in 3 {
            for j in 4 {
              for k in 5 {
                mm: C[i, j] += A[i, k]*B[k, j]
              }
            }
          }
          for oi in 3 {
            for oj in 4 {
              out: Y[oi, oj] = max(C[oi, oj] + bias[oj], 0.0)
            }
          }
        }
    """

    word = "postpone_init"
    block: str

    def apply(self, func: Func) -> Func:
        block, _ = find_block(func, self.block)
        init, loops = block.init, self._loops(func, block)
        if init is None:
            raise ScheduleError(f"{self.block} starts from zero already")

        def value(r: Read) -> Expr:
            return r + tidy(substitute(init, {v: normalise(i) for v, i in zip(loops, r.indices)}))
        started = replace(block, init=None)
        rest = map_nodes(func.body, lambda e: e if isinstance(e, Read) and e == block.target else map_reads(e, block.target.buffer, value))
        return replace(func, body=replace_node(rest, self.block, lambda n: (started,)))

    def _loops(self, func: Func, block: Block) -> list[str]:
        """Return the loops that the block's target is indexed by, in order."""
        buffer = block.target.buffer
        if block.op != "+=" or block.instr is not None or func.buffer(buffer).dtype not in SUMS:
            raise ScheduleError(f"{self.block} is no sum in {' or '.join(SUMS)}, or belongs to an instruction already")
        if buffer not in {b.name for b in func.locals} or len(writers(func, buffer)) > 1:
            raise ScheduleError(f"{buffer} is not a local buffer that {self.block} alone writes")
        loops = [i.name for i in block.target.indices if isinstance(i, Var)]
        init = [] if block.init is None else [block.init]
        if len(set(loops)) != len(block.target.indices) or not all(variables(e) <= set(loops) for e in init):
            raise ScheduleError(f"the indices of {buffer} are not loops of {self.block}; postpone its init before they are split")
        for r in (r for e in init for r in reads(e)):
            if writers(func, r.buffer):
                raise ScheduleError(f"{r.buffer}, which {self.block} starts from, is written by {writers(func, r.buffer)[0][0].name}")
        return loops
