"""Emission of cube tile operations: loads into L1 and L0, img2col, mmad."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import COLUMNS, Buffer, Loop
from aoec.ir.index import (
    Binary,
    Call,
    Expr,
    Float,
    Int,
    Read,
    Var,
    affine,
    both,
    ceildiv,
    either,
    eq,
    le,
    normalise,
    round_up,
    substitute,
    variables,
    walk,
)
from aoec.ir.program import For, Instr, Item
from aoec.lowering.emit.cube.emit_planes import fractal_lead, replace_expr
from aoec.lowering.emit.tile import (
    FRACTAL_ROWS,
    Emitter,
    Piece,
    TileOp,
    base_offset,
    c0,
    column_rows,
    dtype_size,
    instr,
    largest,
    matrix_index,
    piece,
    pitches,
    product,
    split_index,
    uses,
)

MOST_STRIDE = 65535  # of a copy into L1: elements from a row to the next, blocks from a burst to the next

# ---------------------------------------------------------------- GM -> L1

def load_l1(em: Emitter, op: TileOp, src: Read) -> Piece:
    """Return the copy of a region of a GM tensor into L1, by the layouts of both sides."""
    dst = em.buffers[op.block.target.buffer]
    source = em.buffers[src.buffer]
    if dst.layout == "NZ" and source.layout == "ND":
        items: list[Item] = _nd2nz(em, op, src)
    elif dst.layout == "NZ" and source.layout in COLUMNS:
        items = _fractal_columns(em, op, src)
    elif dst.layout == "ZN" and source.layout == "ZN":
        items = _fractal_rows(em, op, src)
    elif dst.layout == "ND" and source.layout == "ND":
        items = _image(em, op, src) if len(source.shape) == 5 else [_vector_l1(em, op, src)]
    else:
        raise UnsupportedError(f"block {op.block.name}: no copy from {source.layout} in GM to {dst.layout} in L1")
    return piece(em, "MTE2", items, dst.name, source.name)


def _nd2nz(em: Emitter, op: TileOp, src: Read) -> list[Item]:
    """Return the copy of rows of a matrix to fractals, all rows at once. Where the distance between rows does not fit the field, each
    row is a copy of its own."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    _, rows, _, cols = matrix_index(op, src)
    start, pitch = base_offset(source, src.indices, op.names), pitches(source)[-2]
    if not _fits_stride(pitch):
        var = em.fresh("row")
        return [For(var, normalise(rows), (instr(
            "copy_gm_l1_nd2nz", dst=em.ref(dst.name, Var(var) * c0(dst)), src=em.ref(source.name, start + Var(var) * pitch), rows=1,
            cols=cols, src_stride=1, dst_rows=row_pitch(dst)),))]
    return [instr("copy_gm_l1_nd2nz", dst=em.ref(dst.name, Int(0)), src=em.ref(source.name, start), rows=rows, cols=cols,
                  src_stride=pitch, dst_rows=row_pitch(dst))]


def _fits_stride(pitch: Expr) -> bool:
    """Return whether a copy's field can hold the distance from a row, or a burst, to the next. Where it cannot, each is a copy of its own.
    A pitch that depends on tiles is no longer than a tile."""
    known = normalise(pitch)
    return not isinstance(known, Int) or known.value <= MOST_STRIDE


def _burst_by_burst(em: Emitter, dst: Buffer, source: Buffer, start: Expr, count: Expr, length: Expr, steps: tuple[Expr, Expr]) -> Item:
    """Return bursts that are copies of their own. `steps`: elements of GM and of L1 from one to the next."""
    var = em.fresh("burst")
    return For(var, normalise(count), (instr(
        "copy_gm_l1", dst=em.ref(dst.name, Var(var) * steps[1]), src=em.ref(source.name, start + Var(var) * steps[0]), bursts=1,
        length=length, src_gap=0, dst_gap=0),))


def row_pitch(b: Buffer) -> Expr:
    """Return the rows of an NZ buffer, in whole fractals."""
    return round_up(product(list(b.shape[:-1])), FRACTAL_ROWS)


