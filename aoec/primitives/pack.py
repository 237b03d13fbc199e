"""pack: rows that are no whole blocks leave UB as one run."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.regions import largest
from aoec.ir.func.tir import Block, Buffer, Func, Loop, blocks
from aoec.ir.index import Expr, Int, Read, Var, substitute, variables
from aoec.primitives.nest import check_new, extents, find_block, find_buffer, insert, replace_node, tidy, wrap
from aoec.primitives.primitive import Primitive


@dataclass(frozen=True)
class Pack(Primitive):
    """Lets a copy out of UB take its rows from a new local buffer of one dimension, in which they lie one behind the other; in UB rows of
    a buffer of several dimensions begin with a block each, and those that are no whole blocks go to GM one by one, slowly.

    The new buffer and the block that fills it are named <source>_packed, its loops <source>_packed_0.., tensor loops as those of the copy.

    before:
        func f(X: fp16[6, 5]) -> (Y: fp16[6, 5]) {
          local X_UB: fp16[min(?t, 6), 5] in UB
          for i in ceildiv(6, ?t) {
            for a in min(?t, 6 - i*?t) tensor {
              for b in 5 tensor {
                load: X_UB[a, b] = X[i*?t + a, b] as copy
              }
            }
            for r in min(?t, 6 - i*?t) tensor {
              for c in 5 tensor {
                store: Y[i*?t + r, c] = X_UB[r, c] as copy
              }
            }
          }
        }
    call:
        pack(block=store)
    after:
        func f(X: fp16[6, 5]) -> (Y: fp16[6, 5]) {
          local X_UB: fp16[min(?t, 6), 5] in UB
          local X_UB_packed: fp16[min(?t, 6)*5] in UB
          for i in ceildiv(6, ?t) {
            for a in min(?t, 6 - i*?t) tensor {
              for b in 5 tensor {
                load: X_UB[a, b] = X[i*?t + a, b] as copy
              }
            }
            for X_UB_packed_0 in min(?t, 6 - i*?t) tensor {
              for X_UB_packed_1 in 5 tensor {
                X_UB_packed: X_UB_packed[X_UB_packed_0*5 + X_UB_packed_1] = X_UB[X_UB_packed_0, X_UB_packed_1] as vector
              }
            }
            for r in min(?t, 6 - i*?t) tensor {
              for c in 5 tensor {
                store: Y[i*?t + r, c] = X_UB_packed[r*5 + c] as copy
              }
            }
          }
        }
    """

    word = "pack"
    block: str

    def apply(self, func: Func) -> Func:
        block, above = find_block(func, self.block)
        loops = [lp for lp in above if lp.kind == "tensor"]
        source = self._source(func, block)
        order = [lp.var for i in block.target.indices for lp in loops if lp.var in variables(i)]
        if order != [lp.var for lp in loops]:
            raise ScheduleError(f"{self.block} does not write row after row; its loops are {', '.join(lp.var for lp in loops)}")
        if any(loops[0].var in (x.var for x in around) for b, around in blocks(func.body) if b.target.buffer == source.name):
            raise ScheduleError(f"{source.name} is written inside {loops[0].var}, and is not whole before it")
        name = f"{source.name}_packed"
        own = [Loop(f"{name}_{i}", lp.extent, (), "tensor") for i, lp in enumerate(loops)]
        check_new(func, name, *[lp.var for lp in own])
        new: dict[str, Expr] = {lp.var: Var(x.var) for lp, x in zip(loops, own)}
        filling = Block(name, Read(name, (place(own),)), "=", tidy(substitute(block.value, new)), instr="vector")
        taking = replace(block, value=Read(name, (place(loops),)))
        body = replace_node(func.body, block.name, lambda n: (taking,))
        body = insert(body, loops[0].var, (wrap(filling, own),))
        around = extents(above[:len(above) - len(loops)])
        size: Expr = Int(1)
        for lp in loops:
            size = size * largest(lp.extent, around)
        return replace(func, body=body, locals=(*func.locals, Buffer(name, source.dtype, (tidy(size),), "UB")))

    def _source(self, func: Func, block: Block) -> Buffer:
        """Return the buffer in UB that the block copies to GM."""
        read = block.value
        if block.instr != "copy" or block.op != "=" or not isinstance(read, Read) or find_buffer(func, block.target.buffer).scope != "GM":
            raise ScheduleError(f"{self.block} is no copy to GM; tensorize it as one first")
        source = find_buffer(func, read.buffer)
        if source.scope != "UB" or source.layout != "ND" or len(source.shape) < 2:
            raise ScheduleError(f"{self.block} copies {source.name}, which has no rows in UB")
        return source


def place(loops: list[Loop]) -> Expr:
    """Return where the element of these loops lies, one row behind the other."""
    out: Expr = Int(0)
    for lp in loops:
        out = out * lp.extent + Var(lp.var)
    return tidy(out)
