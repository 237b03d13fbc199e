"""Emission of rows that are packed in UB: their elements, one row behind the other.

Where the machine counts no elements a repeat, a mask says what is taken. All rows of a repeat share one; longer rows are as many repeats as
they need, evenly apart, and each of these has a mask of its own (a block), so that such rows begin so many blocks apart.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, ceildiv, eq, le, normalise
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import nest, product_sum
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, base_offset, c0, dtype_size, instr, largest, loop_strides, piece
from aoec.lowering.emit.vector.emit_blocks import side_by_side

MOST = 65535  # rows of an instruction, and elements of a row


def is_packing(em: Emitter, op: TileOp) -> bool:
    """True where what lies in rows in UB goes into a run there."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or len(op.loops) < 2:
        return False
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    return dst.scope == src.scope == "UB" and len(dst.shape) == 1 and len(src.shape) > 1 and dst.dtype == src.dtype


def whole_repeats(em: Emitter, op: TileOp) -> None:
    """Nothing; rows of the source lie so far apart that the repeats of each are alike."""
    assert isinstance(op.block.value, Read)
    src = em.buffers[op.block.value.buffer]
    if (count := repeats(em, op.loops[-1].extent * dtype_size(src))) != Int(1):
        unit = count * c0(src)
        em.buffers[src.name] = replace(src, shape=(*src.shape[:-1], normalise(ceildiv(src.shape[-1], unit) * unit)))


def repeats(em: Emitter, row_bytes: Expr) -> Expr:
    """How many repeats a row takes on a machine whose repeats have masks; one where it counts a row's elements."""
    each = em.machine.constants.get("packed_row_bytes")
    return Int(1) if each is None else normalise(ceildiv(row_bytes, int(each)))


def pack(em: Emitter, op: TileOp) -> Piece:
    """vreducev2 (GatherMask) of all rows; of what is around them, each a run of whole blocks, one after the other."""
    target, value = op.block.target, op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[target.buffer], em.buffers[value.buffer]
    column = op.loops[-1]
    *outer, row = [lp for lp in op.loops[:-1] if lp.extent != Int(1)] or op.loops[-2:-1]
    to, at = (loop_strides(b, r.indices, op) for b, r in ((dst, target), (src, value)))
    if not to.get(column.var) == at.get(column.var) == Int(1) or to.get(row.var) != column.extent or row.var not in at:
        raise UnsupportedError(f"block {op.block.name}: rows of {src.name} do not lie one behind the other in {dst.name}")
    *around, (_, rows) = side_by_side([to, at], [(lp.var, lp.extent) for lp in (*outer, row)])
    limits(em, op, rows)
    if dtype_size(src) == 1:
        em.require(eq(column.extent % 2, 0), f"block {op.block.name}: bytes are packed two by two, an even number a row")
    if (count := repeats(em, column.extent * dtype_size(src))) != Int(1):
        em.add_scratch(src.dtype, normalise(largest(rows, op.above) * count * c0(src)))  # the masks
        em.require(eq(at[row.var] % (count * c0(src)), 0), f"block {op.block.name}: repeats of a row of {src.name} are blocks apart")
    for v, _ in around:
        em.require(eq(to[v] % c0(src), 0), f"block {op.block.name}: what is packed of one {v} is whole blocks")
    start = [base_offset(b, r.indices, op.names) + product_sum(s, [v for v, _ in around])
             for b, r, s in ((dst, target, to), (src, value, at))]
    body: list[Item] = [instr("vreducev2", dst=em.ref(dst.name, start[0]), src=em.ref(src.name, start[1]), lanes=column.extent,
                              repeat=rows, src_rep=at[row.var] // c0(src))]
    return piece(em, "V", nest(around, body), dst.name, src.name)


def limits(em: Emitter, op: TileOp, rows: Expr) -> None:
    """Asks for what the instruction takes: so many rows."""
    name = op.block.name
    if not em.machine.has("vreducev2"):
        raise UnsupportedError(f"block {name}: {em.machine.name} has no instruction that packs rows")
    em.require(le(largest(rows, op.above), MOST), f"block {name}: at most {MOST:,} rows are packed at a time")
