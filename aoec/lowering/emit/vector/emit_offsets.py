"""Emission of gathers in UB: reads from places that an index in UB gives.

Byte offsets are calculated from the indices, for all rows of a tile at once, and vgather reads at them. The offsets of short rows count
from the first row of the tile, so that one instruction reads from all rows. The offsets of a long row count from that row, and each row
takes an instruction of its own.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Buffer
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, le, maximum, minimum, normalise, reads, round_up
from aoec.ir.program import Item
from aoec.lowering.emit.copy.emit_gather import index_of
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum, run
from aoec.lowering.emit.tile import (
    BLOCK_BYTES,
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
)
from aoec.target.isa.instructions import MOST_REACH, REPEAT_BYTES
from aoec.target.isa.words import VectorOp

SHORT = 256  # elements of rows that are taken together: to count from the first row costs an element a twentieth of a cycle


def is_indexed(em: Emitter, op: TileOp) -> bool:
    """Return whether a block reads UB at places that an index gives."""
    index = index_of(op)
    return index is not None and all(em.buffers[r.buffer].scope == "UB" for r in (op.block.target, *reads(op.block.value)))


def whole_offsets(em: Emitter, op: TileOp) -> None:
    """Make the distance between rows of indices, in elements, that between rows of the result, so that the offsets of all rows are one
    run."""
    index = index_of(op)
    assert index is not None
    places, made = em.buffers[index.buffer], em.buffers[op.block.target.buffer]
    if len(places.shape) > 1:
        em.buffers[places.name] = replace(places, shape=(*places.shape[:-1], normalise(round_up(places.shape[-1], c0(made)))))


@dataclass(frozen=True, slots=True)
class Sides:
    """What is made, read and says where: buffers, where they start, and strides of the loops; the loop of a row's elements, and those
    around; elements of a row that is read."""

    dst: tuple[Buffer, Expr, dict[str, Expr]]
    src: tuple[Buffer, Expr, dict[str, Expr]]
    at: tuple[Buffer, Expr, dict[str, Expr]]
    taken: Expr
    outer: list[tuple[str, Expr]]
    width: int

    @property
    def size(self) -> int:
        return dtype_size(self.src[0])

    @property
    def short_rows(self) -> tuple[str, Expr] | None:
        """Return the loop of rows that are short, one behind the other."""
        row = self.outer[0] if len(self.outer) == 1 else None
        if row is None or not isinstance(self.taken, Int) or self.taken.value > SHORT or row[1] == Int(1):
            return None
        pitch = self.dst[2].get(row[0])
        alike = self.at[2].get(row[0], pitch) == pitch and row[0] in self.src[2]
        return row if isinstance(pitch, Int) and alike else None


def sides(em: Emitter, op: TileOp) -> Sides:
    """Return the sides of a gather. Raise UnsupportedError where no vgather does it."""
    value, target, index, name = op.block.value, op.block.target, index_of(op), op.block.name
    assert isinstance(value, Read) and index is not None
    dst, src, at = (em.buffers[b] for b in (target.buffer, value.buffer, index.buffer))
    width = src.shape[-1]
    if dtype_size(dst) not in (2, 4) or dst.dtype != src.dtype:
        raise UnsupportedError(f"block {name}: elements of two or four bytes are gathered, of one dtype")
    if not isinstance(width, Int) or not reads(value.indices[-1]) or any(reads(i) for i in value.indices[:-1]):
        raise UnsupportedError(f"block {name}: elements are gathered of whole rows of {src.name}")
    start = (*value.indices[:-1], Int(0))
    strides = [loop_strides(b, i, op) for b, i in ((dst, target.indices), (src, start), (at, index.indices))]
    column = next((lp for lp in op.loops if strides[0].get(lp.var) == strides[2].get(lp.var) == Int(1)), None)
    if column is None or column.var in strides[1]:
        raise UnsupportedError(f"block {name}: indices do not lie as what is taken by them")
    outer = [(lp.var, lp.extent) for lp in op.loops if lp is not column]
    first, second, third = ((b, base_offset(b, i, op.names), s) for b, i, s in zip(
        (dst, src, at), (target.indices, start, index.indices), strides))
    return Sides(first, second, third, column.extent, outer, width.value)


def gather(em: Emitter, op: TileOp) -> Piece:
    """Return the piece that calculates the offsets of all elements and gathers them."""
    s = sides(em, op)
    made, items = make_offsets(em, op, s)
    walked, length = s.outer, s.taken
    reach: Expr = Int(s.width * s.size)
    if (row := s.short_rows) is not None:
        items += count_from_first(em, s, made, row)
        walked, length = [], (row[1] - 1) * s.dst[2][row[0]] + s.taken
        reach = normalise(reach + (row[1] - 1) * s.src[2][row[0]] * s.size)
        em.require(le(largest(reach, op.above), MOST_REACH), f"block {op.block.name}: a gather reaches {MOST_REACH:,} bytes")
    rep, lanes = em.fresh("rep"), REPEAT_BYTES // s.size
    first, total = Var(rep) * (MAX_REPEAT * lanes), ceildiv(length, lanes)
    repeat = minimum(MAX_REPEAT, total - Var(rep) * MAX_REPEAT)
    tail = minimum(lanes, length - (Var(rep) * MAX_REPEAT + repeat - 1) * lanes)

    def place(strides: dict[str, Expr]) -> Expr:
        return product_sum(strides, [v for v, _ in walked if v in strides])
    taken = instr("vgather", dst=em.ref(s.dst[0].name, s.dst[1] + place(s.dst[2]) + first),
                  src=em.ref(s.src[0].name, s.src[1] + place(s.src[2])), offset=em.ref(made, place(s.at[2]) + first),
                  lanes=tail, repeat=repeat, dst_rep=REPEAT_BYTES // BLOCK_BYTES, reach=reach)
    items += nest([*walked, (rep, ceildiv(total, MAX_REPEAT))], [taken])
    return piece(em, "V", items, s.dst[0].name, s.src[0].name, s.at[0].name)


def make_offsets(em: Emitter, op: TileOp, s: Sides) -> tuple[str, list[Item]]:
    """Return (buffer of int32, the items that fill it) with the byte offset of each index in its row. An index below 0 counts from the
    end. One that is out of range is replaced by the nearest index."""
    at, start, strides = s.at
    walked = [(v, n) for v, n in s.outer if v in strides and n != Int(1)]
    count = normalise(strides[walked[0][0]] * walked[0][1]) if walked else s.taken
    room = largest(count if s.short_rows is None else s.short_rows[1] * s.dst[2][s.short_rows[0]], op.above)
    made, below = em.add_scratch("int32", room), em.add_scratch("int32", largest(count, op.above))
    items: list[Item] = []

    def work(word: str, to: str, *sources: tuple[str, Expr], scalar: float | None = None) -> None:
        items.append(run(em, VectorOp(word, tuple(Read(b, ()) for b, _ in sources), scalar), (to, Int(0)), list(sources), count))
    index = at.name, start
    if at.dtype != "int32":
        work("vconv", made, index)
        index = made, Int(0)
    work("vmins", below, index, scalar=0.0)
    work("vmaxs", below, (below, Int(0)), scalar=-1.0)
    work("vmuls", below, (below, Int(0)), scalar=-float(s.width))
    work("vadd", made, index, (below, Int(0)))
    work("vmaxs", made, (made, Int(0)), scalar=0.0)
    work("vmins", made, (made, Int(0)), scalar=float(s.width - 1))
    work("vmuls", made, (made, Int(0)), scalar=float(s.size))
    return made, items


def count_from_first(em: Emitter, s: Sides, made: str, row: tuple[str, Expr]) -> list[Item]:
    """Return the items that make offsets of rows count from the first row. Where all rows share an index, the number of rows of offsets
    is doubled again and again. Elsewhere the starts of rows are made in that way, and are added to the offsets."""
    pitch, step, rows = s.dst[2][row[0]], s.src[2][row[0]], row[1]
    assert isinstance(pitch, Int) and isinstance(step, Int)
    shared = row[0] not in s.at[2]
    start = made if shared else em.add_scratch("int32", em.buffers[made].shape[0])
    items: list[Item] = [] if shared else [run(em, VectorOp("vdup", (), 0.0), (start, Int(0)), [], pitch)]
    most, there = MOST_REACH // (step.value * s.size) + 1, 1
    while there < most:
        more = maximum(0, minimum(there, rows - there)) * pitch
        items.append(run(em, VectorOp("vadds", (Read(start, ()),), float(there * step.value * s.size)), (start, there * pitch),
                         [(start, Int(0))], more))
        there *= 2
    if not shared:
        items.append(run(em, VectorOp("vadd", (Read(made, ()), Read(start, ()))), (made, Int(0)), [(made, Int(0)), (start, Int(0))],
                         rows * pitch))
    return items
