"""Emission of reads where an index says: a burst for each index, from an address that the scalar unit calculates."""
from __future__ import annotations

from aoec.ir.index import Expr, Int, Read, normalise, reads, variables
from aoec.lowering.emit.emit_runs import nest, product_sum
from aoec.lowering.emit.tile import Access, Emitter, Piece, TileOp, base_offset, dtype_size, instr, loop_strides, pitches


def index_of(op: TileOp) -> Read | None:
    """Return the read by which a block's own read finds its place, where there is one."""
    value = op.block.value
    found = [r for i in value.indices for r in reads(i)] if isinstance(value, Read) else []
    return found[0] if found else None


def gather(em: Emitter, op: TileOp, index: Read) -> Piece:
    """Return a burst for each point of the loops, except the loops that walk the run behind the indexed axis. Pipe S reads the index, so
    the copy is not issued before the index is there."""
    value, target = op.block.value, op.block.target
    assert isinstance(value, Read)
    src, dst, at = (em.buffers[name] for name in (value.buffer, target.buffer, index.buffer))
    axis = next(d for d, i in enumerate(value.indices) if reads(i))
    start = tuple(Int(0) if d == axis else i for d, i in enumerate(value.indices))
    s_src, s_dst, s_at = loop_strides(src, start, op), loop_strides(dst, target.indices, op), loop_strides(at, index.indices, op)
    rest = [(lp.var, lp.extent) for lp in op.loops if lp.extent != Int(1)]
    length: Expr = Int(1)
    while isinstance(length, Int):
        grown = next((i for i, (v, _) in enumerate(rest) if s_src.get(v) == length == s_dst.get(v) and v not in variables(index)), None)
        if grown is None:
            break
        length = normalise(length * rest.pop(grown)[1])
    size = dtype_size(src)

    def offset(buffer: str, indices: tuple[Expr, ...], steps: dict[str, Expr]) -> Expr:
        return base_offset(em.buffers[buffer], indices, op.names) + product_sum(steps, [v for v, _ in rest if v in steps])
    burst = instr("copy_gm_ub_at", dst=em.ref(dst.name, offset(dst.name, target.indices, s_dst)),
                  src=em.ref(src.name, offset(src.name, start, s_src)), index=em.ref(at.name, offset(at.name, index.indices, s_at)),
                  length=length * size, pitch=pitches(src)[axis] * size, extent=src.shape[axis])
    return Piece(tuple(nest(rest, [burst])), (Access(dst.name, "MTE2", True), Access(at.name, "S", False)))
