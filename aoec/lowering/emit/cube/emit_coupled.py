"""Emission for cores that hold cube and vector both: results leave L0C through UB, and matrices in rows are loaded block by block.

These cores have no FIXPIPE. Pipe V moves whole fractals from L0C to UB, with cast and relu. It adds a bias in UB where the core has no bias
table. MTE3 then moves the tile to GM. MTE2 does not reorder. So a matrix in rows comes into L1 one 32-byte block at a time, with a burst
for each row and column fractal. Or it comes row by row into UB, and MTE3 moves it from there to L1.

A result tile in UB is ND, or NZ in fractals of 16 x 16 for every dtype. A column of fractals has as many rows as the tile, in whole
fractals.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.scaling import Scaled, match_scale
from aoec.ir.func.tir import Buffer
from aoec.ir.index import (
    Binary,
    Call,
    Cast,
    Expr,
    Float,
    Int,
    Read,
    Var,
    both,
    ceildiv,
    either,
    eq,
    is_zero,
    le,
    lt,
    minimum,
    normalise,
    reads,
    round_up,
    substitute,
)
from aoec.ir.program import For, Instr, Item, Ref, SetFlag
from aoec.lowering.emit.copy.emit_copy import bound_of, copy
from aoec.lowering.emit.cube.emit_cube import last, row_pitch
from aoec.lowering.emit.cube.emit_planes import Runs, channel_runs
from aoec.lowering.emit.emit_runs import BLOCKS, MAX_REPEAT, MAX_STRIDE, make, nest, one_of, run, when, words
from aoec.lowering.emit.tile import (
    BLOCK_BYTES,
    FRACTAL_ROWS,
    NONE,
    Emitter,
    Piece,
    TileOp,
    base_offset,
    c0,
    dtype_size,
    instr,
    largest,
    matrix_index,
    piece,
    pitches,
    size_bytes,
    split_index,
)
from aoec.target.isa.words import VectorOp

HEAD = 15  # cycles of a copy's head, which decides between two forms of one operation


@dataclass(frozen=True, slots=True)
class Result:
    """A tile of a result on its way out: what is read, the bias of its columns, relu, and its rows and columns."""

    source: Read
    bias: Read | None
    relu: int
    rows: Expr
    columns: Expr
    first: Expr = Int(0)  # column of the source
    gap: int = 0  # rows between one column of fractals of the source and the next

    @property
    def start(self) -> Expr:
        """Return the element of the source where a part of its columns of fractals begins."""
        return self.first * (round_up(self.rows, FRACTAL_ROWS) + self.gap)

    @property
    def plane(self) -> Expr:
        """Return the number of elements from one column of fractals to the next."""
        return (round_up(self.rows, FRACTAL_ROWS) + self.gap) * FRACTAL_ROWS

    @property
    def fractals(self) -> Expr:
        """Return the number of columns of fractals."""
        return ceildiv(self.columns, FRACTAL_ROWS)


def result(op: TileOp) -> Result:
    """Return the tile that a block moves: `cast(max(C[..] + bias[..], 0.0))`, each step optional."""
    relu, bias = 0, None
    if (guard := column_guard(op)) is not None:
        (column,) = split_index(op.block.target.indices[-1], op.names)[1]
        bound = bound_of(guard, next(lp for lp in op.loops if lp.var == column))
        read = guard.args[1]
        if isinstance(read, Binary) and read.op == "+" and isinstance(read.right, Read):
            bias, read = read.right, read.left
        if bound is None or not isinstance(read, Read):
            raise UnsupportedError(f"block {op.block.name}: of a result that is guarded the columns are bounded, and only a bias is added")
        r = tile_of(op, read, bias)
        return replace(r, columns=minimum(r.columns, bound))
    wide = match_scale(op.block.value)
    e = wide.sums if wide else op.block.value.value if isinstance(op.block.value, Cast) else op.block.value
    if isinstance(e, Call) and e.fn == "max" and (is_zero(e.args[1]) or e.args[1] == Int(0)):
        e, relu = e.args[0], 1
    if isinstance(e, Binary) and e.op == "+" and isinstance(e.right, Read):
        bias, e = e.right, e.left
    if not isinstance(e, Read):
        raise UnsupportedError(f"block {op.block.name}: results get a bias, relu and a cast on their way out, nothing else")
    return tile_of(op, e, bias, relu)


def column_guard(op: TileOp) -> Call | None:
    """Return the select by which a block gives a number behind the last column; None where it has none."""
    e = op.block.value
    return e if isinstance(e, Call) and e.fn == "select" else None


def row_loops(op: TileOp, tile: Read) -> list[str]:
    """Return the loops over the rows of a tile."""
    return [v for i in tile.indices[:-1] for v in split_index(i, op.names)[1]]


def tile_of(op: TileOp, tile: Read, bias: Read | None = None, relu: int = 0) -> Result:
    """Return a block's tile of a buffer, with what is done to it on its way."""
    first, columns = split_index(tile.indices[-1], op.names)
    return Result(tile, bias, relu, op.size(row_loops(op, tile)), op.size(columns), first)


