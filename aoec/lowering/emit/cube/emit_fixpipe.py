"""Emission of results on their way from L0C to GM, through FIXPIPE."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.scaling import Scaled, match_scale
from aoec.ir.func.tir import COLUMNS, Buffer, Func, blocks
from aoec.ir.index import Binary, Call, Cast, Expr, Int, Read, eq, is_zero, le, reads, round_up, walk
from aoec.ir.program import Instr, Item, Ref
from aoec.lowering.emit.cube.emit_planes import channel_runs
from aoec.lowering.emit.tile import FRACTAL_ROWS, Emitter, Piece, TileOp, base_offset, c0, instr, largest, piece, pitches, split_index, uses
from aoec.target.isa.scales import DTYPE

SCALES = 256  # that the buffer of FIXPIPE for them holds, 2 KB (CANN platform_config: fb0_size), each in eight bytes (Ascend C, Fixpipe)
Sizes = Mapping[str, Expr | int]


def widen_scales(func: Func) -> Func:
    """Return the func with a word of 64 bits for each scale that FIXPIPE reads, in GM too."""
    into = {b.target.buffer: reads(b.value) for b, _ in blocks(func.body)}
    names = {b.name for b in func.locals if b.scope == "FB"}
    for _ in range(2):  # FB from L1, which is from GM
        names |= {r.buffer for n in names for r in into.get(n, ())}

    def widen(buffers: tuple[Buffer, ...]) -> tuple[Buffer, ...]:
        return tuple(replace(b, dtype=DTYPE) if b.name in names else b for b in buffers)
    return replace(func, inputs=widen(func.inputs), locals=widen(func.locals)) if names else func


def fixpipe(em: Emitter, op: TileOp) -> Piece:
    """Return the copy from L0C to GM, with cast, relu and scales, and from NZ to ND or NC1HWC0 on the way."""
    target, (src, relu, wide) = op.block.target, epilogue(op)
    out = em.buffers[target.buffer]
    row_loops = [v for i in src.indices[:-1] for v in split_index(i, op.names)[1]]
    (n_var,) = split_index(src.indices[-1], op.names)[1]
    n, m = op.extent(n_var), op.size(row_loops)
    rows = round_up(m, FRACTAL_ROWS)
    beside = [wide.scale.buffer] if wide else []
    if beside:
        em.require(le(largest(n, op.above), SCALES), f"FIXPIPE holds {SCALES} scales: tiles have at most so many columns")
    if out.layout not in COLUMNS and not _splits_channel(target, n_var):
        start = base_offset(out, target.indices, op.names)
        sizes: Sizes = dict(m=m, n=n, src_rows=rows, dst_stride=pitches(out)[-2], relu=relu)
        item: Item = fixpipe_instr(em, op, "fixpipe_nd", (em.ref(out.name, start), em.ref(src.buffer, Int(0))), sizes)
        return piece(em, "FIXP", [item], out.name, src.buffer, *beside)
    runs = channel_runs(em, op, op.block.target, row_loops)
    if out.dtype == "fp32":  # blocks of eight columns are fractals cut in two (Fixpipe: isChannelSplit)
        em.require(eq(em.buffers[src.buffer].unit, 0), f"{src.buffer} leaves as fp32 in blocks, and is not handed over in granules")
    sizes = dict(m=runs.rows, n=round_up(n, c0(out)) if out.layout in COLUMNS else n, src_rows=rows, dst_stride=runs.plane, relu=relu)
    item = fixpipe_instr(em, op, "fixpipe_nz", (em.ref(out.name, runs.start), em.ref(src.buffer, runs.first * FRACTAL_ROWS)), sizes)
    return piece(em, "FIXP", runs.around(item), out.name, src.buffer, *beside)


def fixpipe_instr(em: Emitter, op: TileOp, word: str, ends: tuple[Ref, Ref], sizes: Sizes) -> Instr:
    """Return the instruction that takes a tile from L0C to GM, with the scales of its columns where it has any."""
    src, _, wide = epilogue(op)
    dst, source = ends
    if wide is None:
        return instr(word, dst=dst, src=source, **sizes, **_ways(em, op, src))
    first = base_offset(em.buffers[wide.scale.buffer], wide.scale.indices, op.names)
    return instr(f"{word}_scale", dst=dst, src=source, scale=em.ref(wide.scale.buffer, first), **sizes, **_ways(em, op, src),
                 zero=int(wide.zero))


def _ways(em: Emitter, op: TileOp, src: Read) -> dict[str, Expr]:
    """Return how a result leaves: in granules behind its products (unit), added to what GM holds (atomic)."""
    return {"unit": em.buffers[src.buffer].unit, "atomic": Int(int(op.block.op == "+="))}


def _splits_channel(target: Read, n_var: str) -> bool:
    return any(isinstance(e, Binary) and e.op == "%" and uses(e, frozenset((n_var,))) for e in walk(target.indices[-1]))


def epilogue(op: TileOp) -> tuple[Read, int, Scaled | None]:
    """Return (accumulator read, relu, scales) of a FIXPIPE block: `cast(max(C[...], 0.0))`, cast and max optional, or what is so scaled."""
    wide = match_scale(op.block.value)
    e = wide.sums if wide else op.block.value
    if isinstance(e, Cast):
        e = e.value
    relu = 0
    if isinstance(e, Call) and e.fn == "max" and (is_zero(e.args[1]) or e.args[1] == Int(0)):
        e, relu = e.args[0], 1
    if not isinstance(e, Read):
        raise UnsupportedError(f"block {op.block.name}: FIXPIPE does relu, a cast or scales, nothing else")
    return e, relu, wide
