"""Emission of vector blocks: elementwise operations, reductions and transposes of what lies in UB."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Binary, Cast, Int, Read, ceildiv, reads
from aoec.ir.program import Item
from aoec.lowering.emit_cube import instr, piece
from aoec.lowering.emit_lanes import (
    BLOCKS,
    MAX_REPEAT,
    REDUCERS,
    VectorOp,
    elementwise,
    lanes_of,
    nest,
    product_sum,
    require_rows,
    vector_op,
)
from aoec.lowering.emit_transpose import is_transpose, transpose
from aoec.lowering.tile import Emitter, Piece, TileOp, base_offset, dtype_size, loop_strides, uses


def vector(em: Emitter, op: TileOp) -> Piece:
    """One block of vector work on UB buffers."""
    target = op.block.target
    dst = em.buffers[target.buffer]
    if is_transpose(em, op):
        return transpose(em, op, em.halves[op.block.name])
    value = op.block.value
    cast = any(em.buffers[r.buffer].dtype != dst.dtype for r in reads(value))
    if op.block.op == "=":
        work = vector_op(value, cast)
        items = elementwise(em, op, work)
    else:
        items = reduce(em, op)
    return piece(em, "V", items, dst.name, *dict.fromkeys(r.buffer for r in reads(value)))


# ---------------------------------------------------------------- reductions

def reduce(em: Emitter, op: TileOp) -> list[Item]:
    """A reduction over tensor loops: across lanes when the innermost loop is reduced, else lane by lane."""
    target = op.block.target
    used = frozenset(v for i in target.indices for v in op.names if uses(i, frozenset((v,))))
    reduced = [lp for lp in op.loops if lp.var not in used]
    serial = [lp.var for lp in op.above if not any(uses(i, frozenset((lp.var,))) for i in target.indices)
              and any(uses(i, frozenset((lp.var,))) for r in reads(op.block.value) for i in r.indices)]
    read = op.block.value.value if isinstance(op.block.value, Cast) else op.block.value
    if not reduced or serial or not isinstance(read, Read) or op.block.init is not None:
        raise UnsupportedError(f"block {op.block.name}: a vector reduction reduces one buffer over tensor loops")
    if em.buffers[read.buffer].dtype != em.buffers[target.buffer].dtype:
        raise UnsupportedError(f"block {op.block.name}: cast to the accumulator's dtype in a block of its own")
    name, across, identity = REDUCERS[op.block.op]
    if reduced[-1].var == op.loops[-1].var:
        return reduce_rows(em, op, read, across, name)
    start = elementwise(em, op, VectorOp("vdup", (), identity), skip=frozenset(lp.var for lp in reduced))
    step = elementwise(em, op, VectorOp(name, (read,)), accumulate=True, skip=frozenset(lp.var for lp in reduced))
    return [*start, *nest([(lp.var, lp.extent) for lp in reduced], step)]


def reduce_rows(em: Emitter, op: TileOp, read: Read, across: str, fold: str) -> list[Item]:
    """Each row to one element: one result a repeat, then one over those; rows of at most 255 repeats squared lanes."""
    dst, src = em.buffers[op.block.target.buffer], em.buffers[read.buffer]
    v_in, inner = op.loops[-1].var, op.loops[-1].extent
    outer = [(lp.var, lp.extent) for lp in op.loops[:-1]]
    s_dst, s_src = loop_strides(dst, op.block.target.indices, op), loop_strides(src, read.indices, op)
    if s_src.get(v_in) != Int(1) or any(v not in s_dst for v, _ in outer):
        raise UnsupportedError(f"block {op.block.name}: a row reduction reads contiguous rows")
    lanes = lanes_of(dtype_size(src))
    to = base_offset(dst, op.block.target.indices, op.names) + product_sum(s_dst, [v for v, _ in outer])
    at = base_offset(src, read.indices, op.names) + product_sum(s_src, [v for v, _ in outer])
    require_rows(em, op, src.name, s_src, outer)
    em.require(Binary("<=", ceildiv(inner, lanes), Int(min(MAX_REPEAT, lanes))), "a reduced row must be one instruction long per stage")
    partial = em.add_scratch(src.dtype, lanes)
    n = ceildiv(inner, lanes)
    body: list[Item] = [
        instr(across, dst=em.ref(partial, Int(0)), src=em.ref(src.name, at), lanes=inner - (n - 1) * lanes, repeat=n, dst_rep=1, src_blk=1,
              src_rep=BLOCKS),
        instr(across, dst=em.ref(dst.name, to), src=em.ref(partial, Int(0)), lanes=n, repeat=1, dst_rep=1, src_blk=1, src_rep=BLOCKS)]
    return nest(outer, body)