def _fractal_rows(em: Emitter, op: TileOp, src: Read) -> list[Item]:
    """Return the copy of whole fractals of a ZN matrix, with one burst for each row of fractals."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    k_off, k, n_off, n = matrix_index(op, src)
    em.require_aligned(k_off, c0(source), op, f"a tile of {source.name} along k")
    em.require_aligned(n_off, FRACTAL_ROWS, op, f"a tile of {source.name} along n")
    columns, tile_columns, local_columns = (ceildiv(e, FRACTAL_ROWS) for e in (source.shape[-1], n, dst.shape[-1]))
    lead = fractal_lead(source, src.indices, {v: Int(0) for v in op.names})
    offset = lead + k_off * columns * FRACTAL_ROWS + n_off * c0(source)  # both whole fractals, which the plain form lets reuse see through
    if not _fits_stride(columns * FRACTAL_ROWS):
        fractals = c0(source) * FRACTAL_ROWS
        return [_burst_by_burst(em, dst, source, offset, ceildiv(k, c0(source)), tile_columns * FRACTAL_ROWS,
                                (columns * fractals, local_columns * fractals))]
    return [instr("copy_gm_l1", dst=em.ref(dst.name, Int(0)), src=em.ref(source.name, offset), bursts=ceildiv(k, c0(source)),
                  length=tile_columns * FRACTAL_ROWS, src_gap=(columns - tile_columns) * FRACTAL_ROWS,
                  dst_gap=(local_columns - tile_columns) * FRACTAL_ROWS)]


def _fractal_columns(em: Emitter, op: TileOp, src: Read) -> list[Item]:
    """Return the copy of a box of a matrix in columns of C0: one burst for each column of fractals, with a block for each row."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    row, rows, column, columns = matrix_index(op, src)
    unit, pitch = c0(source), column_rows(source)
    em.require_aligned(column, unit, op, f"a tile of {source.name} along its columns")
    lead = fractal_lead(source, src.indices, {v: Int(0) for v in op.names})
    start = lead + column * pitch + row * unit
    if not _fits_stride(pitch):
        return [_burst_by_burst(em, dst, source, start, ceildiv(columns, unit), rows, (pitch * unit, row_pitch(dst) * unit))]
    return [instr("copy_gm_l1", dst=em.ref(dst.name, Int(0)), src=em.ref(source.name, start),
                  bursts=ceildiv(columns, unit), length=rows, src_gap=pitch - rows, dst_gap=row_pitch(dst) - rows)]


