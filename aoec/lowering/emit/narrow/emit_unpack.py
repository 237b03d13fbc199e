"""Emission of runs that are unpacked in UB: rows that lie one after the other each get a place of whole blocks. Bytes are widened to 16
bits for it.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, affine, le, maximum, normalise, round_up
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, run
from aoec.lowering.emit.narrow.emit_regroup import ROWS, share_rows, unpack_by_turns
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, base_offset, c0, dtype_size, largest, loop_strides, piece, pitches, product
from aoec.lowering.emit.vector.emit_blocks import side_by_side
from aoec.target.isa.words import VectorOp


def is_unpacking(em: Emitter, op: TileOp) -> bool:
    """Return whether a block copies a run in UB into rows there."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or len(op.loops) < 2:
        return False
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    plain = dst.scope == src.scope == "UB" and len(src.shape) == 1 and len(dst.shape) > 1 and dst.dtype == src.dtype and dst.layout == "ND"
    parts = affine(value.indices[0], op.names)
    return plain and parts is not None and all(lp.extent == Int(1) or lp.var in parts[0] for lp in op.loops)


def whole_shares(em: Emitter, op: TileOp) -> None:
    """Add room to both buffers for all rows that are transposed at once."""
    assert isinstance(op.block.value, Read)
    dst, src, width = em.buffers[op.block.target.buffer], em.buffers[op.block.value.buffer], row_length(op)
    rows = product(list(dst.shape[:-1]))
    whole = round_up(rows, ROWS * share_rows(width))
    em.behind[dst.name] = normalise(maximum(em.behind.get(dst.name, Int(0)), (whole - rows) * pitches(dst)[-2]))
    em.buffers[src.name] = replace(src, shape=(normalise(whole * width),))


def row_length(op: TileOp) -> int:
    """Return the elements of a row. Raise UnsupportedError where a hole sets their number."""
    width = op.loops[-1].extent
    if not isinstance(width, Int):
        raise UnsupportedError(f"block {op.block.name}: rows that are taken apart have one length")
    return width.value


def unpack(em: Emitter, op: TileOp) -> Piece:
    """Return the piece that transposes the shares of a run, and then back into rows."""
    target, value = op.block.target, op.block.value
    assert isinstance(value, Read)
    dst, src, width = em.buffers[target.buffer], em.buffers[value.buffer], row_length(op)
    to, at = (loop_strides(b, r.indices, op) for b, r in ((dst, target), (src, value)))
    *lead, lane = op.loops
    loops = side_by_side([to, at], [(lp.var, lp.extent) for lp in lead if lp.extent != Int(1)] or [(lead[-1].var, Int(1))])
    row, rows = loops[-1]
    pitch = to.get(row)
    fits = len(loops) == 1 and to.get(lane.var) == at.get(lane.var) == Int(1) and (rows == Int(1) or at.get(row) == Int(width))
    if not fits or not isinstance(pitch, Int) or dtype_size(src) not in (1, 2):
        raise UnsupportedError(f"block {op.block.name}: rows of one or two bytes an element are taken out of a run, one behind the other")
    start = [base_offset(b, r.indices, op.names) for b, r in ((dst, target), (src, value))]
    most, each = largest(rows, op.above), ROWS * share_rows(width)
    em.require(le(most, MAX_REPEAT * each), f"block {op.block.name}: fewer rows are turned at a time")
    own, there = (dst.name, start[0]), (src.name, start[1])
    if dtype_size(src) == 2:
        return piece(em, "V", unpack_by_turns(em, own, there, rows, most, width, pitch.value), dst.name, src.name)
    whole = round_up(most, each)
    run_wide, rows_wide = (em.add_scratch("fp16", normalise(whole * n)) for n in (width, pitch.value))
    cast = VectorOp("vconv", ())
    zero: Expr = Int(0)
    items: list[Item] = [run(em, cast, (run_wide, zero), [there], normalise(rows * width)),
                         *unpack_by_turns(em, (rows_wide, zero), (run_wide, zero), rows, most, width, pitch.value),
                         run(em, cast, own, [(rows_wide, zero)], normalise(rows * c0(dst) * (pitch.value // c0(dst))))]
    return piece(em, "V", items, dst.name, src.name)
