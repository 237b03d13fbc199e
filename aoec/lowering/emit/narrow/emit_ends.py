"""Emission of the ends of rows: elements that begin within a block become blocks of their own.

Sixteen rows of the blocks that hold the elements are transposed. The elements of a row are then rows, and those that are wanted are
transposed back. Of bytes, 32 rows are transposed, in halves of blocks.
"""
from __future__ import annotations

import itertools
from dataclasses import dataclass

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, Var, affine, ceildiv, le, maximum, normalise, round_up
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum
from aoec.lowering.emit.tile import (
    Emitter,
    Piece,
    TileOp,
    base_offset,
    c0,
    dtype_size,
    instr,
    largest,
    loop_strides,
    piece,
    pitches,
    product,
)
from aoec.lowering.emit.vector.emit_blocks import side_by_side

ROWS = 16  # that one vnchwconv turns


def is_end(em: Emitter, op: TileOp) -> bool:
    """Return True where rows in UB are made of elements that begin within a block of others."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or not op.loops or not value.indices:
        return False
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    lane = op.loops[-1].var
    parts = affine(value.indices[-1], frozenset((lane,)))
    if parts is None or parts[0] != {lane: Int(1)} or not isinstance(parts[1], Int) or op.block.target.indices[-1] != Var(lane):
        return False
    plain = dst.scope == src.scope == "UB" and dst.layout == src.layout == "ND" and min(len(dst.shape), len(src.shape)) > 1
    return plain and dst.dtype == src.dtype and dtype_size(src) <= 4 and parts[1].value % c0(src) != 0


def whole_rows_of_ends(em: Emitter, op: TileOp) -> None:
    """Add room to both buffers for as many rows as are transposed at once."""
    assert isinstance(op.block.value, Read)
    _, (_, count), pitch = rows_beside(em, op)
    for r, each in zip((op.block.target, op.block.value), pitch):
        b = em.buffers[r.buffer]
        rows, unit = product(list(b.shape[:-1])), max(ROWS, c0(b))
        whole = normalise((round_up(rows, unit) - rows) * pitches(b)[-2])
        if isinstance(each, Int) and isinstance(count, Int):
            whole = maximum(whole, normalise((round_up(count, unit) - count) * each))
        em.behind[b.name] = normalise(maximum(em.behind.get(b.name, Int(0)), whole))


def rows_beside(em: Emitter, op: TileOp) -> tuple[list[tuple[str, Expr]], tuple[str, Expr], list[Expr]]:
    """Return (loops around, the loop of the rows that are transposed together, its pitches in the target and in the source). That loop
    is the innermost one. Where the next outer loop has more rows, which lie between those of the innermost one in the source, it is
    that."""
    assert isinstance(op.block.value, Read)
    to, at = (loop_strides(em.buffers[r.buffer], r.indices, op) for r in (op.block.target, op.block.value))
    loops = side_by_side([to, at], [(lp.var, lp.extent) for lp in op.loops[:-1]]) or [(em.fresh("row"), Int(1))]
    row = loops[-1]
    for other in loops[-2:-1]:
        more = isinstance(row[1], Int) and isinstance(other[1], Int) and other[1].value > row[1].value
        near, far = at.get(other[0], Int(0)), at.get(row[0], Int(0))
        row = other if more and isinstance(near, Int) and isinstance(far, Int) and 0 < near.value < far.value else row
    return [lp for lp in loops if lp is not row], row, [s.get(row[0], Int(0)) for s in (to, at)]


@dataclass(frozen=True, slots=True)
class Side:
    """Rows on one side: their buffer, where the first begins, and elements from one to the next."""

    buffer: str
    start: Expr
    pitch: int


def ends(em: Emitter, op: TileOp) -> Piece:
    """Return the transpositions of the blocks that hold the ends, there and back."""
    target, value = op.block.target, op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[target.buffer], em.buffers[value.buffer]
    lane = op.loops[-1]
    to, at = (loop_strides(b, r.indices, op) for b, r in ((dst, target), (src, value)))
    around, (_, rows), pitch = rows_beside(em, op)
    if not all(isinstance(p, Int) and p.value % c0(src) == 0 for p in pitch) or lane.extent != Int(max(ROWS, c0(src))):
        raise UnsupportedError(f"block {op.block.name}: the ends of rows of {src.name} are {max(ROWS, c0(src))} elements, and rows lie "
                               "whole blocks apart")
    parts = affine(value.indices[-1], frozenset((lane.var,)))
    assert parts is not None and isinstance(parts[1], Int)
    first = parts[1].value % c0(src)
    start = [base_offset(b, r.indices, op.names) + product_sum(s, [v for v, _ in around if v in s])
             for b, r, s in ((dst, target, to), (src, value, at))]
    sides = [Side(b.name, o, p.value) for b, o, p in zip((dst, src), (start[0], start[1] - first), pitch)]  # type: ignore[attr-defined]
    most = largest(rows, op.above)
    em.require(le(most, MAX_REPEAT * max(ROWS, c0(src))), f"block {op.block.name}: fewer rows are turned at a time")
    made = turn_bytes if dtype_size(src) == 1 else turn_elements
    return piece(em, "V", nest(around, made(em, sides[0], sides[1], rows, most, first)), dst.name, src.name)


def turn_elements(em: Emitter, to: Side, at: Side, rows: Expr, most: Expr, first: int) -> list[Item]:
    """Return the instructions that move sixteen elements of each row, of two or four bytes, from element `first` of a block on."""
    dtype = em.buffers[at.buffer].dtype
    unit = c0(em.buffers[at.buffer])
    halves, blocks, repeat = ROWS // unit, -(-(first + ROWS) // unit), ceildiv(rows, ROWS)
    places = blocks * unit  # of elements
    turned = em.add_scratch(dtype, normalise(ceildiv(most, ROWS) * (places * ROWS)))
    block, half = em.fresh("block"), em.fresh("half")
    take = instr("vnchwconv", dst=em.ref(turned, Var(block) * (unit * ROWS)), src=em.ref(at.buffer, at.start + Var(block) * unit),
                 repeat=repeat, dst_stride=halves, dst_half=halves - 1, src_stride=at.pitch // unit, dst_rep=places * halves,
                 src_rep=ROWS * at.pitch // unit)
    lay = instr("vnchwconv", dst=em.ref(to.buffer, to.start + Var(half) * (unit * to.pitch)),
                src=em.ref(turned, Var(half) * unit + first * ROWS), repeat=repeat, dst_stride=to.pitch // unit, dst_half=halves - 1,
                src_stride=halves, dst_rep=ROWS * to.pitch // unit, src_rep=places * halves)
    return [*nest([(block, Int(blocks))], [take]), *nest([(half, Int(halves))], [lay])]


def turn_bytes(em: Emitter, to: Side, at: Side, rows: Expr, most: Expr, first: int) -> list[Item]:
    """Return the instructions that move 32 bytes of each row, from byte `first` of a block on."""
    unit = 2 * ROWS
    turned = em.add_scratch(em.buffers[at.buffer].dtype, normalise(ceildiv(most, unit) * (2 * unit * unit)))
    repeats = [ceildiv(maximum(rows - high * ROWS, 0), unit) if high else ceildiv(rows, unit) for high in range(2)]
    items: list[Item] = []
    for high, half in itertools.product(range(2), range(first // ROWS, (first + unit - 1) // ROWS + 1)):
        items.append(instr("vnchwconv", dst=em.ref(turned, Int(half * ROWS * unit)),
                           src=em.ref(at.buffer, at.start + (half // 2 * unit + high * ROWS * at.pitch)), repeat=repeats[high],
                           dst_stride=1, dst_half=0, src_stride=at.pitch // unit, dst_rep=2 * unit, src_rep=at.pitch, dst_high=high,
                           src_high=half % 2))
    for high, half in itertools.product(range(2), range(2)):
        items.append(instr("vnchwconv", dst=em.ref(to.buffer, to.start + high * ROWS * to.pitch),
                           src=em.ref(turned, Int((first + half * ROWS) * unit)), repeat=repeats[high], dst_stride=to.pitch // unit,
                           dst_half=0, src_stride=1, dst_rep=to.pitch, src_rep=2 * unit, dst_high=half, src_high=high))
    return items
