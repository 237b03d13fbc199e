"""Emission of columns of narrow rows: rows of a few elements lie in UB one behind the other, and each column becomes a run.

256 rows of n elements are sixteen runs of 16 n. Sixteen by sixteen these are turned, so that each of the 16 n elements has a place for
sixteen rows, and of a column, whose places are n apart, sixteen are turned back: they then lie row after row.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.index import Expr, Int, Read, Var, ceildiv, minimum, normalise, round_up
from aoec.ir.narrow import GROUP, apart
from aoec.lowering.emit_runs import MAX_REPEAT, nest, product_sum
from aoec.lowering.tile import Emitter, Piece, TileOp, base_offset, c0, dtype_size, instr, largest, loop_strides, piece

ROWS = 16  # that one vnchwconv turns


def is_narrow(em: Emitter, op: TileOp) -> bool:
    """True for a column, or each, of rows of a few elements of two or four bytes that lie in UB one behind the other."""
    value = op.block.value
    if not apart(op.block) or not isinstance(value, Read) or not op.loops or op.block.target.indices[-1] != Var(op.loops[-1].var):
        return False
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    return dst.scope == src.scope == "UB" and dst.dtype == src.dtype and dtype_size(src) in (2, 4)


def whole_groups(em: Emitter, op: TileOp) -> None:
    """Nothing; both buffers grow to whole groups of rows."""
    value = op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    rows = round_up(dst.shape[-1], GROUP)
    em.buffers[src.name] = replace(src, shape=(*src.shape[:-1], normalise(rows * apart(op.block))))
    em.buffers[dst.name] = replace(dst, shape=(*dst.shape[:-1], normalise(rows)))


def narrow(em: Emitter, op: TileOp) -> Piece:
    """Two turns for each element of a row: all elements first, then the columns that are wanted."""
    target, value = op.block.target, op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[target.buffer], em.buffers[value.buffer]
    to, at = (loop_strides(b, r.indices, op) for b, r in ((dst, target), (src, value)))
    width, unit, rows = apart(op.block), c0(src), op.loops[-1]
    halves = ROWS // unit  # blocks that sixteen elements take
    columns = [(lp.var, lp.extent) for lp in op.loops[:-1] if at.get(lp.var) == Int(1)]
    outer = [(lp.var, lp.extent) for lp in op.loops[:-1] if at.get(lp.var) != Int(1)]
    start = [base_offset(b, r.indices, op.names) + product_sum(s, [v for v, _ in outer if v in s])
             for b, r, s in ((dst, target, to), (src, value, at))]
    turned = em.add_scratch(src.dtype, normalise(round_up(largest(rows.extent, op.above), GROUP) * width))
    groups, rep = ceildiv(rows.extent, GROUP), em.fresh("rep")
    first, repeat = Var(rep) * (MAX_REPEAT * GROUP), minimum(MAX_REPEAT, groups - Var(rep) * MAX_REPEAT)
    block, half, batches = em.fresh("block"), em.fresh("half"), (rep, ceildiv(groups, MAX_REPEAT))
    pitch = halves * width  # blocks from one run of sixteen rows to the next, and from one row's place to the next's
    column = product_sum(dict.fromkeys([v for v, _ in columns], Int(halves)), [v for v, _ in columns])
    there: Expr = start[0] + product_sum(to, [v for v, _ in columns]) + Var(half) * (unit * ROWS) + first
    apiece = instr("vnchwconv", dst=em.ref(turned, Var(block) * (unit * ROWS) + first * width),
                   src=em.ref(src.name, start[1] + Var(block) * unit + first * width), repeat=repeat,
                   dst_stride=halves, dst_half=halves - 1, src_stride=pitch, dst_rep=ROWS * pitch, src_rep=ROWS * pitch)
    back = instr("vnchwconv", dst=em.ref(dst.name, there), src=em.ref(turned, (column + Var(half)) * unit + first * width), repeat=repeat,
                 dst_stride=halves, dst_half=halves - 1, src_stride=pitch, dst_rep=ROWS * halves, src_rep=ROWS * pitch)
    items = [*nest([(block, Int(pitch)), batches], [apiece]), *nest([*columns, (half, Int(halves)), batches], [back])]
    return piece(em, "V", nest(outer, items), dst.name, src.name)