# ---------------------------------------------------------------- L0C -> UB

def drain(em: Emitter, op: TileOp) -> Piece:
    """Return the copy of a tile's fractals from L0C, or of a part of its columns, with cast and relu."""
    r, dst = result(op), em.buffers[op.block.target.buffer]
    if dst.layout != "NZ" or r.bias is not None:
        raise UnsupportedError(f"block {op.block.name}: what leaves L0C is fractals, so {dst.name} needs layout NZ; a bias is added in UB")
    em.require_aligned(r.first, FRACTAL_ROWS, op, f"a part of {r.source.buffer}")
    gap = FRACTAL_ROWS // block_elements(dst) if dst.name in em.apart else 0
    item = instr("copy_l0c_ub", dst=em.ref(dst.name, Int(0)), src=em.ref(r.source.buffer, r.start), bursts=r.fractals,
                 length=ceildiv(r.rows, FRACTAL_ROWS), src_gap=0, dst_gap=gap, relu=r.relu)
    return piece(em, "V", [item], dst.name, r.source.buffer)


def given_back(em: Emitter, piece: Piece, buffer: str, flag: SetFlag) -> Piece:
    """Return the piece that is the last to use a buffer, with the flag that gives its slot back. The flag stands behind the piece. Where
    parts of a tile leave L0C in a loop, it stands in the last iteration, behind the instruction that takes the last part out. So the
    work on that part in UB does not delay the products.
    """
    if em.buffers[buffer].scope != "L0C" or len(piece.items) != 1 or not isinstance(loop := piece.items[0], For):
        return replace(piece, items=(*piece.items, flag))
    last = 1 + max(i for i, item in enumerate(loop.body) if uses_buffer(item, buffer))
    then = when(em, eq(Var(loop.var), loop.trips - 1), [flag])
    return replace(piece, items=(replace(loop, body=(*loop.body[:last], *then, *loop.body[last:])),))


def uses_buffer(item: Item, name: str) -> bool:
    """Return whether an instruction, or any in a loop, has an operand in the buffer."""
    if isinstance(item, For):
        return any(uses_buffer(i, name) for i in item.body)
    return isinstance(item, Instr) and any(isinstance(v, Ref) and v.buffer == name for _, v in item.fields)


# ---------------------------------------------------------------- in UB

def columns_apart(em: Emitter, ops: Sequence[TileOp]) -> None:
    """Note the buffers in fractals of fp32 that only become rows of fp32. Such a buffer gets one row more between its columns of
    fractals, so that blocks of eight columns lie in as many banks."""
    touched: dict[str, list[TileOp]] = {}
    for op in ops:
        for r in [op.block.target, *reads(op.block.value)]:
            touched.setdefault(r.buffer, []).append(op)
    for name, users in touched.items():
        b = em.buffers[name]
        if (b.scope, b.layout, b.dtype) == ("UB", "NZ", "fp32") and all(_drains(em, op, b) or _into_rows(em, op, b) for op in users):
            em.apart.add(name)
            em.behind[name] = round_up(b.shape[-1], FRACTAL_ROWS)