def _image(em: Emitter, op: TileOp, src: Read) -> list[Item]:
    """Return the copy of a box of an image, dense in L1: a burst for each row, in a loop over C1."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    c1, h, w = (op.size(split_index(i, op.names)[1]) for i in src.indices[1:4])
    p = pitches(source)
    var = em.fresh("c1")
    start = base_offset(source, src.indices, op.names) + Var(var) * p[1]
    unit = c0(source)
    burst = w * source.shape[-1]  # elements; C0 of them are one block
    alone = normalise(source.shape[2]) == Int(1)  # a burst of its own leaves no gap, and a long row's would be beyond its field
    if normalise(source.shape[-1]) != Int(unit):
        _whole_rows(em, op, src, w)
    if not alone and not _fits_stride(source.shape[3] * source.shape[-1] // unit):
        row = em.fresh("row")
        return [For(var, normalise(c1), (For(row, normalise(h), (instr(
            "copy_gm_l1", dst=em.ref(dst.name, (Var(var) * h + Var(row)) * burst), src=em.ref(source.name, start + Var(row) * p[2]),
            bursts=1, length=burst // unit, src_gap=0, dst_gap=0),)),))]
    return [For(var, normalise(c1), (instr(
        "copy_gm_l1", dst=em.ref(dst.name, Var(var) * (h * burst)), src=em.ref(source.name, start), bursts=h,
        length=burst // unit, src_gap=0 if alone else (source.shape[3] - w) * source.shape[-1] // unit, dst_gap=0),))]


def _whole_rows(em: Emitter, op: TileOp, src: Read, w: Expr) -> None:
    """Require that the rows of a box of narrow pixels are whole blocks in GM and in L1, so that they follow each other without a gap.
    Raise UnsupportedError where a tile of the width may begin in the padding."""
    source = em.buffers[src.buffer]
    unit = c0(source)
    start = split_index(src.indices[3], op.names)[0]
    if any(isinstance(e, Call) and e.fn == "max" for e in walk(normalise(start))):
        raise UnsupportedError(f"block {op.block.name}: a tile of the width of {source.name} begins in its padding; pixels of less than "
                               "a block are moved in whole rows, so leave the width untiled")
    for width in (source.shape[3], largest(w, op.above), last(w, op.above)):
        em.require(eq(width * source.shape[-1] % unit, 0), f"rows of a tile of {source.name} are whole blocks")


def _vector_l1(em: Emitter, op: TileOp, src: Read) -> Instr:
    """Return the copy of a run of a vector (bias) in whole blocks. Vectors in GM are padded to 16 elements."""
    source = em.buffers[src.buffer]
    offset, loops = split_index(src.indices[-1], op.names)
    em.require_aligned(offset, c0(source), op, f"a tile of {source.name}")
    start = em.ref(source.name, base_offset(source, src.indices, op.names))
    return instr("copy_gm_l1", dst=em.ref(op.block.target.buffer, Int(0)), src=start, bursts=1,
                 length=ceildiv(op.size(loops) * dtype_size(source), 32), src_gap=0, dst_gap=0)


# ---------------------------------------------------------------- L1 -> L0, BT

TABLES = {"BT": ("load_bt", "MTE1"), "FB": ("load_fb", "FIXP")}  # scope -> the word that loads it, its pipe
TABLE_UNITS = {"BT": 1, "FB": 4}  # blocks that a load is a whole number of


def load_l0(em: Emitter, op: TileOp, src: Read) -> Piece:
    """Return the copy of a tile from L1 into L0A, L0B or the tables of biases and scales."""
    dst = em.buffers[op.block.target.buffer]
    if dst.scope in TABLES:
        word, pipe = TABLES[dst.scope]
        offset, loops = split_index(src.indices[-1], op.names)
        unit = TABLE_UNITS[dst.scope]
        length = ceildiv(op.size(loops) * dtype_size(dst), 32 * unit) * unit
        load = instr(word, dst=em.ref(dst.name, Int(0)), src=em.ref(src.buffer, offset), length=length)
        return piece(em, pipe, [load], dst.name, src.buffer)
    items: list[Item]
    if dst.scope == "L0A":
        items = [_load_l0a(em, op, src)]
    elif dst.scope == "L0B":
        items = [_load_l0b(em, op, src)]
    else:
        raise UnsupportedError(f"block {op.block.name}: no path from L1 to {dst.scope}")
    return piece(em, "MTE1", items, dst.name, src.buffer)


def _load_l0a(em: Emitter, op: TileOp, src: Read) -> Item:
    """Return the load of NZ in L1 as ZZ in L0A. A matrix held as [k, m] is transposed on the way (NN).

    NZ is an image of one row whose pixels are the matrix's rows, so one img2col with a 1x1 filter loads the tile. The instruction
    load_l0a would be needed once for every 16 rows. So many would soon fill the queue of MTE1 and stall the scalar unit before the next
    load from GM.
    """
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    if source.layout != "NZ":
        raise UnsupportedError(f"block {op.block.name}: L0A loads from NZ in L1, not {source.layout}")
    if dst.layout == "NN":
        return _load_transposed(em, op, src)
    m_off, m, k_off, k = matrix_index(op, src)
    em.require_aligned(m_off, FRACTAL_ROWS, op, f"a tile of {source.name} along m")
    em.require_aligned(k_off, c0(source), op, f"a tile of {source.name} along k")
    return instr(
        "load3d", dst=em.ref(dst.name, Int(0)), src=em.ref(source.name, Int(0)), h=Int(1), w=row_pitch(source),
        channels=round_up(source.shape[-1], c0(source)), k_start=k_off, k_size=k, m_start=m_off, m_size=m,
        **dict.fromkeys(("stride_h", "stride_w", "filter_h", "filter_w", "dilation_h", "dilation_w"), Int(1)),
        **dict.fromkeys(("pad_top", "pad_bottom", "pad_left", "pad_right"), Int(0)))


def _load_transposed(em: Emitter, op: TileOp, src: Read) -> Item:
    """Load NZ of [k, m] in L1 as ZZ of [m, k] in L0A. Every fractal is transposed, with one instruction for each column of them."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    if dtype_size(source) != 2:
        raise UnsupportedError(f"block {op.block.name}: {source.name} is stored transposed, and loads into L0A turn 16-bit elements only; "
                               "transpose it first, or use a 16-bit type")
    k_off, k, m_off, m = matrix_index(op, src)
    for offset, axis in ((k_off, "k"), (m_off, "m")):
        em.require_aligned(offset, FRACTAL_ROWS, op, f"a tile of {source.name} along {axis}")
    columns, pitch, i, fractal = ceildiv(k, FRACTAL_ROWS), row_pitch(source), em.fresh("m1"), FRACTAL_ROWS * FRACTAL_ROWS
    start = (m_off // FRACTAL_ROWS + Var(i)) * pitch * FRACTAL_ROWS + k_off // FRACTAL_ROWS * fractal
    return For(i, normalise(ceildiv(m, FRACTAL_ROWS)), (instr(
        "load_l0a", dst=em.ref(dst.name, Var(i) * (columns * fractal)), src=em.ref(source.name, start),
        repeat=columns, src_stride=1, dst_gap=0, transpose=1),))


def _load_l0b(em: Emitter, op: TileOp, src: Read) -> Item:
    """Return the load of ZN in L1 as ZN in L0B, one instruction for each row of fractals. NZ of [n, k] is the same bytes; NZ of [k, n]
    is transposed on the way."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    held = matrix_index(op, src)
    k_off, k, n_off, n = (*held[2:], *held[:2]) if dst.layout == "NZ" else held
    turn = dst.layout != "NZ" and source.layout == "NZ"
    if turn and dtype_size(source) != 2:
        raise UnsupportedError(f"block {op.block.name}: L0B loads from ZN in L1, or from NZ of a 16-bit type")
    em.require_aligned(k_off, FRACTAL_ROWS if turn else c0(source), op, f"a tile of {source.name} along k")
    em.require_aligned(n_off, FRACTAL_ROWS, op, f"a tile of {source.name} along n")
    columns, j, fractal = ceildiv(n, FRACTAL_ROWS), em.fresh("k1"), FRACTAL_ROWS * c0(dst)
    if turn:
        pitch = row_pitch(source)
        start, stride = n_off // FRACTAL_ROWS * pitch * FRACTAL_ROWS + (k_off // FRACTAL_ROWS + Var(j)) * fractal, pitch // FRACTAL_ROWS
    else:
        pitch = row_pitch(source) // FRACTAL_ROWS if source.layout == "NZ" else ceildiv(source.shape[-1], FRACTAL_ROWS)
        start, stride = ((k_off // c0(dst) + Var(j)) * pitch + n_off // FRACTAL_ROWS) * fractal, Int(1)
    return For(j, normalise(ceildiv(k, c0(dst))), (instr(
        "load_l0b", dst=em.ref(dst.name, Var(j) * (columns * fractal)), src=em.ref(source.name, start),
        repeat=columns, src_stride=stride, dst_gap=0, transpose=int(turn)),))


# ---------------------------------------------------------------- img2col

@dataclass(frozen=True, slots=True)
class Window:
    """One spatial axis of a convolution as its index expression says it."""

    loops: list[str]  # the tensor loop over output positions
    stride: Expr
    filter: Expr
    dilation: Expr
    base: Expr  # index at output position 0, filter position 0


def window(e: Expr, op: TileOp, k_var: str) -> Window:
    """Return stride, filter and dilation of an index `o * stride + (k // c % filter) * dilation + base`."""
    e = normalise(e)
    taps = [n for n in walk(e) if isinstance(n, Binary) and n.op == "%" and uses(n, frozenset((k_var,)))]
    size: Expr = Int(1)
    dilation: Expr = Int(1)
    rest = e
    if taps:
        size = taps[0].right
        marked = normalise(replace_expr(e, taps[0], Var("tap ")))
        parts = affine(marked, frozenset(("tap ",)))
        if parts is None:
            raise UnsupportedError(f"block {op.block.name}: not an img2col index")
        dilation, rest = parts[0]["tap "], parts[1]
    parts = affine(rest, op.names)
    if parts is None or len(parts[0]) > 1 or uses(rest, frozenset((k_var,))):
        raise UnsupportedError(f"block {op.block.name}: not an img2col index")
    return Window(list(parts[0]), next(iter(parts[0].values()), Int(1)), size, dilation, parts[1])


def load3d(em: Emitter, op: TileOp, src: Read, home: frozenset[str], image: tuple[Expr, Expr, Expr]) -> Piece:
    """Return the img2col of a tile. `home`: loops above the L1 image. `image`: (C1, H, W) extents of the image in L1."""
    dst, source = em.buffers[op.block.target.buffer], em.buffers[src.buffer]
    c1, h, w = image
    unit = source.shape[-1]
    k_off, (k_var,) = split_index(op.block.target.indices[-1], op.names)
    if k_off != Int(0):
        raise UnsupportedError(f"block {op.block.name}: a tile in L0A starts at column 0")
    rows, cols = window(src.indices[2], op, k_var), window(src.indices[3], op, k_var)
    inside = {lp.var: Int(0) for lp in op.above if lp.var not in home}
    top, left = normalise(substitute(rows.base, inside)), normalise(substitute(cols.base, inside))
    height, width = (op.size(a.loops) for a in (rows, cols))
    within = normalise(cols.base - left)
    m_start = normalise((rows.base - top) // rows.stride) * width
    guarded = isinstance(op.block.value, Call) and op.block.value.fn == "select"
    reach = (cols.filter - 1) * cols.dilation + (width - 1) * cols.stride + 1
    pad_right = reach + left - w
    if within != Int(0):  # a run of pixels out of an image of one row
        if rows.filter != Int(1) or cols.filter != Int(1) or cols.stride != Int(1) or normalise(rows.base - top) != Int(0):
            raise UnsupportedError(f"block {op.block.name}: L1 holds several L0 tiles side by side only of a 1x1 filter over one row")
        em.require(le(largest(height, op.above), 1), "L0 tiles side by side in an L1 tile are runs of one row")
        m_start, pad_right = within, Int(0)
    require_row_start(em, op, m_start)
    item = instr(
        "load3d", dst=em.ref(dst.name, Int(0)), src=em.ref(source.name, Int(0)), h=h, w=w, channels=c1 * unit,
        k_start=k_start(src.indices[1], k_var, rows.filter * cols.filter * unit), k_size=op.extent(k_var),
        m_start=m_start, m_size=height * width, stride_h=rows.stride, stride_w=cols.stride, filter_h=rows.filter, filter_w=cols.filter,
        dilation_h=rows.dilation, dilation_w=cols.dilation, pad_top=Int(0) - top,
        pad_bottom=(rows.filter - 1) * rows.dilation if guarded else Int(0), pad_left=Int(0) - left, pad_right=pad_right,
        pad_value=int(op.block.value.args[2].value) if guarded else 0)  # type: ignore[attr-defined]
    return piece(em, "MTE1", [item], dst.name, source.name)


def require_row_start(em: Emitter, op: TileOp, m_start: Expr) -> None:
    """Require that load3d starts at a multiple of 16 output positions, for the first and the last width of a tile."""
    extents = {lp.var: lp for lp in op.above}
    parts = affine(m_start, frozenset(v for v in extents if uses(m_start, frozenset((v,)))) - _in_minimum(m_start))
    if parts is None:
        raise UnsupportedError(f"block {op.block.name}: the first output position is not affine in the loops")
    for var, step in parts[0].items():
        ends = [largest(step, op.above), last(step, op.above)]
        fits = both(eq(ends[0] % FRACTAL_ROWS, 0), eq(ends[1] % FRACTAL_ROWS, 0))
        em.require(either(fits, le(largest(extents[var].extent, op.above), 1)),
                   "rows of an L0 tile times its width must be a multiple of 16 when L1 holds several such tiles")


def _in_minimum(e: Expr) -> frozenset[str]:
    """Return the variables inside a min or max. They change a tile's extent, not its start."""
    inner = [n for n in walk(e) if isinstance(n, Call) and n.fn in ("min", "max")]
    return frozenset(v.name for n in inner for v in walk(n) if isinstance(v, Var))


def last(e: Expr, loops: tuple[Loop, ...]) -> Expr:
    """Return an extent at the last iteration of every loop above."""
    for lp in reversed(loops):
        e = substitute(e, {lp.var: lp.extent - 1})
    return normalise(e)


def k_start(index: Expr, k_var: str, per_channel: Expr) -> Expr:
    """Return the first column of the tile within the image in L1, from its channel index `(k_start + k) // per_channel + rest`."""
    index = normalise(index)
    quotient = [n for n in walk(index) if isinstance(n, Binary) and n.op == "//" and uses(n, frozenset((k_var,)))]
    if len(quotient) != 1 or normalise(quotient[0].right - per_channel) != Int(0):
        raise UnsupportedError("the channel index of an img2col load is not k // (filter * C0)")
    rest = normalise(replace_expr(index, quotient[0], Int(0)))
    return substitute(quotient[0].left, {k_var: Int(0)}) + rest * per_channel


# ---------------------------------------------------------------- mmad

def mmad(em: Emitter, op: TileOp, home: frozenset[str]) -> Piece:
    """Return C += A x B on one tile. `home`: loops above the accumulator's buffer. The first pass over the reduction starts the
    accumulator."""
    target = op.block.target
    a, b = [r for r in walk(op.block.value) if isinstance(r, Read)]
    if em.buffers[a.buffer].scope != "L0A":
        a, b = b, a
    offset, n_loops = split_index(target.indices[-1], op.names)
    m_loops = [v for i in target.indices[:-1] for v in split_index(i, op.names)[1]]
    k_loops = [v for v in op.names if v not in n_loops and v not in m_loops]
    if offset != Int(0) or any(split_index(i, op.names)[0] != Int(0) for i in target.indices[:-1]):
        raise UnsupportedError(f"block {op.block.name}: an accumulator tile starts at row and column 0 of its buffer")
    moving = frozenset().union(*[variables(i) for i in target.indices])
    first = product([eq(Var(lp.var), 0) for lp in op.above if lp.var not in home and lp.var not in moving])
    m, n, k = (op.size(vs) for vs in (m_loops, n_loops, k_loops))
    operands = dict(dst=em.ref(target.buffer, Int(0)), a=em.ref(a.buffer, Int(0)), b=em.ref(b.buffer, Int(0)))
    sizes: dict[str, Expr | int] = dict(m=m, n=n, k=k, init=first, unit=em.buffers[target.buffer].unit)
    bias = op.block.init
    if bias is None or bias == Float(0.0):
        return piece(em, "M", [instr("mmad", **operands, **sizes)], target.buffer, a.buffer, b.buffer)
    if not isinstance(bias, Read) or em.buffers[bias.buffer].scope != "BT":
        raise UnsupportedError(f"block {op.block.name}: mmad starts from zero or from a bias in BT")
    start = split_index(bias.indices[-1], op.names)[0]
    return piece(em, "M", [instr("mmad_bias", **operands, bias=em.ref(bias.buffer, start), **sizes)],
                 target.buffer, a.buffer, b.buffer, bias.buffer)
