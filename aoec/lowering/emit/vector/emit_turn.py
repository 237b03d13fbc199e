"""Emission of transpositions: rows and columns of a tile in UB change places, sixteen rows at a time."""
from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Block, blocks
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, maximum, minimum, normalise, round_up, substitute
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, base_offset, c0, instr, loop_strides, piece, pitches, uses

ROWS = 16  # that one vnchwconv turns


def turns_rows(em: Emitter) -> bool:
    """Return True where a tensor is turned, not an image brought into blocks of channels, which have a dimension of their own."""
    return len(em.func.outputs[0].shape) == len(em.func.inputs[0].shape)


def whole_rows(em: Emitter, op: TileOp) -> None:
    """Grow both buffers to all that vnchwconv touches: sixteen rows of whole blocks on either side, counted from where it begins."""
    value, target = op.block.value, op.block.target
    assert isinstance(value, Read)
    zero: dict[str, Expr] = {v: Int(0) for v in op.names}
    for r in (target, value):
        b = em.buffers[r.buffer]
        wide = [round_up(n, ROWS) if first == Int(0) else round_up(n - first, ROWS) + round_up(first, ROWS)
                for n, first in zip(b.shape[-2:], (normalise(substitute(i, zero)) for i in r.indices[-2:]))]
        em.buffers[b.name] = replace(b, shape=(*b.shape[:-2], *wide))


def turn_rows(em: Emitter, op: TileOp) -> Piece:
    """Return the instructions that make [.., s, t] of [.., t, s]: sixteen t at a time, with a repeat for each block of s. Bytes take an
    instruction for each half of a block on either side."""
    value = op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    *outer, _, _ = op.loops
    check_behind(em, op)
    s, t = (op.size([v for v in op.names if uses(i, frozenset((v,)))]) for i in op.block.target.indices[-2:])
    to, at = (base_offset(em.buffers[r.buffer], r.indices, op.names)
              + product_sum(loop_strides(em.buffers[r.buffer], r.indices, op), [lp.var for lp in outer]) for r in (op.block.target, value))
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
    """Return how many of n there are from sixteen on, or from the first."""
    return maximum(n - half * ROWS, 0) if half else n


def check_behind(em: Emitter, op: TileOp) -> None:
    """Raise UnsupportedError where an earlier block has written rows behind those that a transposition makes. The transposition writes
    whole blocks of rows, so it would overwrite them."""
    first = row_of(op.block, {v: Int(0) for v in op.names})
    for b, around in blocks(em.func.body):
        if b.name == op.block.name:
            return
        if b.target.buffer == op.block.target.buffer:
            last = row_of(b, {lp.var: lp.extent - 1 for lp in around})
            if not isinstance(first, Int) or not isinstance(last, Int) or last.value >= first.value:
                raise UnsupportedError(f"block {op.block.name}: it writes whole blocks of rows of {b.target.buffer}, also behind its own; "
                                       f"what {b.name} writes there comes after it")


def row_of(block: Block, values: Mapping[str, Expr]) -> Expr:
    """Return the row of its target that a block writes with these values of its loops."""
    return normalise(substitute(block.target.indices[-2], values)) if len(block.target.indices) > 1 else Int(0)
