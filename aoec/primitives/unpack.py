"""unpack: rows that are no whole blocks come into UB as one run."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.regions import largest
from aoec.ir.func.tir import Block, Buffer, Func, Loop, blocks
from aoec.ir.index import Expr, Int, Read, Var, substitute, variables
from aoec.primitives.nest import check_new, extents, find_block, find_buffer, replace_node, tidy, wrap
from aoec.primitives.pack import place
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class Unpack(Primitive):
    """Lets a copy into UB leave its rows one behind the other in a new local buffer of one dimension, as they lie in GM, and takes them
    apart there; rows of a buffer of several dimensions begin with a block each, and those that are no whole blocks come one by one, slowly.

    The new buffer is named <target>_run, the block that fills the target <block>_rows, its loops <block>_rows_0.., tensor loops as those of
    the copy.

    before:
        func f(X: fp16[6, 5]) -> (Y: fp16[6, 5]) {
          local X_UB: fp16[6, 5] in UB
          for a in 6 tensor {
            for b in 5 tensor {
              load: X_UB[a, b] = X[a, b] as copy
            }
          }
          for r in 6 tensor {
            for c in 5 tensor {
              store: Y[r, c] = X_UB[r, c] as copy
            }
          }
        }
    call:
        unpack(block=load)
    after:
        func f(X: fp16[6, 5]) -> (Y: fp16[6, 5]) {
          local X_UB: fp16[6, 5] in UB
          local X_UB_run: fp16[30] in UB
          for a in 6 tensor {
            for b in 5 tensor {
              load: X_UB_run[a*5 + b] = X[a, b] as copy
            }
          }
          for load_rows_0 in 6 tensor {
            for load_rows_1 in 5 tensor {
              load_rows: X_UB[load_rows_0, load_rows_1] = X_UB_run[load_rows_0*5 + load_rows_1] as vector
            }
          }
          for r in 6 tensor {
            for c in 5 tensor {
              store: Y[r, c] = X_UB[r, c] as copy
            }
          }
        }
    """

    word = "unpack"
    block: str

    def apply(self, func: Func) -> Func:
        block, above = find_block(func, self.block)
        loops = [lp for lp in above if lp.kind == "tensor"]
        target = self._target(func, block)
        order = [lp.var for i in block.target.indices for lp in loops if lp.var in variables(i)]
        if order != [lp.var for lp in loops] or not loops:
            raise ScheduleError(f"{self.block} does not write row after row; its loops are {', '.join(lp.var for lp in loops)}")
        if any(loops[0].var in (x.var for x in around) for b, around in blocks(func.body) if b.name != block.name):
            raise ScheduleError(f"{loops[0].var} holds other blocks than {self.block}")
        run, name = f"{target.name}_run", f"{block.name}_rows"
        own = [Loop(f"{name}_{i}", lp.extent, (), "tensor") for i, lp in enumerate(loops)]
        check_new(func, run, name, *[lp.var for lp in own])
        new: dict[str, Expr] = {lp.var: Var(x.var) for lp, x in zip(loops, own)}
        to = tidy(substitute(block.target, new))
        assert isinstance(to, Read)
        apart = Block(name, to, "=", Read(run, (place(own),)), instr="vector")
        bringing = replace(block, target=Read(run, (place(loops),)))
        made = (wrap(bringing, [replace(lp, body=()) for lp in loops]), wrap(apart, own))
        around = extents(above[:len(above) - len(loops)])
        size: Expr = Int(1)
        for lp in loops:
            size = size * largest(lp.extent, around)
        return replace(func, body=replace_node(func.body, loops[0].var, lambda n: made),
                       locals=(*func.locals, Buffer(run, target.dtype, (tidy(size),), "UB")))

    def _target(self, func: Func, block: Block) -> Buffer:
        """Return the buffer in UB that the block copies to from GM."""
        read = block.value
        if block.instr != "copy" or block.op != "=" or not isinstance(read, Read) or find_buffer(func, read.buffer).scope != "GM":
            raise ScheduleError(f"{self.block} is no copy from GM; tensorize it as one first")
        target = find_buffer(func, block.target.buffer)
        if target.scope != "UB" or target.layout != "ND" or len(target.shape) < 2:
            raise ScheduleError(f"{self.block} copies to {target.name}, which has no rows in UB")
        return target
