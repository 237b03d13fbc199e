"""Emission of vector tile operations: copies between GM and UB, and one vector operation a block.

A vector operation becomes one of four forms, chosen by structure alone: *flat* (all operands are one contiguous run),
*strided* (32-byte blocks at a stride per operand, eight a repeat), *rows* (a run for each row, loops around), *transpose*.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.index import (
    Binary,
    Call,
    Cast,
    Expr,
    Float,
    Int,
    Read,
    Var,
    affine,
    call,
    ceildiv,
    either,
    eq,
    le,
    maximum,
    minimum,
    normalise,
    reads,
    round_up,
    substitute,
    walk,
)
from aoec.ir.program import For, Instr, Item, Ref
from aoec.ir.tir import Loop
from aoec.lowering.emit_cube import instr, piece
from aoec.lowering.tile import (
    Access,
    Emitter,
    Piece,
    TileOp,
    base_offset,
    c0,
    dtype_size,
    largest,
    loop_strides,
    pitches,
    product,
    size_bytes,
    uses,
)

REPEAT_BYTES = 256
BLOCKS = 8
MAX_REPEAT = 255
MAX_STRIDE = 255
MAX_BURSTS = 4095

BINARY = {"+": "vadd", "-": "vsub", "*": "vmul", "/": "vdiv"}
CALLS = {"max": "vmax", "min": "vmin"}
SCALARS = {"+": "vadds", "*": "vmuls", "max": "vmaxs", "min": "vmins"}
UNARY = {"exp": "vexp", "log": "vln", "sqrt": "vsqrt", "rsqrt": "vrsqrt", "reciprocal": "vrec", "abs": "vabs"}
REDUCERS = {"+=": ("vadd", "vcadd", 0.0), "max=": ("vmax", "vcmax", float("-inf")), "min=": ("vmin", "vcmin", float("inf"))}


@dataclass(frozen=True, slots=True)
class VectorOp:
    """One vector instruction in the making: its name, source reads, and a scalar operand where it has one."""

    name: str
    sources: tuple[Read, ...]
    scalar: float | None = None


def vector_op(e: Expr, cast: bool) -> VectorOp:
    """The instruction that computes `e`; `cast`: the target's dtype differs from the source's."""
    if isinstance(e, (Float, Int)):
        return VectorOp("vdup", (), float(e.value))
    if isinstance(e, Read):
        return VectorOp("vconv" if cast else "vcopy", (e,))
    if isinstance(e, Cast) and isinstance(e.value, Read):
        return VectorOp("vconv" if cast else "vcopy", (e.value,))
    if isinstance(e, Call) and e.fn in UNARY and isinstance(e.args[0], Read):
        return VectorOp(UNARY[e.fn], (e.args[0],))
    if isinstance(e, Binary):
        pair, fn = (e.left, e.right), e.op
    elif isinstance(e, Call) and len(e.args) == 2:
        pair, fn = (e.args[0], e.args[1]), e.fn
    else:
        raise UnsupportedError("not a single vector operation")
    if all(isinstance(x, Read) for x in pair) and fn in BINARY | CALLS:
        return VectorOp((BINARY | CALLS)[fn], pair)  # type: ignore[arg-type]
    read = [x for x in pair if isinstance(x, Read)]
    number = [float(x.value) for x in pair if isinstance(x, (Float, Int))]
    if read and number and fn in SCALARS:
        if fn == "max" and number[0] == 0.0:
            return VectorOp("vrelu", (read[0],))
        return VectorOp(SCALARS[fn], (read[0],), number[0])
    raise UnsupportedError("not a single vector operation")


# ---------------------------------------------------------------- instruction runs

def lanes_of(size: int) -> int:
    return REPEAT_BYTES // size


def run(em: Emitter, op: VectorOp, dst: tuple[str, Expr], srcs: list[tuple[str, Expr]], elements: Expr,
        broadcast: frozenset[str] = frozenset()) -> Item:
    """`elements` contiguous elements at the given offsets, at most 255 repeats an instruction.

    `broadcast` names sources that are a single block to be read again for every block.
    """
    wide = max(dtype_size(em.buffers[n]) for n, _ in [dst, *srcs])
    lanes = lanes_of(wide)
    v = em.fresh("rep")
    step = MAX_REPEAT * lanes
    total = ceildiv(elements, lanes)
    repeat = minimum(MAX_REPEAT, total - Var(v) * MAX_REPEAT)
    tail = minimum(lanes, elements - (Var(v) * MAX_REPEAT + repeat - 1) * lanes)
    fields: dict[str, Expr | Ref] = {}
    strides: dict[str, int] = {}
    names = operand_names(len(srcs))
    for name, (buffer, offset) in zip(names, [dst, *srcs]):
        fixed = buffer in broadcast and name != "dst"
        fields[name] = em.ref(buffer, offset if fixed else offset + Var(v) * step)
        strides[f"{name}_blk"] = 0 if fixed else 1
        strides[f"{name}_rep"] = 0 if fixed else lanes * dtype_size(em.buffers[buffer]) // 32
    return For(v, normalise(ceildiv(total, MAX_REPEAT)), (make(op, fields, tail, repeat, strides),))


def operand_names(sources: int) -> list[str]:
    return ["dst"] + (["src"] if sources == 1 else [f"src{i}" for i in range(sources)])


def make(op: VectorOp, operands: dict[str, Expr | Ref], lanes: Expr, repeat: Expr, strides: dict[str, Expr] | dict[str, int]) -> Instr:
    """The instruction with its fields in dictionary order: operands, scalar, lanes, repeat, block then repeat strides."""
    scalar = {"scalar": Float(op.scalar)} if op.scalar is not None else {}
    ordered = {k: strides[k] for kind in ("blk", "rep") for k in strides if k.endswith(kind)}
    return instr(op.name, **operands, **scalar, lanes=lanes, repeat=repeat, **ordered)


def nest(loops: list[tuple[str, Expr]], inner: list[Item]) -> list[Item]:
    """`inner` inside loops, outermost first."""
    for var, extent in reversed(loops):
        inner = [For(var, normalise(extent), tuple(inner))]
    return inner


# ---------------------------------------------------------------- vector blocks

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


def elementwise(em: Emitter, op: TileOp, work: VectorOp, accumulate: bool = False, skip: frozenset[str] = frozenset()) -> list[Item]:
    """All points of the tensor loops but `skip`; with `accumulate` the target is the first source too."""
    target = op.block.target
    operands = [target, *([target] if accumulate else []), *work.sources]
    loops = [lp for lp in op.loops if lp.var not in skip and lp.extent != Int(1)] or list(op.loops[-1:])
    if any(lp.var in skip for lp in loops):
        raise UnsupportedError(f"block {op.block.name}: nothing to do in lanes")
    strides = [loop_strides(em.buffers[r.buffer], r.indices, op) for r in operands]
    offsets = [base_offset(em.buffers[r.buffer], r.indices, op.names) for r in operands]
    moves = [[lp.var for lp in op.loops if lp.var in skip and lp.var in s] for s in strides]
    offsets = [o + product_sum(s, m) for o, s, m in zip(offsets, strides, moves)]
    extents = [(lp.var, lp.extent) for lp in loops]
    if all(s.get(extents[-1][0], Int(0)) != Int(1) for s in strides):  # one element a row
        extents.append(("", Int(1)))
        strides = [{**s, "": Int(1)} for s in strides]
    if flat_from(em, operands, strides, extents):
        total = product([e for _, e in extents])
        return [run(em, work, (target.buffer, offsets[0]), list(zip([r.buffer for r in operands[1:]], offsets[1:])), total)]
    blocks = strided(em, work, operands, strides, offsets, extents)
    if blocks is not None:
        return blocks
    for r, s in zip(operands, strides):
        require_rows(em, op, r.buffer, s, extents[:-1])
    return rows(em, work, operands, strides, offsets, extents)


def require_rows(em: Emitter, op: TileOp, buffer: str, strides: dict[str, Expr], outer: list[tuple[str, Expr]]) -> None:
    """Asks that every row starts on a block, as a vector operand must: rows of whole blocks, or one row a tile."""
    for v, extent in outer:
        aligned = eq(strides.get(v, Int(0)) * dtype_size(em.buffers[buffer]) % 32, 0)
        em.require(either(aligned, le(largest(extent, op.above), 1)),
                   f"block {op.block.name}: rows of {buffer} that are no whole blocks of 32 bytes are taken one a tile")


def product_sum(strides: dict[str, Expr], names: list[str]) -> Expr:
    out: Expr = Int(0)
    for v in names:
        out = out + Var(v) * strides[v]
    return out


def flat_from(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> bool:
    """True where the loops walk every operand without a gap; only literal extents count, but for the outermost."""
    step = Int(1)
    for v, e in reversed(extents):
        if any(s.get(v, Int(0)) != step for s in strides):
            return False
        if v != extents[0][0]:
            if not isinstance(e, Int):
                return False
            step = Int(step.value * e.value)
    return True


def strided(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
            extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Blocks of 32 bytes at a stride, when the innermost loop is whole blocks and the next has literal strides."""
    sizes = {dtype_size(em.buffers[r.buffer]) for r in operands}
    if len(extents) < 2 or len(sizes) != 1:
        return None
    size = sizes.pop()
    unit = 32 // size
    (v_blk, count), (v_in, inner) = extents[-2], extents[-1]
    steps = [s.get(v_blk, Int(0)) for s in strides]
    if not isinstance(inner, Int) or inner.value % unit or not all(isinstance(s, Int) and s.value % unit == 0 for s in steps):
        return None
    if any(s.get(v_in, Int(0)) != Int(1) for s in strides):
        return None
    blk = [s.value // unit for s in steps]  # type: ignore[attr-defined]
    if max(blk) > MAX_STRIDE or blk[0] == 0:
        return None
    per_repeat = MAX_REPEAT if max(blk) * BLOCKS <= MAX_STRIDE else 1
    sub, rep = em.fresh("blk"), em.fresh("rep")
    total = ceildiv(count, BLOCKS)
    repeat = minimum(per_repeat, total - Var(rep) * per_repeat)
    lanes = minimum(BLOCKS, count - (Var(rep) * per_repeat + repeat - 1) * BLOCKS) * unit
    names = operand_names(len(operands) - 1)
    fields: dict[str, Expr | Ref] = {}
    fixed: dict[str, int] = {}
    outer = extents[:-2]
    for name, r, o, s, b in zip(names, operands, offsets, strides, blk):
        at = o + product_sum(s, [v for v, _ in outer if v in s]) + Var(sub) * unit + Var(rep) * (per_repeat * BLOCKS * b * unit)
        fields[name] = em.ref(r.buffer, at)
        fixed[f"{name}_blk"], fixed[f"{name}_rep"] = b, b * BLOCKS if per_repeat > 1 else 0
    body: list[Item] = [make(work, fields, lanes, repeat, fixed)]
    return nest([*outer, (sub, Int(inner.value // unit)), (rep, ceildiv(total, per_repeat))], body)


def rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
         extents: list[tuple[str, Expr]]) -> list[Item]:
    """A contiguous run for each point of the outer loops; a source that stands still in a row is broadcast first."""
    (v_in, inner), outer = extents[-1], extents[:-1]
    at = [o + product_sum(s, [v for v, _ in outer if v in s]) for o, s in zip(offsets, strides)]
    if strides[0].get(v_in, Int(0)) != Int(1):
        raise UnsupportedError("a vector operation writes lanes at a stride")
    before: list[Item] = []
    srcs: list[tuple[str, Expr]] = []
    scratch: set[str] = set()
    for r, o, s in zip(operands[1:], at[1:], strides[1:]):
        step = s.get(v_in, Int(0))
        if step == Int(1):
            srcs.append((r.buffer, o))
        elif step == Int(0):
            b = em.add_scratch(em.buffers[r.buffer].dtype, BLOCKS * c0(em.buffers[r.buffer]))
            before.append(instr("vbrcb", dst=em.ref(b, Int(0)), src=em.ref(r.buffer, o), repeat=1, dst_blk=1, dst_rep=BLOCKS))
            scratch.add(b)
            srcs.append((b, Int(0)))
        else:
            raise UnsupportedError("a vector operation reads lanes at a stride")
    item = run(em, work, (operands[0].buffer, at[0]), srcs, inner, frozenset(scratch))
    return nest(outer, [*before, item])


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


# ---------------------------------------------------------------- transposes (layout conversions)

def is_transpose(em: Emitter, op: TileOp) -> bool:
    """True where the innermost loop of the target strides in the source and another loop is its lanes."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or len(op.loops) < 2:
        return False
    src = em.buffers[value.buffer]
    if src.scope != "UB" or em.buffers[op.block.target.buffer].scope != "UB":
        return False
    v_in = op.loops[-1].var
    parts = affine(value.indices[-1], op.names)
    return parts is None or v_in not in parts[0] and any(v in parts[0] for v in op.names)


def makes_pixels(em: Emitter, op: TileOp) -> bool:
    """True where a transposition goes from channel rows [.., c0, x] to pixels [.., x, c0]; the lanes of pixels are one block."""
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
    """How many 32-byte halves of sixteen channels exist; both buffers grow to what vnchwconv touches: 16 rows, whole runs of pixels."""
    value, out = op.block.value, makes_pixels(em, op)
    assert isinstance(value, Read)
    pair = [em.buffers[op.block.target.buffer], em.buffers[value.buffer]]
    pixels, channels = pair if out else pair[::-1]
    unit = c0(pixels)
    halves, step = 16 // unit, unit if out else 16
    there, x = pixels.shape[-3], pixels.shape[-2]
    em.buffers[pixels.name] = replace(pixels, shape=(*pixels.shape[:-3], Int(halves), round_up(x, step), Int(unit)))
    em.buffers[channels.name] = replace(channels, shape=(*channels.shape[:-3], Int(halves), Int(unit), round_up(x, step)))
    return min(halves, there.value) if isinstance(there, Int) else halves


def transpose(em: Emitter, op: TileOp, present: int) -> Piece:
    """vnchwconv between channel rows [i][c0][x] and pixels [i][x][c0], either way: sixteen channels, i in 16 // C0."""
    value = op.block.value
    assert isinstance(value, Read)
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    unit = c0(src)
    halves = 16 // unit
    pixels_out = makes_pixels(em, op)
    x = next(lp.extent for lp in op.loops if lp.var in _names_in((op.block.target if pixels_out else value).indices[-2], op))
    rep = em.fresh("rep")
    chunk = MAX_REPEAT
    rows_buffer, pixel_buffer = (src, dst) if pixels_out else (dst, src)
    pitch = pitches(rows_buffer)[-2]
    plane = pitches(pixel_buffer)[-3]
    step = 16 if not pixels_out else unit  # pixels an instruction repeat
    total = ceildiv(x, step)
    count = minimum(chunk, total - Var(rep) * chunk)
    first = Var(rep) * (chunk * step)
    body: list[Item] = []
    if pixels_out:
        body.append(instr("vnchwconv", dst=em.ref(dst.name, first * unit), src=em.ref(src.name, first), repeat=count, dst_stride=1,
                          dst_half=plane // unit if halves > 1 else Int(0), src_stride=pitch // unit, dst_rep=step, src_rep=1))
    else:
        for h in range(present):
            body.append(instr("vnchwconv", dst=em.ref(dst.name, first + pitch * (h * unit)), src=em.ref(src.name, first * unit + plane * h),
                              repeat=count, dst_stride=pitch // unit, dst_half=1 if halves > 1 else 0, src_stride=1,
                              dst_rep=16 // unit, src_rep=16))
    return piece(em, "V", [For(rep, normalise(ceildiv(total, chunk)), tuple(body))], dst.name, src.name)


def _names_in(e: Expr, op: TileOp) -> list[str]:
    return [v for v in op.names if uses(e, frozenset((v,)))]


# ---------------------------------------------------------------- copies between GM and UB

def copy(em: Emitter, op: TileOp, src: Read) -> list[Piece]:
    """A box between GM and UB, either way; a guarded read fills the buffer first and copies what lies inside."""
    value = op.block.value
    dst_buffer = em.buffers[op.block.target.buffer]
    into = dst_buffer.scope == "UB"
    guard = isinstance(value, Call) and value.fn == "select"
    out: list[Piece] = []
    if guard:
        assert isinstance(value, Call) and isinstance(value.args[2], (Float, Int))
        elements = normalise(size_bytes(dst_buffer) // dtype_size(dst_buffer))
        fill = run(em, VectorOp("vdup", (), float(value.args[2].value)), (dst_buffer.name, Int(0)), [], elements)
        out.append(Piece((fill,), (Access(dst_buffer.name, "V", True),)))
    bounded = guarded_indices(value) if guard else set()
    gm, ub = (src, op.block.target) if into else (op.block.target, src)
    items = box_copy(em, op, gm, ub, inside(em, op, src, bounded), into)
    out.append(piece(em, "MTE2" if into else "MTE3", items, dst_buffer.name, src.buffer))
    return out


def guarded_indices(e: Expr) -> set[Expr]:
    """The index expressions that the condition of a guarded read bounds."""
    assert isinstance(e, Call)
    return {normalise(x) for n in walk(e.args[0]) if isinstance(n, Binary) and n.op in ("<", "<=", ">", ">=") for x in (n.left, n.right)}


def inside(em: Emitter, op: TileOp, src: Read, bounded: set[Expr]) -> list[tuple[str, Expr, Expr]]:
    """(loop, first, count) of the iterations whose index lies inside the tensor, where the guard asks; a count may hang on loops
    further out that step the same index (channels in planes)."""
    out: list[tuple[str, Expr, Expr]] = []
    fixed: dict[str, Expr] = {v: Int(0) for v in op.names}
    for lp in op.loops:
        low: Expr = Int(0)
        count = lp.extent
        for i, size in zip(src.indices, em.buffers[src.buffer].shape, strict=True):
            if uses(i, frozenset((lp.var,))) and normalise(i) in bounded:
                low, count = within(i, lp, size, fixed)
                break
        out.append((lp.var, low, count))
        fixed[lp.var] = low if count == Int(1) else low + Var(lp.var)
    return out


def within(index: Expr, lp: Loop, size: Expr, fixed: dict[str, Expr]) -> tuple[Expr, Expr]:
    """(first, count) of a loop's iterations with 0 <= index < size; a loop of coarse steps starts at 0, finer ones inside it clip."""
    base = normalise(substitute(index, fixed))
    step = normalise(substitute(index, {**fixed, lp.var: Int(1)}) - base)
    low = maximum(0, Int(0) - base) if step == Int(1) else Int(0)
    return normalise(low), normalise(maximum(0, minimum(lp.extent, ceildiv(size - base, step)) - low))


def box_copy(em: Emitter, op: TileOp, gm: Read, ub: Read, box: list[tuple[str, Expr, Expr]], into: bool) -> list[Item]:
    """Bursts for a box: (loop, first, count). Loops that both sides walk without a gap are one run."""
    g, u = em.buffers[gm.buffer], em.buffers[ub.buffer]
    s_gm, s_ub = loop_strides(g, gm.indices, op), loop_strides(u, ub.indices, op)
    size = dtype_size(g)
    at_gm, at_ub = base_offset(g, gm.indices, op.names), base_offset(u, ub.indices, op.names)
    for v, low, _ in box:
        at_gm, at_ub = at_gm + low * s_gm.get(v, Int(0)), at_ub + low * s_ub.get(v, Int(0))
    length: Expr = Int(1)
    rest = [(v, low, count) for v, low, count in box if count != Int(1)]
    while isinstance(length, Int):  # grow the run while a loop goes on where it ends, on both sides
        grown = next((i for i, (v, _, _) in enumerate(rest) if s_gm.get(v) == length and s_ub.get(v) == length), None)
        if grown is None:
            break
        length = normalise(length * rest.pop(grown)[2])
    v_burst: str | None = None
    bursts: Expr = Int(1)
    gap_gm: Expr = Int(0)
    gap_ub: Expr = Int(0)
    if rest and _bursts(s_ub.get(rest[-1][0], Int(0)), size):
        v_burst, _, count = rest.pop()
        bursts = count
        gap_gm = (s_gm.get(v_burst, Int(0)) - length) * size
        gap_ub = (s_ub[v_burst] * size - ceildiv(length * size, 32) * 32) // 32
    chunk = em.fresh("burst")
    n = minimum(MAX_BURSTS, bursts - Var(chunk) * MAX_BURSTS)
    for v, _, _ in rest:
        at_gm, at_ub = at_gm + Var(v) * s_gm.get(v, Int(0)), at_ub + Var(v) * s_ub.get(v, Int(0))
    if v_burst is not None:
        at_gm = at_gm + Var(chunk) * MAX_BURSTS * s_gm.get(v_burst, Int(0))
        at_ub = at_ub + Var(chunk) * MAX_BURSTS * s_ub[v_burst]
    dst, src = (em.ref(u.name, at_ub), em.ref(g.name, at_gm)) if into else (em.ref(g.name, at_gm), em.ref(u.name, at_ub))
    gaps = dict(src_gap=gap_gm, dst_gap=gap_ub) if into else dict(src_gap=gap_ub, dst_gap=gap_gm)
    body: list[Item] = [instr("copy_gm_ub" if into else "copy_ub_gm", dst=dst, src=src, bursts=n, length=length * size, **gaps)]
    return nest([*[(v, c) for v, _, c in rest], (chunk, ceildiv(bursts, MAX_BURSTS))], body)


def _bursts(step: Expr, size: int) -> bool:
    """True where bursts may start on this UB stride: whole blocks, by structure."""
    return normalise(call("select", Binary("==", normalise(step * size % 32), Int(0)), 1, 0)) == Int(1)
