"""Emission of vector blocks: elementwise operations, reductions and transposes of what lies in UB."""
from __future__ import annotations

from aoec.ir.index import reads
from aoec.lowering.emit_cube import piece
from aoec.lowering.emit_lanes import elementwise, vector_op
from aoec.lowering.emit_reduce import reduce
from aoec.lowering.emit_spread import is_spread, spread
from aoec.lowering.emit_transpose import is_transpose, transpose
from aoec.lowering.tile import Emitter, Piece, TileOp


def vector(em: Emitter, op: TileOp, home: frozenset[str]) -> Piece:
    """One block of vector work on UB buffers; `home`: the loops around the life of its target."""
    target = op.block.target
    dst = em.buffers[target.buffer]
    if is_transpose(em, op):
        return transpose(em, op, em.halves[op.block.name])
    value = op.block.value
    cast = any(em.buffers[r.buffer].dtype != dst.dtype for r in reads(value))
    if op.block.op == "=":
        items = spread(em, op) if is_spread(em, op) else elementwise(em, op, vector_op(value, cast))
    else:
        items = reduce(em, op, home)
    return piece(em, "V", items, dst.name, *dict.fromkeys(r.buffer for r in reads(value)))
