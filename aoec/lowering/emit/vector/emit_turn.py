"""Emission of transpositions: rows and columns of what lies in UB change places, sixteen rows at a time."""
from __future__ import annotations

import itertools
from dataclasses import replace

from aoec.ir.index import Expr, Read, Var, ceildiv, maximum, minimum, round_up
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, c0, instr, loop_strides, piece, pitches

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
    """[.., s, t] of [.., t, s]: sixteen t at a time, a repeat for each block of s; of bytes for each half of a block, into a half."""
    value = op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    *outer, _, _ = op.loops
    s, t = (op.size([v for v in op.names if Var(v) == i]) for i in op.block.target.indices[-2:])
    to, at = (product_sum(loop_strides(em.buffers[r.buffer], r.indices, op), [lp.var for lp in outer]) for r in (op.block.target, value))
    unit, rep, group = c0(src), Var(em.fresh("rep")), Var(em.fresh("group"))
    to_pitch, at_pitch, wide = pitches(dst)[-2], pitches(src)[-2], max(unit, ROWS)
    first, rows = rep * (MAX_REPEAT * unit), group * wide
    body: list[Item] = []
    for high, lower in itertools.product(range(wide // ROWS), repeat=2):
        blocks = ceildiv(behind(s, lower), unit)
        halves = {"dst_high": high, "src_high": lower} if unit > ROWS else {}
        item = instr("vnchwconv", dst=em.ref(dst.name, to + (first + lower * ROWS) * to_pitch + rows),
                     src=em.ref(src.name, at + (rows + high * ROWS) * at_pitch + first),
                     repeat=minimum(MAX_REPEAT, blocks - rep * MAX_REPEAT), dst_stride=to_pitch // unit, dst_half=1 if unit < ROWS else 0,
                     src_stride=at_pitch // unit, dst_rep=to_pitch, src_rep=1, **halves)
        body += nest([(group.name, ceildiv(behind(t, high), wide)), (rep.name, ceildiv(blocks, MAX_REPEAT))], [item])
    return piece(em, "V", nest([(lp.var, lp.extent) for lp in outer], body), dst.name, src.name)


def behind(n: Expr, half: int) -> Expr:
    """How many of n there are from sixteen on, or from the first."""
    return maximum(n - half * ROWS, 0) if half else n
