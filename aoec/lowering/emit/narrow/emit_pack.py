"""Emission of rows that are packed in UB: their elements lie one row after the other, without gaps.

Where the machine cannot count the elements of a repeat, a mask selects them. Rows of one repeat share one mask. A longer row takes
several repeats, evenly apart, and each of these has a mask of its own (a block), so the rows begin that many blocks apart. A machine
that has no such instruction packs rows by transposition. Bytes that are in no pairs, or that are transposed, are widened to 16 bits for
it.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, ceildiv, eq, le, normalise, round_up
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum, run
from aoec.lowering.emit.narrow.emit_regroup import ROWS, pack_by_turns, share_rows
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
    pitches,
    product,
)
from aoec.lowering.emit.vector.emit_blocks import side_by_side
from aoec.target.isa.instructions import REPEAT_BYTES
from aoec.target.isa.words import VectorOp

MOST = 65535  # rows of an instruction, and elements of a row


def is_packing(em: Emitter, op: TileOp) -> bool:
    """Return whether a block copies rows in UB into a run there."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or len(op.loops) < (1 if takes_first(op) else 2):
        return False
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    return dst.scope == src.scope == "UB" and len(dst.shape) == 1 and len(src.shape) > 1 and dst.dtype == src.dtype


def whole_repeats(em: Emitter, op: TileOp) -> None:
    """Set the distance between rows of the source so that the repeats of each row are alike, and add room for reads behind the last row.
    A repeat with a mask is read whole, and a transposition takes whole shares of rows."""
    assert isinstance(op.block.value, Read)
    src = em.buffers[op.block.value.buffer]
    width = Int(1) if takes_first(op) else op.loops[-1].extent
    if by_instruction(em, width, dtype_size(src)) and (count := repeats(em, width * dtype_size(src))) != Int(1):
        unit = count * c0(src)
        em.buffers[src.name] = replace(src, shape=(*src.shape[:-1], normalise(ceildiv(src.shape[-1], unit) * unit)))
    if "packed_row_bytes" in em.machine.constants:
        em.behind[src.name] = Int((REPEAT_BYTES - BLOCK_BYTES) // dtype_size(src))
    if not em.machine.has("vreducev2"):
        dst, each = em.buffers[op.block.target.buffer], ROWS * share_rows(width_of(op))
        rows = product(list(src.shape[:-1]))
        more = round_up(rows, each) - rows
        em.buffers[dst.name] = replace(dst, shape=(normalise(round_up(rows, each) * width),))
        em.behind[src.name] = normalise(more * pitches(src)[-2])


def by_instruction(em: Emitter, width: Expr, size: int) -> bool:
    """Return whether vreducev2 takes the rows as they are: bytes two by two."""
    return em.machine.has("vreducev2") and (size > 1 or normalise(width % 2) == Int(0))


def takes_first(op: TileOp) -> bool:
    """Return True where the rows that are packed have one element each."""
    return isinstance(op.block.value, Read) and len(op.block.value.indices) > 1 and op.block.value.indices[-1] == Int(0)


def width_of(op: TileOp) -> int:
    """Return the elements of a row. Raise UnsupportedError where a hole sets their number."""
    width = Int(1) if takes_first(op) else op.loops[-1].extent
    if not isinstance(width, Int):
        raise UnsupportedError(f"block {op.block.name}: rows that are packed by turns have one length")
    return width.value


def repeats(em: Emitter, row_bytes: Expr) -> Expr:
    """Return how many repeats a row takes on a machine whose repeats have masks; one where it counts a row's elements."""
    each = em.machine.constants.get("packed_row_bytes")
    return Int(1) if each is None else normalise(ceildiv(row_bytes, int(each)))


def pack(em: Emitter, op: TileOp) -> Piece:
    """Return vreducev2 (GatherMask) of all rows. Outer loops take one run of whole blocks after the other."""
    target, value = op.block.target, op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[target.buffer], em.buffers[value.buffer]
    to, at = (loop_strides(b, r.indices, op) for b, r in ((dst, target), (src, value)))
    lanes = () if takes_first(op) else op.loops[-1:]
    width = lanes[0].extent if lanes else Int(1)
    loops = op.loops[:-1] if lanes else op.loops
    *outer, row = [lp for lp in loops if lp.extent != Int(1)] or loops[-1:]
    if any(s.get(lp.var) != Int(1) for s in (to, at) for lp in lanes) or to.get(row.var) != width or row.var not in at:
        raise UnsupportedError(f"block {op.block.name}: rows of {src.name} do not lie one behind the other in {dst.name}")
    *around, (_, rows) = side_by_side([to, at], [(lp.var, lp.extent) for lp in (*outer, row)])
    size, most = dtype_size(src), largest(rows, op.above)
    em.require(le(most, MOST), f"block {op.block.name}: at most {MOST:,} rows are packed at a time")
    for v, _ in around:
        em.require(eq(to[v] % c0(src), 0), f"block {op.block.name}: what is packed of one {v} is whole blocks")
    start = [base_offset(b, r.indices, op.names) + product_sum(s, [v for v, _ in around])
             for b, r, s in ((dst, target, to), (src, value, at))]
    own = Rows((dst.name, start[0]), (src.name, start[1]), rows, most, width, at[row.var])
    if size == 1 and not by_instruction(em, width, size):
        body = pack_bytes(em, op, own)
    else:
        body = pack_rows(em, op, own)
    return piece(em, "V", nest(around, body), dst.name, src.name)


@dataclass(frozen=True, slots=True)
class Rows:
    """What is packed: (buffer, first element) of the run and of the rows, how many rows there are, and at most, elements of a row, and from
    one to the next."""

    run: tuple[str, Expr]
    rows: tuple[str, Expr]
    count: Expr
    most: Expr
    width: Expr
    pitch: Expr


def pack_rows(em: Emitter, op: TileOp, own: Rows) -> list[Item]:
    """Return the items that pack rows of elements that the unit packs, or transposes."""
    src = em.buffers[own.rows[0]]
    if not em.machine.has("vreducev2"):
        if not isinstance(own.pitch, Int):
            raise UnsupportedError(f"block {op.block.name}: rows that are packed by turns lie evenly apart")
        em.require(le(own.most, MAX_REPEAT * ROWS * share_rows(width_of(op))), f"block {op.block.name}: fewer rows are turned at a time")
        return pack_by_turns(em, own.run, own.rows, own.count, own.most, width_of(op), own.pitch.value)
    if (count := repeats(em, own.width * dtype_size(src))) != Int(1):
        em.add_scratch(src.dtype, normalise(own.most * count * c0(src)))  # the masks
        em.require(eq(own.pitch % (count * c0(src)), 0), f"block {op.block.name}: repeats of a row of {src.name} are blocks apart")
    return [instr("vreducev2", dst=em.ref(*own.run), src=em.ref(*own.rows), lanes=own.width, repeat=own.count,
                  src_rep=own.pitch // c0(src))]


def pack_bytes(em: Emitter, op: TileOp, own: Rows) -> list[Item]:
    """Return the items that widen bytes to 16 bits, which hold every byte, pack these, and narrow them to bytes again."""
    each = ROWS * share_rows(width_of(op))
    rows = own.most if em.machine.has("vreducev2") else round_up(own.most, each)
    behind = (REPEAT_BYTES - BLOCK_BYTES) // 2
    wide, run_of = (em.add_scratch("fp16", normalise(rows * n + more)) for n, more in ((own.pitch, behind), (own.width, 0)))
    cast = VectorOp("vconv", ())
    return [run(em, cast, (wide, Int(0)), [own.rows], own.count * own.pitch),
            *pack_rows(em, op, replace(own, run=(run_of, Int(0)), rows=(wide, Int(0)))),
            run(em, cast, own.run, [(run_of, Int(0))], own.count * own.width)]