def _drains(em: Emitter, op: TileOp, b: Buffer) -> bool:
    """Return whether a block fills a buffer out of L0C."""
    return op.block.target.buffer == b.name and {em.buffers[r.buffer].scope for r in reads(op.block.value)} == {"L0C"}


def _into_rows(em: Emitter, op: TileOp, b: Buffer) -> bool:
    """Return whether a block makes rows of a buffer, of the same dtype."""
    dst = em.buffers[op.block.target.buffer]
    return op.block.instr == "epilogue" and (dst.layout, dst.dtype) == ("ND", b.dtype) and match_scale(op.block.value) is None


def epilogue(em: Emitter, op: TileOp) -> Piece:
    """Return the piece that adds the bias, casts and applies relu to a tile in fractals, with a result in fractals or rows. The bias is
    added in place. Relu is applied after the cast, to the smaller dtype."""
    r, dst = result(op), em.buffers[op.block.target.buffer]
    source = em.buffers[r.source.buffer]
    r = replace(r, gap=int(source.name in em.apart))
    if source.layout != "NZ":
        raise UnsupportedError(f"block {op.block.name}: {source.name} has come from L0C and lies in fractals, layout NZ")
    limit = MAX_REPEAT * 4
    em.require(le(largest(r.rows, op.above), limit), f"block {op.block.name}: a tile has at most {limit:,} rows, 255 repeats of four")
    if (wide := match_scale(op.block.value)) is not None:
        return piece(em, "V", _scale(em, op, r, wide), dst.name, *[x.buffer for x in reads(op.block.value)])
    if r.bias and r.relu and dst.layout == "NZ" and (source.dtype, dst.dtype) == ("fp32", "fp16") and em.machine.has("vaddreluconv"):
        return piece(em, "V", _with_bias_and_relu(em, op, r, dst), dst.name, *[x.buffer for x in reads(op.block.value)])
    if r.gap:
        items = [*_behind(em, op, r, dst), *_columns_to_rows(em, op, r, dst)]
        items += [run(em, relu_of(r.source, dst), (dst.name, Int(0)), [(dst.name, Int(0))], r.rows * pitches(dst)[-2])] * r.relu
        return piece(em, "V", items, dst.name, *[x.buffer for x in reads(op.block.value)])
    once = bool(r.bias) and dst.layout == "NZ" and source.dtype == dst.dtype  # goes there as it is added to
    items = _add_bias(em, op, r, dst.name if once else r.source.buffer) if r.bias else []
    items += _behind(em, op, r, dst)
    if once:
        touched = r.fractals * r.plane
    elif dst.layout == "NZ":
        moved = VectorOp("vcopy" if source.dtype == dst.dtype else "vconv", (r.source,))
        items.append(run(em, moved, (dst.name, Int(0)), [(source.name, r.start)], r.fractals * r.plane))
        touched = r.fractals * r.plane
    else:
        items += _to_rows(em, op, r, dst)
        touched = r.rows * pitches(dst)[-2]
    if r.relu:
        items.append(run(em, relu_of(r.source, dst), (dst.name, Int(0)), [(dst.name, Int(0))], touched))
    return piece(em, "V", items, dst.name, *[x.buffer for x in reads(op.block.value)])


def relu_of(source: Read, dst: Buffer) -> VectorOp:
    """Return relu in a buffer. vrelu does not take integers, so for them it is the maximum of each and 0."""
    return VectorOp("vmaxs", (source,), 0.0) if dst.dtype == "int32" else VectorOp("vrelu", (source,))


