"""Emission of transposes, as layout conversions need them: sixteen channels (of bytes 32) between rows of pixels and blocks of channels."""
from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.pixels import pixels_of
from aoec.ir.index import Expr, Int, Read, Var, affine, ceildiv, maximum, minimum, round_up
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, c0, instr, loop_strides, piece, pitches, uses
from aoec.lowering.emit.vector.emit_turn import ROWS, turn_rows, turns_rows, whole_rows

Place = tuple[str, Expr]  # buffer, element
WIDE = 32  # channels of bytes in a block


def is_transpose(em: Emitter, op: TileOp) -> bool:
    """Return True where the innermost loop of the target strides in the source and another loop is its lanes."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or len(op.loops) < 2 or pixels_of(op.block):
        return False
    src = em.buffers[value.buffer]
    if src.scope != "UB" or em.buffers[op.block.target.buffer].scope != "UB":
        return False
    v_in = op.loops[-1].var
    parts = affine(value.indices[-1], op.names)
    return parts is None or v_in not in parts[0] and any(v in parts[0] for v in op.names)


def makes_pixels(em: Emitter, op: TileOp) -> bool:
    """Return True where a transposition goes from channel rows [.., c0, x] to pixels [.., x, c0]; the lanes of pixels are one block."""
    value = op.block.value
    assert isinstance(value, Read)
    unit = c0(em.buffers[value.buffer])
    into, out = (isinstance(e, Int) and e.value <= unit for e in (em.buffers[r.buffer].shape[-1] for r in (op.block.target, value)))
    if into and out:  # a tile of few pixels: what is stored in blocks has a dimension more
        return len(em.func.outputs[0].shape) > len(em.func.inputs[0].shape)
    if into or out:
        return into
    raise UnsupportedError(f"block {op.block.name}: one side of a transposition has blocks of {unit} channels")


def whole_transposes(em: Emitter, op: TileOp) -> int:
    """Return how many 32-byte halves of sixteen channels exist; both buffers grow to what vnchwconv touches: 16 rows (of bytes 32), whole
    runs of pixels."""
    if turns_rows(em):
        whole_rows(em, op)
        return 1
    value, out = op.block.value, makes_pixels(em, op)
    assert isinstance(value, Read)
    pair = [em.buffers[op.block.target.buffer], em.buffers[value.buffer]]
    pixels, channels = pair if out else pair[::-1]
    unit = c0(pixels)
    if min(len(pixels.shape), len(channels.shape)) < 3:
        raise UnsupportedError(f"block {op.block.name}: a transposition of channels and pixels has three dimensions on both sides")
    halves, step = max(16 // unit, 1), unit if out else max(16, unit)
    there, x = pixels.shape[-3], pixels.shape[-2]
    em.buffers[pixels.name] = replace(pixels, shape=(*pixels.shape[:-3], Int(halves), round_up(x, step), Int(unit)))
    em.buffers[channels.name] = replace(channels, shape=(*channels.shape[:-3], Int(halves), Int(unit), round_up(x, step)))
    return min(halves, there.value) if isinstance(there, Int) else halves


def transpose(em: Emitter, op: TileOp, present: int) -> Piece:
    """Emit vnchwconv between channel rows [i][c0][x] and pixels [i][x][c0], either way. It takes sixteen channels, with i in 16 // C0;
    of bytes it takes all 32."""
    if turns_rows(em):
        return turn_rows(em, op)
    value = op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    unit = c0(src)
    halves = max(16 // unit, 1)
    pixels_out = makes_pixels(em, op)
    x = next(lp.extent for lp in op.loops if lp.var in _names_in((op.block.target if pixels_out else value).indices[-2], op))
    rep = em.fresh("rep")
    chunk = MAX_REPEAT
    rows_buffer, pixel_buffer = (src, dst) if pixels_out else (dst, src)
    pitch = pitches(rows_buffer)[-2]
    plane = pitches(pixel_buffer)[-3]
    step = max(16, unit) if not pixels_out else unit  # pixels an instruction repeat
    total = ceildiv(x, step)
    count = minimum(chunk, total - Var(rep) * chunk)
    first = Var(rep) * (chunk * step)
    outer = [lp for lp in op.loops if any(lp.var in _names_in(i, op) for i in op.block.target.indices[:-3])]  # groups of channels
    to, at = (product_sum(loop_strides(em.buffers[r.buffer], r.indices, op), [lp.var for lp in outer]) for r in (op.block.target, value))
    body: list[Item] = []
    if unit > ROWS:
        body = quarters(em, (dst.name, to), (src.name, at), Run(x, Var(rep)), pitch, pixels_out)
    elif pixels_out:
        half = plane // unit if halves > 1 else Int(0)
        body.append(instr("vnchwconv", dst=em.ref(dst.name, to + first * unit), src=em.ref(src.name, at + first), repeat=count,
                          dst_stride=1, dst_half=half, src_stride=pitch // unit, dst_rep=step, src_rep=1))
    else:
        for h in range(present):
            body.append(instr("vnchwconv", dst=em.ref(dst.name, to + first + pitch * (h * unit)),
                              src=em.ref(src.name, at + first * unit + plane * h),
                              repeat=count, dst_stride=pitch // unit, dst_half=1 if halves > 1 else 0, src_stride=1,
                              dst_rep=16 // unit, src_rep=16))
    items = nest([*[(lp.var, lp.extent) for lp in outer], (rep, ceildiv(total, chunk))], body)
    return piece(em, "V", items, dst.name, src.name)


@dataclass(frozen=True, slots=True)
class Run:
    """The pixels of part `chunk` of `x`, as many as an instruction's repeats take."""

    x: Expr
    chunk: Expr

    @property
    def first(self) -> Expr:
        return self.chunk * (MAX_REPEAT * WIDE)

    def repeats(self, half: int) -> Expr:
        """Return blocks of 32 pixels that have some in their lower (0) or upper (1) half: what is not there is not read."""
        return minimum(MAX_REPEAT, ceildiv(maximum(self.x - half * ROWS, 0), WIDE) - self.chunk * MAX_REPEAT)


def quarters(em: Emitter, dst: Place, src: Place, run: Run, pitch: Expr, pixels_out: bool) -> list[Item]:
    """Return the transpositions of 32 channels of bytes at 32 pixels each. Each takes sixteen of both, which are half a block on either
    side. `dst`, `src`: a buffer and the element where the operand starts. `pitch`: of a row of pixels."""
    body: list[Item] = []
    for c, x in itertools.product(range(2), range(2)):
        pixels = run.first * WIDE + x * (ROWS * WIDE), Int(1), WIDE, c  # start, blocks between rows and repeats, half
        rows = run.first + pitch * (c * ROWS), pitch // WIDE, 1, x
        (to, dst_stride, dst_rep, dst_high), (at, src_stride, src_rep, src_high) = (pixels, rows) if pixels_out else (rows, pixels)
        body.append(instr("vnchwconv", dst=em.ref(dst[0], dst[1] + to), src=em.ref(src[0], src[1] + at), repeat=run.repeats(x),
                          dst_stride=dst_stride, dst_half=0, src_stride=src_stride, dst_rep=dst_rep, src_rep=src_rep,
                          dst_high=dst_high, src_high=src_high))
    return body


def _names_in(e: Expr, op: TileOp) -> list[str]:
    return [v for v in op.names if uses(e, frozenset((v,)))]
