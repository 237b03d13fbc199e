"""Emission of vector blocks: elementwise operations, reductions and transposes of what lies in UB."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.func.pixels import pixels_of
from aoec.ir.index import Int, normalise, reads, round_up
from aoec.lowering.emit.copy.emit_pixels import make_pixels
from aoec.lowering.emit.emit_runs import run, words
from aoec.lowering.emit.narrow.emit_ends import ends, is_end
from aoec.lowering.emit.narrow.emit_narrow import is_narrow, narrow
from aoec.lowering.emit.narrow.emit_pack import is_packing, pack
from aoec.lowering.emit.narrow.emit_unpack import is_unpacking, unpack
from aoec.lowering.emit.tile import FRACTAL_ROWS, Emitter, Piece, TileOp, piece, split_index
from aoec.lowering.emit.vector.emit_laid import more_rows
from aoec.lowering.emit.vector.emit_lanes import elementwise
from aoec.lowering.emit.vector.emit_offsets import gather, is_indexed
from aoec.lowering.emit.vector.emit_reduce import reduce
from aoec.lowering.emit.vector.emit_spread import is_spread, spread
from aoec.lowering.emit.vector.emit_transpose import is_transpose, transpose


def vector(em: Emitter, op: TileOp, home: frozenset[str]) -> Piece:
    """Return one block of vector work on UB buffers; `home`: the loops around the life of its target."""
    target = op.block.target
    dst = em.buffers[target.buffer]
    if (made := pixels_of(op.block)) is not None:
        return make_pixels(em, op, made)
    if is_indexed(em, op):
        return gather(em, op)
    if is_packing(em, op):
        return pack(em, op)
    if is_unpacking(em, op):
        return unpack(em, op)
    if is_narrow(em, op):
        return narrow(em, op)
    if is_end(em, op):
        return ends(em, op)
    if is_transpose(em, op):
        return transpose(em, op, em.halves[op.block.name])
    if dst.layout == "NZ":
        return fractals(em, op)
    value = op.block.value
    cast = any(em.buffers[r.buffer].dtype != dst.dtype for r in reads(value))
    if op.block.op == "=":
        items = spread(em, op) if is_spread(em, op) else [i for w in words(em, op, cast) for i in elementwise(em, op, w)]
        if not reads(value) and dst.shape[-1] == Int(1) and len(dst.shape) > 1:
            em.spread.add(dst.name)  # whole blocks are filled
        items += more_rows(em, dst.name) if dst.name in em.laid else []
    else:
        items = reduce(em, op, home)
    return piece(em, "V", items, dst.name, *dict.fromkeys(r.buffer for r in reads(value)))


def fractals(em: Emitter, op: TileOp) -> Piece:
    """Return an elementwise operation on a tile in fractals, with what pads them: all operands lie alike, so it is one run."""
    target, value = op.block.target, op.block.value
    operands = [target, *reads(value)]
    if op.block.op != "=" or any(r.indices != target.indices or em.buffers[r.buffer].layout != "NZ" for r in operands):
        raise UnsupportedError(f"block {op.block.name}: tiles in fractals are worked on element by element, all alike")
    places = [split_index(i, op.names) for i in target.indices]
    if any(normalise(offset) != Int(0) for offset, _ in places):
        raise UnsupportedError(f"block {op.block.name}: tiles in fractals are worked on whole; give a part a buffer of its own")
    rows, columns = (op.size(v for _, loops in part for v in loops) for part in (places[:-1], places[-1:]))
    elements = round_up(rows, FRACTAL_ROWS) * round_up(columns, FRACTAL_ROWS)
    dtype = em.buffers[target.buffer].dtype
    em.along.update((target.buffer, r.buffer) for r in reads(value) if em.buffers[r.buffer].dtype == dtype)
    items = [run(em, work, (target.buffer, Int(0)), [(r.buffer, Int(0)) for r in work.sources], elements)
             for work in words(em, op, any(em.buffers[r.buffer].dtype != dtype for r in operands))]
    return piece(em, "V", items, target.buffer, *dict.fromkeys(r.buffer for r in reads(value)))
