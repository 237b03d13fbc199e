"""Emission of transpositions: rows and columns of what lies in UB change places, sixteen rows at a time."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.index import Read, Var, ceildiv, minimum, round_up
from aoec.lowering.emit_runs import MAX_REPEAT, nest, product_sum
from aoec.lowering.tile import Emitter, Piece, TileOp, c0, instr, loop_strides, piece, pitches

ROWS = 16  # that one vnchwconv turns


def turns_rows(em: Emitter) -> bool:
    """True where a tensor is turned, not an image brought into blocks of channels, which have a dimension of their own."""
    return len(em.func.outputs[0].shape) == len(em.func.inputs[0].shape)


def whole_rows(em: Emitter, op: TileOp) -> None:
    """Nothing; both buffers grow to what vnchwconv touches: sixteen rows, each of whole blocks, on either side."""
    value = op.block.value
    assert isinstance(value, Read)
    for b in (em.buffers[op.block.target.buffer], em.buffers[value.buffer]):
        em.buffers[b.name] = replace(b, shape=(*b.shape[:-2], *(round_up(n, ROWS) for n in b.shape[-2:])))


def turn_rows(em: Emitter, op: TileOp) -> Piece:
    """[.., s, t] of [.., t, s]: sixteen t at a time, a repeat for each block of s."""
    value = op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    *outer, _, _ = op.loops
    s, t = (op.size([v for v in op.names if Var(v) == i]) for i in op.block.target.indices[-2:])
    to, at = (product_sum(loop_strides(em.buffers[r.buffer], r.indices, op), [lp.var for lp in outer]) for r in (op.block.target, value))
    unit, rep, group = c0(src), Var(em.fresh("rep")), Var(em.fresh("group"))
    first, rows, blocks = rep * (MAX_REPEAT * unit), group * ROWS, ceildiv(s, unit)
    to_pitch, at_pitch = pitches(dst)[-2], pitches(src)[-2]
    item = instr("vnchwconv", dst=em.ref(dst.name, to + first * to_pitch + rows), src=em.ref(src.name, at + rows * at_pitch + first),
                 repeat=minimum(MAX_REPEAT, blocks - rep * MAX_REPEAT), dst_stride=to_pitch // unit, dst_half=1 if unit < ROWS else 0,
                 src_stride=at_pitch // unit, dst_rep=to_pitch, src_rep=1)
    loops = [*[(lp.var, lp.extent) for lp in outer], (group.name, ceildiv(t, ROWS)), (rep.name, ceildiv(blocks, MAX_REPEAT))]
    return piece(em, "V", nest(loops, [item]), dst.name, src.name)
