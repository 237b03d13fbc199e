"""end_blocks: rows that are no whole blocks leave UB as whole blocks, and the blocks that they end with."""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Buffer, Func, Loop, blocks
from aoec.ir.index import DTYPES, Expr, Int, Read, Var, affine, substitute
from aoec.primitives.nest import check_new, find_block, find_buffer, replace_node, tidy, wrap
from aoec.primitives.primitive import Primitive

BLOCK_BYTES = 32
TURNED = 16  # elements that a turn makes of a row, at least
MOST_BYTES = 4  # of an element that is turned


@dataclass(frozen=True)
class EndBlocks(Primitive):
    """Splits a copy out of UB whose rows are longer than a block, and no whole blocks, in two: whole blocks of each row, and then the last
    16 elements of it (32 of one byte), from a new local buffer that has just these. Where MTE3 writes whole blocks alone, what is left of
    a row would go by way of the scalar unit.

    The new buffer and the block that fills it are named <source>_ends, the block that stores it <block>_ends; their loops are named after
    them, and are tensor loops as those of the copy.

    before:
        func f(X: fp16[6, 21]) -> (Y: fp16[6, 21]) {
          local X_UB: fp16[6, 21] in UB
          for a in 6 tensor {
            for b in 21 tensor {
              load: X_UB[a, b] = X[a, b] as copy
            }
          }
          for r in 6 tensor {
            for c in 21 tensor {
              store: Y[r, c] = X_UB[r, c] as copy
            }
          }
        }
    call:
        end_blocks(block=store)
    after:
        func f(X: fp16[6, 21]) -> (Y: fp16[6, 21]) {
          local X_UB: fp16[6, 21] in UB
          local X_UB_ends: fp16[6, 16] in UB
          for a in 6 tensor {
            for b in 21 tensor {
              load: X_UB[a, b] = X[a, b] as copy
            }
          }
          for X_UB_ends_0 in 6 tensor {
            for X_UB_ends_1 in 16 tensor {
              X_UB_ends: X_UB_ends[X_UB_ends_0, X_UB_ends_1] = X_UB[X_UB_ends_0, X_UB_ends_1 + 5] as vector
            }
          }
          for r in 6 tensor {
            for c in 16 tensor {
              store: Y[r, c] = X_UB[r, c] as copy
            }
          }
          for store_ends_0 in 6 tensor {
            for store_ends_1 in 16 tensor {
              store_ends: Y[store_ends_0, store_ends_1 + 5] = X_UB_ends[store_ends_0, store_ends_1] as copy
            }
          }
        }
    """

    word = "end_blocks"
    block: str

    def apply(self, func: Func) -> Func:
        block, above = find_block(func, self.block)
        loops = [lp for lp in above if lp.kind == "tensor"]
        source, width, taken = self._row(func, block, loops)
        name, store = f"{source.name}_ends", f"{block.name}_ends"
        made, left = ([*[Loop(f"{stem}_{i}", lp.extent, (), "tensor") for i, lp in enumerate(loops[:-1])],
                       Loop(f"{stem}_{len(loops) - 1}", Int(taken), (), "tensor")] for stem in (name, store))
        check_new(func, name, store, *[lp.var for lp in (*made, *left)])

        def access(read: Expr, own: list[Loop], behind: int) -> Read:
            """Return the access with loops of its own, so many elements further on."""
            new: dict[str, Expr] = {lp.var: Var(x.var) for lp, x in zip(loops[:-1], own)}
            found = tidy(substitute(read, {**new, loops[-1].var: Var(own[-1].var) + behind}))
            assert isinstance(found, Read)
            return found
        behind = width - taken
        filling = Block(name, replace(access(block.value, made, 0), buffer=name), "=", access(block.value, made, behind), instr="vector")
        storing = replace(block, name=store, target=access(block.target, left, behind),
                          value=replace(access(block.value, left, 0), buffer=name))
        unit = BLOCK_BYTES // DTYPES[source.dtype]
        whole = [*loops[:-1], replace(loops[-1], extent=Int(width // unit * unit))]
        new = (wrap(filling, made), wrap(block, [replace(lp, body=()) for lp in whole]), wrap(storing, left))
        ends = Buffer(name, source.dtype, (*source.shape[:-1], Int(taken)), "UB")
        return replace(func, body=replace_node(func.body, loops[0].var, lambda n: new), locals=(*func.locals, ends))

    def _row(self, func: Func, block: Block, loops: list[Loop]) -> tuple[Buffer, int, int]:
        """Return the buffer in UB that the block copies to GM, elements of a row, and how many of these its end has."""
        read = block.value
        if block.instr != "copy" or block.op != "=" or not isinstance(read, Read) or find_buffer(func, block.target.buffer).scope != "GM":
            raise ScheduleError(f"{self.block} is no copy to GM; tensorize it as one first")
        source = find_buffer(func, read.buffer)
        if source.scope != "UB" or source.layout != "ND" or len(source.shape) < 2 or not loops:
            raise ScheduleError(f"{self.block} copies {source.name}, which has no rows in UB")
        if any(loops[0].var in (x.var for x in around) for b, around in blocks(func.body) if b.name != block.name):
            raise ScheduleError(f"{loops[0].var} holds other blocks than {self.block}")
        lane, size = loops[-1], DTYPES[source.dtype]
        taken = max(TURNED, BLOCK_BYTES // size)
        along = affine(block.target.indices[-1], frozenset((lane.var,)))
        runs = read.indices[-1] == Var(lane.var) and along is not None and along[0] == {lane.var: Int(1)}
        if not runs or not isinstance(lane.extent, Int) or size > MOST_BYTES:
            raise ScheduleError(f"{self.block} copies no rows of {source.name} of a known length, from their first element on")
        if lane.extent.value <= taken or lane.extent.value * size % BLOCK_BYTES == 0:
            raise ScheduleError(f"{self.block} copies rows of {lane.extent.value} elements, whose end is no block apart from others")
        return source, lane.extent.value, taken
