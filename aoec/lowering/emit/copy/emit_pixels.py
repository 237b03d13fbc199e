"""Emission of images of few channels: planes in UB to pixels of four channels, by two transpositions of 16 x 16.

Of 256 pixels of a plane, pixel 16 a + b is element b of row a. The first transposition makes of each channel rows b of its pixels
16 a + b, and lays row b of channel c at block 4 b + c. So sixteen blocks in a row hold four channels of pixels 4 q .. 4 q + 3 of every
sixteen, and the second makes of them, for each q, rows a of those four pixels with their channels side by side.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.pixels import GROUP_ROWS, LANES, Pixels, pixels_of
from aoec.ir.func.tir import Buffer
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, minimum, normalise, round_up
from aoec.ir.program import Instr, Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum, run
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, base_offset, dtype_size, instr, loop_strides, piece, pitches, uses
from aoec.target.isa.words import VectorOp

SIDE = 16  # rows and columns of a transposition
CHANNELS = 4
GROUP = GROUP_ROWS * CHANNELS  # pixels: SIDE * SIDE


def whole_pixels(em: Emitter, op: TileOp) -> None:
    """Grow both buffers of a block that makes pixels out of planes to whole groups of pixels."""
    made = pixels_of(op.block)
    if made is None or em.buffers[made.target.buffer].scope != "UB":
        return
    planes, pixels = em.buffers[made.source.buffer], em.buffers[made.target.buffer]
    if made.each != CHANNELS or dtype_size(planes) != 2 or normalise(pixels.shape[-1]) != Int(LANES):
        raise UnsupportedError(f"block {op.block.name}: pixels are of {CHANNELS} channels of two bytes, a block of them a row")
    em.buffers[planes.name] = replace(planes, shape=(*planes.shape[:-1], round_up(planes.shape[-1], GROUP)))
    em.buffers[pixels.name] = replace(pixels, shape=(*pixels.shape[:-2], round_up(pixels.shape[-2], GROUP_ROWS), pixels.shape[-1]))


def make_pixels(em: Emitter, op: TileOp, made: Pixels) -> Piece:
    """Return the piece that makes pixels of planes, through a scratch buffer of the same size. Channels that no plane fills are zero."""
    planes, pixels = em.buffers[made.source.buffer], em.buffers[made.target.buffer]
    inner = [lp for lp in op.loops if uses(made.target.indices[-2], frozenset((lp.var,)))]
    lanes = [lp for lp in op.loops if Var(lp.var) == made.target.indices[-1]]
    if len(inner) != 1 or [lp.extent for lp in lanes] != [Int(LANES)]:
        raise UnsupportedError(f"block {op.block.name}: the rows of its pixels are one loop, and their {LANES} elements another")
    outer = [lp for lp in op.loops if lp not in (*inner, *lanes)]
    names = [lp.var for lp in outer]
    at, to = _starts(op, names, (planes, made.source)), _starts(op, names, (pixels, made.target))
    size = pixels.shape[-2] * pixels.shape[-1]
    between = em.add_scratch(pixels.dtype, size)
    batch = em.fresh("group")
    total, done = ceildiv(inner[0].extent, GROUP_ROWS), Var(batch) * MAX_REPEAT
    width = GROUP * CHANNELS
    body = turns(em, made, (planes.name, at + done * GROUP), (between, done * width), (pixels.name, to + done * width),
                 minimum(MAX_REPEAT, total - done))
    items = nest([*[(lp.var, lp.extent) for lp in outer], (batch, ceildiv(total, MAX_REPEAT))], body)
    if made.channels < CHANNELS:
        items = [run(em, VectorOp("vdup", (), 0.0), (between, Int(0)), [], size), *items]
    return piece(em, "V", items, pixels.name, planes.name)


def _starts(op: TileOp, outer: list[str], place: tuple[Buffer, Read]) -> Expr:
    """Return the element of a buffer where the rows or planes of an image begin; loops `outer` are over images."""
    b, r = place
    image = Read(r.buffer, (*r.indices[:-2], Int(0), Int(0)))
    steps: dict[str, Expr] = {**dict.fromkeys(outer, Int(0)), **loop_strides(b, image.indices, op)}
    return base_offset(b, image.indices, op.names) + product_sum(steps, outer)


def turns(em: Emitter, made: Pixels, planes: tuple[str, Expr], between: tuple[str, Expr], pixels: tuple[str, Expr],
          groups: Expr) -> list[Item]:
    """Return the transpositions of so many groups of pixels, from elements of buffers on."""
    pitch = pitches(em.buffers[planes[0]])[-2]

    def turn(dst: tuple[str, Expr], src: tuple[str, Expr], src_rep: int) -> Instr:
        return instr("vnchwconv", dst=em.ref(*dst), src=em.ref(*src), repeat=groups, dst_stride=CHANNELS, dst_half=0, src_stride=1,
                     dst_rep=GROUP_ROWS, src_rep=src_rep)
    first = [turn((between[0], between[1] + c * SIDE), (planes[0], planes[1] + pitch * c), SIDE) for c in range(made.channels)]
    second = [turn((pixels[0], pixels[1] + q * SIDE), (between[0], between[1] + q * GROUP), GROUP_ROWS) for q in range(CHANNELS)]
    return [*first, *second]