def _behind(em: Emitter, op: TileOp, r: Result, dst: Buffer) -> list[Item]:
    """Return the number behind the last column everywhere, where a tile is not as wide as its buffer; what a fractal has behind its own
    columns would stand there otherwise, so columns are whole fractals."""
    guard = column_guard(op)
    if guard is None:
        return []
    value = guard.args[2]
    assert isinstance(value, (Float, Int))
    fill = run(em, VectorOp("vdup", (), float(value.value)), (dst.name, Int(0)), [], normalise(size_bytes(dst) // dtype_size(dst)))
    wide = op.size(split_index(op.block.target.indices[-1], op.names)[1])
    return when(em, lt(r.columns, wide), [fill])


def _add_bias(em: Emitter, op: TileOp, r: Result, to: str) -> list[Item]:
    """Return the addition of the bias to every row, in place or to the start of another buffer. A repeat takes eight rows, and an
    instruction half of a fractal's columns."""
    assert r.bias is not None
    return _by_column(em, op, r, "vadd", r.bias, to)


def _by_column(em: Emitter, op: TileOp, r: Result, word: str, numbers: Read, to: str) -> list[Item]:
    """Return an instruction on every row and the numbers of its columns, as `_add_bias` has it."""
    j, half, unit = em.fresh("n1"), em.fresh("half"), block_elements(em.buffers[r.source.buffer])
    first = _first_of_bias(em, op, numbers)
    here = em.ref(r.source.buffer, r.start + Var(j) * r.plane + Var(half) * unit)
    at = em.ref(numbers.buffer, first + Var(j) * FRACTAL_ROWS + Var(half) * unit)
    step = FRACTAL_ROWS // unit
    there = here if to == r.source.buffer else em.ref(to, Var(j) * r.plane + Var(half) * unit)
    add = instr(word, dst=there, src0=here, src1=at, lanes=BLOCKS * unit, repeat=ceildiv(r.rows, BLOCKS), dst_blk=step, src0_blk=step,
                src1_blk=0, dst_rep=step * BLOCKS, src0_rep=step * BLOCKS, src1_rep=0)
    return nest([(j, r.fractals), (half, Int(step))], [add])


def _scale(em: Emitter, op: TileOp, r: Result, wide: Scaled) -> list[Item]:
    """Return the piece that scales sums to int8, in a plane of 32 channels with a block for each row. Sums are cast to reals in
    fractals, and these to rows in fp16, which holds all whole numbers of a byte. The cast to int8 limits larger values."""
    target, source = em.buffers[op.block.target.buffer], em.buffers[r.source.buffer]
    em.require(eq(r.columns, c0(target)), f"block {op.block.name}: a part is a plane of {c0(target)} channels")
    all_, whole = normalise(size_bytes(source) // dtype_size(source)), r.fractals * r.plane
    real, rows = em.add_scratch("fp32", all_), em.add_scratch("fp16", Int(c0(target)), rows=normalise(all_ // c0(target)))
    scaled = replace(r, source=Read(real, (Int(0),)), first=Int(0))

    def each(word: VectorOp, to: str, at: str, elements: Expr) -> Item:
        return run(em, word, (to, Int(0)), [(at, Int(0))], elements)
    items = _add_bias(em, op, r, source.name) if r.bias else []
    items.append(run(em, VectorOp("vconv", (r.source,)), (real, Int(0)), [(source.name, r.start)], whole))
    items += [each(VectorOp("vrelu", (scaled.source,)), real, real, whole)] if r.relu else []
    items += _by_column(em, op, scaled, "vmul", wide.scale, real)
    if em.machine.has("vrint"):
        items.append(each(VectorOp("vrint", (scaled.source,)), real, real, whole))
    else:  # the sum with the number has whole numbers alone; what is larger than a quarter of it int8 limits as it is
        items += [each(VectorOp("vadds", (scaled.source,), sign * 1.5 * 2**23), real, real, whole) for sign in (1, -1)]
    items += _to_rows(em, op, scaled, em.buffers[rows])
    count = r.rows * c0(target)
    items += [each(VectorOp("vadds", (scaled.source,), wide.zero), rows, rows, count)] if wide.zero else []
    return [*items, each(VectorOp("vconv", (scaled.source,)), target.name, rows, count)]


def _first_of_bias(em: Emitter, op: TileOp, bias: Read) -> Expr:
    """Return the element of the bias with which a tile's columns begin."""
    single = {lp.var: Int(0) for lp in op.loops if lp.extent == Int(1)}  # one block of groups a tile: its channels start further on
    first = split_index(normalise(substitute(bias.indices[-1], single)), op.names)[0]
    em.require_aligned(first, FRACTAL_ROWS, op, f"a tile of {bias.buffer}")
    return first


def _with_bias_and_relu(em: Emitter, op: TileOp, r: Result, dst: Buffer) -> list[Item]:
    """Return bias, relu and cast into fractals, by one instruction for each column of fractals, four rows a repeat. The bias is laid out
    before for eight rows of each column, because a source that is read four rows at a time has no other stride."""
    assert r.bias is not None
    bias, first, j, half = em.buffers[r.bias.buffer], _first_of_bias(em, op, r.bias), em.fresh("n1"), em.fresh("half")
    unit, rows = block_elements(bias), BLOCKS // 2
    laid, wide = em.add_scratch(bias.dtype, round_up(dst.shape[-1], FRACTAL_ROWS) * BLOCKS), FRACTAL_ROWS * BLOCKS
    lay = instr("vcopy", dst=em.ref(laid, Var(half) * unit), src=em.ref(bias.name, first + Var(half) * unit), lanes=BLOCKS * unit,
                repeat=r.fractals, dst_blk=2, src_blk=0, dst_rep=wide // unit, src_rep=2)
    add = instr("vaddreluconv", dst=em.ref(dst.name, Var(j) * r.plane), src0=em.ref(r.source.buffer, r.start + Var(j) * r.plane),
                src1=em.ref(laid, Var(j) * wide), lanes=BLOCKS * unit, repeat=ceildiv(r.rows, rows), dst_blk=1, src0_blk=1, src1_blk=1,
                dst_rep=rows, src0_rep=BLOCKS, src1_rep=0)
    return [*nest([(half, Int(2))], [lay]), *nest([(j, r.fractals)], [add])]


def block_elements(b: Buffer) -> int:
    """Return the number of elements of a block."""
    return 32 // dtype_size(b)


def _columns_to_rows(em: Emitter, op: TileOp, r: Result, dst: Buffer) -> list[Item]:
    """Return the instructions that move columns of fractals into rows, with their bias.

    Where that takes less time, a repeat takes a block from each of eight columns of fractals for one row, and an instruction takes all
    rows. The last eight columns may overlap those before: doing some again changes nothing. Elsewhere it is `_to_rows`, after the bias."""
    unit, most, columns = block_elements(dst), largest(r.rows, op.above), largest(r.columns, op.above)
    apart, pitch, step = (round_up(most, FRACTAL_ROWS) + r.gap) * (FRACTAL_ROWS // unit), pitches(dst)[-2] // unit, FRACTAL_ROWS // unit
    eights, wide = ceildiv(columns, BLOCKS * FRACTAL_ROWS), BLOCKS * FRACTAL_ROWS
    less = le(eights * (HEAD + most) + 1, ceildiv(columns, FRACTAL_ROWS) * (HEAD + ceildiv(most, BLOCKS)))
    fits = both(both(le(apart, MAX_STRIDE), le(pitch, MAX_STRIDE)), both(le(most, MAX_REPEAT), less))
    g, half = em.fresh("n8"), em.fresh("half")
    count = ceildiv(r.columns - Var(half) * unit, FRACTAL_ROWS)  # columns of fractals of which this half holds something
    first = minimum(Var(g) * BLOCKS, count - BLOCKS)
    at = first * FRACTAL_ROWS + Var(half) * unit
    operands: dict[str, Expr | Ref] = {"dst": em.ref(dst.name, at)}
    here = em.ref(r.source.buffer, r.start + first * r.plane + Var(half) * unit)
    if r.bias:
        operands |= {"src0": here, "src1": em.ref(r.bias.buffer, _first_of_bias(em, op, r.bias) + at)}
    else:
        operands["src"] = here
    blk, rep = {"dst": Int(step), "src1": Int(step)}, {"dst": pitch, "src1": Int(0)}
    strides = {f"{n}_blk": blk.get(n, r.plane // unit) for n in operands} | {f"{n}_rep": rep.get(n, Int(step)) for n in operands}
    item = make(VectorOp("vadd" if r.bias else "vcopy", ()), operands, Int(BLOCKS * unit), r.rows, strides)
    together = nest([(half, Int(step)), (g, ceildiv(count, BLOCKS))], [item])
    chosen = normalise(both(fits, le(wide - unit + 1, r.columns)))
    bias = _add_bias(em, op, r, r.source.buffer) if r.bias else []
    return one_of(em, chosen, together, [*bias, *_to_rows(em, op, r, dst, both(fits, le(wide - unit + 1, last(r.columns, op.above))))])


def _to_rows(em: Emitter, op: TileOp, r: Result, dst: Buffer, otherwise: Expr = NONE) -> list[Item]:
    """Return the instructions that move columns of fractals into rows. A repeat takes blocks of as many rows as it covers; fp32 goes in
    two halves of a fractal's columns. `otherwise`: the condition under which another form is used, so that limits of this one need not
    hold."""
    source, pitch = em.buffers[r.source.buffer], pitches(dst)[-2]
    unit, halves = block_elements(dst), FRACTAL_ROWS // block_elements(dst)
    each = 4 if halves == 1 else BLOCKS  # rows a repeat: 64 elements that are cast, or eight blocks that are copied
    rep = each * pitch // unit
    fits = either(otherwise, le(rep, MAX_STRIDE))
    em.require(fits, f"block {op.block.name}: rows of {dst.name} are at most {MAX_STRIDE * unit // each} elements")
    j, half = em.fresh("n1"), em.fresh("half")
    repeat = ceildiv(r.rows, each)
    width = unit if halves > 1 else FRACTAL_ROWS  # elements of a row that a repeat takes
    item = instr("vcopy" if source.dtype == dst.dtype else "vconv", dst=em.ref(dst.name, Var(j) * FRACTAL_ROWS + Var(half) * unit),
                 src=em.ref(source.name, r.start + Var(j) * r.plane + Var(half) * unit), lanes=(r.rows - (repeat - 1) * each) * width,
                 repeat=repeat, dst_blk=pitch // unit, src_blk=halves, dst_rep=rep, src_rep=each * FRACTAL_ROWS // block_elements(source))
    parts = Int(halves) if halves == 1 else minimum(halves, ceildiv(r.columns, unit) - Var(j) * halves)  # the last half may hold nothing
    return nest([(j, r.fractals), (half, normalise(parts))], [item])


def load_bias(em: Emitter, op: TileOp, src: Read) -> Piece:
    """Return the load of a part of the bias into UB, up to whole fractals: in GM the bias is padded to them."""
    source, dst = em.buffers[src.buffer], em.buffers[op.block.target.buffer]
    offset, loops = split_index(src.indices[-1], op.names)
    em.require_aligned(offset, FRACTAL_ROWS, op, f"a tile of {source.name}")
    wide = round_up(op.size(loops), FRACTAL_ROWS)
    item = instr("copy_gm_ub", dst=em.ref(dst.name, Int(0)), src=em.ref(source.name, base_offset(source, src.indices, op.names)), bursts=1,
                 length=wide * dtype_size(source), src_gap=0, dst_gap=0)
    return piece(em, "MTE2", [item], dst.name)


def emit_padded_rows(em: Emitter, op: TileOp) -> Piece:
    """Emit a vector operation on a tile of rows with what pads them.
    All operands have the same layout, so it is one run, however wide the tile is."""
    target, value = op.block.target, op.block.value
    dst, operands = em.buffers[target.buffer], reads(value)
    *lead, row, column = [split_index(i, op.names) for i in target.indices]
    if dst.layout != "ND" or any(normalise(at) != Int(0) for at, _ in (*lead, row, column)) or any(op.size(v) != Int(1) for _, v in lead):
        raise UnsupportedError(f"block {op.block.name}: a tile of rows is worked on whole; give a part a buffer of its own")
    for r in operands if any(c0(em.buffers[r.buffer]) != c0(dst) for r in operands) else ():
        em.require(eq(dst.shape[-1] % max(c0(dst), c0(em.buffers[r.buffer])), 0),
                   f"block {op.block.name}: rows of {dst.name} and {r.buffer} are padded alike where they are whole blocks of both")
    em.along.update((dst.name, r.buffer) for r in operands if em.buffers[r.buffer].dtype == dst.dtype)
    items = [run(em, work, (dst.name, Int(0)), [(r.buffer, Int(0)) for r in work.sources], op.size(row[1]) * pitches(dst)[-2])
             for work in words(em, op, any(em.buffers[r.buffer].dtype != dst.dtype for r in operands))]
    return piece(em, "V", items, dst.name, *dict.fromkeys(r.buffer for r in operands))


# ---------------------------------------------------------------- UB -> GM

def store(em: Emitter, op: TileOp) -> list[Piece]:
    """Return the copy of a tile from UB to its place in GM: rows as a box, fractals into planes of channels (NC1HWC0 or NZ)."""
    r = result(op)
    source, out = em.buffers[r.source.buffer], em.buffers[op.block.target.buffer]
    if source.layout == "ND" and out.dtype == "int8" and len(out.shape) == 5:
        return [_store_plane(em, op, r, out)]
    if source.layout == "ND":
        return copy(em, op, r.source)
    runs = channel_runs(em, op, op.block.target, row_loops(op, r.source))
    return [piece(em, "MTE3", runs.around(*_planes(em, r, "copy_ub_gm", out, runs)), out.name, source.name)]


def _store_plane(em: Emitter, op: TileOp, r: Result, out: Buffer) -> Piece:
    """Return the copy of a plane of int8 channels, with a block for each row in UB and in GM."""
    runs = channel_runs(em, op, op.block.target, row_loops(op, r.source))
    item = _burst(em, "copy_ub_gm", (r.source.buffer, runs.first * c0(out), Int(0)), (out.name, runs.start, Int(0)), Int(1),
                  runs.rows * BLOCK_BYTES)
    return piece(em, "MTE3", runs.around(item), out.name, r.source.buffer)


def bring(em: Emitter, op: TileOp, src: Read) -> Piece:
    """Return the copy of a tile in planes of channels (NC1HWC0 or NZ) from GM into fractals in UB: the reverse of `store`."""
    target = op.block.target
    runs = channel_runs(em, op, src, row_loops(op, target))
    return piece(em, "MTE2", runs.around(*_planes(em, tile_of(op, target), "copy_gm_ub", em.buffers[src.buffer], runs)), target.buffer)


def _planes(em: Emitter, r: Result, word: str, stored: Buffer, runs: Runs) -> list[Item]:
    """Return a run of rows between UB and all its planes, `word` says which way. With C0 of 16 a row of a fractal is one block; with 8 it
    is two, for two planes."""
    unit = c0(stored)
    if unit == FRACTAL_ROWS:
        ub, ub_gap = r.start + runs.first * unit, r.plane // unit - runs.rows
        gap = (runs.plane - runs.rows * unit) * dtype_size(stored)
        return [_burst(em, word, (r.source.buffer, ub, ub_gap), (stored.name, runs.start, gap), r.fractals, runs.rows * 32)]
    j = em.fresh("plane")
    at = r.start + Var(j) // 2 * r.plane + runs.first * FRACTAL_ROWS + Var(j) % 2 * unit
    item = _burst(em, word, (r.source.buffer, at, Int(1)), (stored.name, runs.start + Var(j) * runs.plane, Int(0)), runs.rows, Int(32))
    return nest([(j, ceildiv(r.columns, unit))], [item])


def _burst(em: Emitter, word: str, ub: tuple[str, Expr, Expr], gm: tuple[str, Expr, Expr], bursts: Expr, length: Expr) -> Item:
    """Return a copy between UB and GM. Each side gives its buffer, element and gap."""
    src, dst = (ub, gm) if word == "copy_ub_gm" else (gm, ub)
    return instr(word, dst=em.ref(dst[0], dst[1]), src=em.ref(src[0], src[1]), bursts=bursts, length=length, src_gap=src[2], dst_gap=dst[2])


# ---------------------------------------------------------------- rows -> fractals in L1

def load_blocks(em: Emitter, op: TileOp, src: Read) -> Piece:
    """Return the copy of rows in GM to fractals in L1, with a burst of one block for each row of a column. Rows must be whole blocks
    long."""
    source, dst = em.buffers[src.buffer], em.buffers[op.block.target.buffer]
    _, rows, column, columns = matrix_index(op, src)
    unit, pitch = block_elements(source), pitches(source)[-2]
    em.require(eq(pitch % unit, 0), f"block {op.block.name}: rows of {source.name} are no whole blocks of {unit} elements; go through UB")
    em.require_aligned(column, unit, op, f"a tile of {source.name} along its rows")
    j = em.fresh("block")
    start = base_offset(source, src.indices, op.names) + Var(j) * unit
    item = instr("copy_gm_l1", dst=em.ref(dst.name, Var(j) * row_pitch(dst) * unit), src=em.ref(source.name, start), bursts=rows, length=1,
                 src_gap=pitch // unit - 1, dst_gap=0)
    return piece(em, "MTE2", nest([(j, ceildiv(columns, unit))], [item]), dst.name)


def fractals_from_rows(em: Emitter, op: TileOp, src: Read) -> Piece:
    """Return the copy of rows in UB to fractals in L1, with a burst of one block for each row of a column."""
    source, dst = em.buffers[src.buffer], em.buffers[op.block.target.buffer]
    row, rows, column, columns = matrix_index(op, src)
    unit, pitch = block_elements(source), pitches(source)[-2]
    if normalise(row) != Int(0) or normalise(column) != Int(0) or dst.layout != "NZ":
        raise UnsupportedError(f"block {op.block.name}: a tile goes whole from UB to L1, into layout NZ")
    j = em.fresh("block")
    item = instr("copy_ub_l1", dst=em.ref(dst.name, Var(j) * row_pitch(dst) * unit), src=em.ref(source.name, Var(j) * unit), bursts=rows,
                 length=1, src_gap=pitch // unit - 1, dst_gap=0)
    return piece(em, "MTE3", nest([(j, ceildiv(columns, unit))], [item]), dst.name, source.name)


def pieces(em: Emitter, op: TileOp, scopes: set[str], to: str, biases: frozenset[str]) -> list[Piece] | None:
    """Return the pieces of a tile operation that only these cores have; None for any other. `biases`: buffers that epilogues add."""
    source = next(iter(reads(op.block.value)), None)
    if scopes == {"L0C"} and to == "UB":
        return [drain(em, op)]
    if op.block.instr == "epilogue":
        return [epilogue(em, op)]
    if op.block.instr == "store":
        return store(em, op)
    if op.block.instr == "padded":
        return [emit_padded_rows(em, op)]
    if source is None:
        return None
    if scopes == {"UB"} and to == "L1":
        return [fractals_from_rows(em, op, source)]
    dst, rows = em.buffers[op.block.target.buffer], em.buffers[source.buffer].layout == "ND"
    if scopes == {"GM"} and to == "L1" and dst.layout == "NZ" and rows and not em.machine.has("copy_gm_l1_nd2nz"):
        return [load_blocks(em, op, source)]
    if scopes == {"GM"} and to == "UB" and dst.layout == "NZ":
        return [bring(em, op, source)]
    if scopes == {"GM"} and op.block.target.buffer in biases:
        return [load_bias(em, op, source)]
    return None
