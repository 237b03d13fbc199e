"""Emission of spreading: elements that lie in a run, one a row, each to a whole block of its own, as lanes read it later."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, minimum, normalise
from aoec.ir.program import For, Item
from aoec.lowering.emit_runs import BLOCKS, MAX_REPEAT
from aoec.lowering.tile import Emitter, TileOp, base_offset, c0, instr, loop_strides


def is_spread(em: Emitter, op: TileOp) -> bool:
    """True for a copy of a run whose elements go one to a row of the target."""
    value, target = op.block.value, op.block.target
    if not isinstance(value, Read) or op.block.op != "=" or target.indices[-1] != Int(0) or len(target.indices) != len(value.indices) + 1:
        return False
    return em.buffers[value.buffer].dtype == em.buffers[target.buffer].dtype


def spread(em: Emitter, op: TileOp) -> list[Item]:
    """One loop of rows, eight a repeat; UnsupportedError where rows lie in more than one loop."""
    value, target = op.block.value, op.block.target
    assert isinstance(value, Read)
    src, dst = em.buffers[value.buffer], em.buffers[target.buffer]
    loops = [lp for lp in op.loops if lp.extent != Int(1)] or list(op.loops[-1:])
    if len(loops) > 1 or loop_strides(src, value.indices, op).get(loops[0].var) != Int(1):
        raise UnsupportedError(f"block {op.block.name}: rows are spread out of one run of elements")
    em.spread.add(target.buffer)
    at, to = base_offset(src, value.indices, op.names), base_offset(dst, target.indices, op.names)
    em.require_aligned(at, c0(src), op, f"block {op.block.name}: what is spread of {src.name}")
    return [spread_run(em, (src.name, at), (dst.name, to), loops[0].extent, c0(dst))]


def spread_run(em: Emitter, source: tuple[str, Expr], target: tuple[str, Expr], count: Expr, unit: int) -> Item:
    """The elements of a run each to a block of the target; up to seven behind them are spread too, into blocks that slots have room for."""
    batch = em.fresh("rows")
    done = Var(batch) * (MAX_REPEAT * BLOCKS)
    repeat = minimum(MAX_REPEAT, ceildiv(count, BLOCKS) - Var(batch) * MAX_REPEAT)
    fill = instr("vbrcb", dst=em.ref(target[0], target[1] + done * unit), src=em.ref(source[0], source[1] + done),
                 repeat=repeat, dst_blk=1, dst_rep=BLOCKS)
    return For(batch, normalise(ceildiv(ceildiv(count, BLOCKS), MAX_REPEAT)), (fill,))
