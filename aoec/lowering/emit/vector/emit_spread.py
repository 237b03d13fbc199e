"""Emission of spreading: elements of a run, one a row, each move to a whole block of their own, in which lanes read them later."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, eq, minimum, normalise, round_up
from aoec.ir.program import For, Item
from aoec.lowering.emit.emit_runs import BLOCKS, MAX_REPEAT, nest, product_sum, run
from aoec.lowering.emit.tile import Emitter, TileOp, base_offset, c0, instr, largest, loop_strides
from aoec.lowering.emit.vector.emit_blocks import side_by_side
from aoec.target.isa.words import VectorOp


def is_spread(em: Emitter, op: TileOp) -> bool:
    """Return True for a copy of a run whose elements go one to a row of the target."""
    value, target = op.block.value, op.block.target
    if not isinstance(value, Read) or op.block.op != "=" or target.indices[-1] != Int(0) or len(target.indices) != len(value.indices) + 1:
        return False
    return em.buffers[value.buffer].dtype == em.buffers[target.buffer].dtype


def spread(em: Emitter, op: TileOp) -> list[Item]:
    """Return rows of the innermost loop eight a repeat, one after the other of the loops around it."""
    value, target = op.block.value, op.block.target
    assert isinstance(value, Read)
    src, dst = em.buffers[value.buffer], em.buffers[target.buffer]
    strides = [loop_strides(b, r.indices, op) for b, r in ((src, value), (dst, target))]
    *around, (v, count) = side_by_side(strides, [(lp.var, lp.extent) for lp in op.loops])
    if strides[0].get(v) != Int(1) or strides[1].get(v) != Int(c0(dst)):
        raise UnsupportedError(f"block {op.block.name}: rows are spread out of runs of elements")
    em.spread.add(target.buffer)
    at, to = base_offset(src, value.indices, op.names), base_offset(dst, target.indices, op.names)
    em.require_aligned(at, c0(src), op, f"block {op.block.name}: what is spread of {src.name}")
    if not around:
        return [spread_run(em, (src.name, at), (dst.name, to), count, c0(dst))]
    for u, _ in around:
        em.require(eq(strides[0].get(u, Int(0)) % c0(src), 0), f"block {op.block.name}: what is spread of one {u} starts on a block")
    places = [o + product_sum(s, [u for u, _ in around if u in s]) for o, s in zip((at, to), strides)]
    return nest(around, spread_among(em, (src.name, places[0]), (dst.name, places[1]), count, largest(count, op.above)))


def spread_among(em: Emitter, source: tuple[str, Expr], target: tuple[str, Expr], count: Expr, most: Expr) -> list[Item]:
    """Return the instructions that move at most so many elements of a run each to a block of the target. They touch no block more."""
    b = em.buffers[target[0]]
    blocks = em.add_scratch(b.dtype, normalise(round_up(most, BLOCKS) * c0(b)))
    copy = run(em, VectorOp("vcopy", ()), target, [(blocks, Int(0))], count * c0(b))
    return [spread_run(em, source, (blocks, Int(0)), count, c0(b)), copy]


def spread_run(em: Emitter, source: tuple[str, Expr], target: tuple[str, Expr], count: Expr, unit: int) -> Item:
    """Return the instructions that move each element of a run to a block of the target. Up to seven elements behind them are spread too,
    into blocks for which slots have room."""
    batch = em.fresh("rows")
    done = Var(batch) * (MAX_REPEAT * BLOCKS)
    repeat = minimum(MAX_REPEAT, ceildiv(count, BLOCKS) - Var(batch) * MAX_REPEAT)
    fill = instr("vbrcb", dst=em.ref(target[0], target[1] + done * unit), src=em.ref(source[0], source[1] + done),
                 repeat=repeat, dst_blk=1, dst_rep=BLOCKS)
    return For(batch, normalise(ceildiv(ceildiv(count, BLOCKS), MAX_REPEAT)), (fill,))
