"""Emission of copies between GM and UB: boxes as bursts, either way, with padding around what lies inside the tensor."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Buffer, Loop
from aoec.ir.index import (
    Binary,
    Call,
    Expr,
    Float,
    Int,
    Read,
    Var,
    both,
    call,
    ceildiv,
    either,
    eq,
    le,
    lt,
    maximum,
    minimum,
    normalise,
    select,
    substitute,
    variables,
    walk,
)
from aoec.ir.program import For, Instr, Item
from aoec.ir.text.show import show
from aoec.lowering.emit.emit_runs import nest, run, when
from aoec.lowering.emit.tile import (
    Access,
    Emitter,
    Piece,
    TileOp,
    base_offset,
    dtype_size,
    instr,
    largest,
    loop_strides,
    piece,
    product,
    size_bytes,
    uses,
)
from aoec.target.isa.words import VectorOp

MAX_BURSTS = 4095


def copy(em: Emitter, op: TileOp, src: Read) -> list[Piece]:
    """Return the copy of a box between GM and UB, either way. A guarded read fills the buffer first and copies what lies inside the
    tensor."""
    value = op.block.value
    dst_buffer = em.buffers[op.block.target.buffer]
    into = dst_buffer.scope == "UB"
    guard = isinstance(value, Call) and value.fn == "select"
    out: list[Piece] = []
    if guard:
        assert isinstance(value, Call) and isinstance(value.args[2], (Float, Int))
        elements = normalise(size_bytes(dst_buffer) // dtype_size(dst_buffer))
        fill = run(em, VectorOp("vdup", (), float(value.args[2].value)), (dst_buffer.name, Int(0)), [], elements)
        cut = [lt(bound, lp.extent) for lp in op.loops if (bound := bound_of(value, lp)) is not None]
        out.append(Piece(tuple(when(em, cut[0], [fill]) if cut else [fill]), (Access(dst_buffer.name, "V", True),)))
    bounded = guarded_indices(value) if guard else set()
    gm, ub = (src, op.block.target) if into else (op.block.target, src)
    items = box_copy(em, op, gm, ub, inside(em, op, src, bounded), into)
    if guard and into:
        items = [put_pad(i, float(value.args[2].value)) for i in items]  # type: ignore[attr-defined]
    out.append(piece(em, "MTE2" if into else "MTE3", items, dst_buffer.name, src.buffer))
    return out


def owns_blocks(em: Emitter, op: TileOp, gm: Read, longest: Expr) -> Expr:
    """Return whether each core writes runs of a block or more, as the split of the axes over cores says, and writes them in such pieces.

    A shorter piece is written back with the bytes beside it, so no other core may write those at that time (target/legality/bursts.py).
    Where one core has all of a dimension, its runs continue in the dimension before. `longest`: elements that one instruction writes in
    one run."""
    buffer = em.buffers[gm.buffer]
    if buffer.layout != "ND":  # blocks of channels
        return Int(1)
    size = dtype_size(buffer)

    def steps(index: Expr, loops: list[Loop]) -> list[Expr]:
        return [normalise(substitute(index, {lp.var: Int(1)}) - substitute(index, {lp.var: Int(0)})) for lp in loops]

    def owns(d: int, run_length: Expr, piece_length: Expr, is_cut: bool) -> Expr:
        """Return whether this holds for dimensions up to d. `run_length`, `piece_length`: elements of the runs and pieces that the
        dimensions behind d make. `is_cut`: pieces end there."""
        if d < 0:
            return Int(1)
        index, extent = gm.indices[d], buffer.shape[d]
        found = [lp for lp in op.above if uses(index, frozenset((lp.var,)))]
        cores, others = ([lp for lp in found if (lp.kind == "core") == own] for own in (True, False))
        apart, least = steps(index, others), extent
        if any(variables(s) for s in (*apart, *steps(index, cores))):
            return Int(1)
        part: Expr = extent
        for s in apart:
            part = minimum(part, s)
        for s in steps(index, cores):
            rest = extent % maximum(s, 1)  # a step is 0 where a quotient of the core's number is the index: some cores write the same
            least = minimum(least, select(eq(rest, 0), s, minimum(s, rest)))
        length = piece_length if is_cut else piece_length * minimum(part, least)
        further = owns(d - 1, normalise(run_length * extent), normalise(length), is_cut or bool(apart))
        if not cores:
            return further
        fits = both(both(le(32, least * run_length * size), le(32, length * size)), le(32, longest * size))
        return either(fits, both(le(product([lp.extent for lp in cores]), 1), further))
    return normalise(owns(len(buffer.shape) - 1, Int(1), Int(1), False))


def put_pad(item: Item, number: float) -> Item:
    """Return the item with its copies into UB changed to write a number behind each burst."""
    if isinstance(item, For):
        return For(item.var, item.trips, tuple(put_pad(i, number) for i in item.body))
    return Instr(item.op, (*item.fields, ("pad", Float(number)))) if isinstance(item, Instr) and item.op == "copy_gm_ub" else item


def guarded_indices(e: Expr) -> set[Expr]:
    """Return the index expressions that the condition of a guarded read bounds."""
    assert isinstance(e, Call)
    return {normalise(x) for n in walk(e.args[0]) if isinstance(n, Binary) and n.op in ("<", "<=", ">", ">=") for x in (n.left, n.right)}


def bound_of(guard: Expr, lp: Loop) -> Expr | None:
    """Return what a guarded read says that the variable of a loop is below; None where it says nothing of it alone."""
    assert isinstance(guard, Call)
    found = [n.right for n in walk(guard.args[0]) if isinstance(n, Binary) and n.op == "<" and n.left == Var(lp.var)]
    return found[0] if found else None


def inside(em: Emitter, op: TileOp, src: Read, bounded: set[Expr]) -> list[tuple[str, Expr, Expr]]:
    """Return (loop, first, count) of the iterations whose index lies inside the tensor, where the guard asks for it. A count may depend
    on outer loops that step the same index (channels in planes)."""
    out: list[tuple[str, Expr, Expr]] = []
    fixed: dict[str, Expr] = {v: Int(0) for v in op.names}
    for lp in op.loops:
        low: Expr = Int(0)
        count = lp.extent
        for i, size in zip(src.indices, em.buffers[src.buffer].shape, strict=True):
            if uses(i, frozenset((lp.var,))) and normalise(i) in bounded:
                low, count = valid_iterations(i, lp, size, fixed)
                break
        if bounded and (bound := bound_of(op.block.value, lp)) is not None:
            count = normalise(minimum(count, bound))
        out.append((lp.var, low, count))
        fixed[lp.var] = low if count == Int(1) else low + Var(lp.var)
    return out


def valid_iterations(index: Expr, lp: Loop, size: Expr, fixed: dict[str, Expr]) -> tuple[Expr, Expr]:
    """Return (first, count) of a loop's iterations with 0 <= index < size. A loop of coarse steps starts at 0; finer loops inside it
    clip."""
    base = normalise(substitute(index, fixed))
    step = normalise(substitute(index, {**fixed, lp.var: Int(1)}) - base)
    low = maximum(0, Int(0) - base) if step == Int(1) else Int(0)
    return normalise(low), normalise(maximum(0, minimum(lp.extent, ceildiv(size - base, step)) - low))


def box_copy(em: Emitter, op: TileOp, gm: Read, ub: Read, box: list[tuple[str, Expr, Expr]], into: bool) -> list[Item]:
    """Return the bursts for a box: (loop, first, count). Loops that both sides walk without a gap are one run."""
    g, u = em.buffers[gm.buffer], em.buffers[ub.buffer]
    s_gm, s_ub = loop_strides(g, gm.indices, op), loop_strides(u, ub.indices, op)
    size = dtype_size(g)
    at_gm, at_ub = base_offset(g, gm.indices, op.names), base_offset(u, ub.indices, op.names)
    for v, low, _ in box:
        if into and isinstance(low, Int) and s_ub.get(v) == Int(1) and low.value * size % 32:
            raise UnsupportedError(f"block {op.block.name}: {show(gm)} begins {low.value} elements behind the start of a row in UB, and a "
                                   f"copy begins with a block of {32 // size} elements; pad rows by whole blocks, or in an operator of "
                                   "its own")
        at_gm, at_ub = at_gm + low * s_gm.get(v, Int(0)), at_ub + low * s_ub.get(v, Int(0))
    length: Expr = Int(1)
    rest = [(v, low, count) for v, low, count in box if count != Int(1)]
    whole = into and in_blocks(op, g, gm, ub, [v for v, _, _ in rest if s_gm.get(v) == s_ub.get(v) == Int(32 // size)])
    if whole:
        length, rest = Int(32 // size), [r for r in rest if not uses(gm.indices[-1], frozenset((r[0],)))]
    while True:  # grow the run while a loop goes on where it ends, on both sides
        # of loops with one stride in UB, those around the innermost are of a tile of one iteration, which only some tiles are
        grown = next((i for i, (v, _, _) in reversed(list(enumerate(rest))) if s_ub.get(v) == length), None)
        if grown is None or s_gm.get(rest[grown][0]) != length:
            break
        length = normalise(length * rest.pop(grown)[2])
    v_burst: str | None = None
    bursts: Expr = Int(1)
    gap_gm: Expr = Int(0)
    gap_ub: Expr = Int(0)
    if (found := _burst_loop(rest, s_gm, s_ub, size, largest(length, op.above), u.layout == "RUN")) is not None:
        v_burst, _, bursts = rest.pop(found)
        gap_gm = (s_gm.get(v_burst, Int(0)) - length) * size
        gap_ub = (s_ub[v_burst] * size - ceildiv(length * size, 32) * 32) // 32
    if not into and op.block.op == "=" and not em.machine.has("copy_ub_gm", parts=1):
        longest = largest(length * bursts if normalise(gap_gm) == Int(0) else length, op.above)
        said = f"block {op.block.name}: {em.machine.name} writes whole blocks of 32 bytes into GM, so that each core writes as much of "
        em.require(owns_blocks(em, op, gm, longest), f"{said}{gm.buffer} in one run")
    chunk = em.fresh("burst")
    n = minimum(MAX_BURSTS, bursts - Var(chunk) * MAX_BURSTS)
    for v, _, _ in rest:
        at_gm, at_ub = at_gm + Var(v) * s_gm.get(v, Int(0)), at_ub + Var(v) * s_ub.get(v, Int(0))
        if len(u.shape) == 1:
            em.require(eq(s_ub.get(v, Int(0)) * size % 32, 0), f"block {op.block.name}: what is copied of {u.name} begins with a block")
    if v_burst is not None:
        at_gm = at_gm + Var(chunk) * MAX_BURSTS * s_gm.get(v_burst, Int(0))
        at_ub = at_ub + Var(chunk) * MAX_BURSTS * s_ub[v_burst]
    dst, src = (em.ref(u.name, at_ub), em.ref(g.name, at_gm)) if into else (em.ref(g.name, at_gm), em.ref(u.name, at_ub))
    gaps = dict(src_gap=gap_gm, dst_gap=gap_ub) if into else dict(src_gap=gap_ub, dst_gap=gap_gm)
    if op.block.op == "+=":
        gaps["atomic"] = Int(1)
    body: list[Item] = [instr("copy_gm_ub" if into else "copy_ub_gm", dst=dst, src=src, bursts=n, length=length * size, **gaps)]
    return nest([*[(v, c) for v, _, c in rest], (chunk, ceildiv(bursts, MAX_BURSTS))], body)


def in_blocks(op: TileOp, g: Buffer, gm: Read, ub: Read, along: list[str]) -> bool:
    """Return whether a box takes the first channels of blocks, which lie one after the other on both sides in a loop of `along`. It is
    then copied in whole blocks, as one run, instead of a burst for each block. Lanes behind those channels are room of their blocks in
    UB."""
    if not along or len(g.shape) < 2 or normalise(g.shape[-1]) != Int(32 // dtype_size(g)) or not isinstance(op.block.value, Read):
        return False
    lanes, there = (normalise(r.indices[-1]) for r in (gm, ub))
    first = normalise(substitute(lanes, dict.fromkeys(op.names, Int(0)))) == Int(0)
    return first and lanes == there and not uses(lanes, frozenset(along))


def _burst_loop(rest: list[tuple[str, Expr, Expr]], s_gm: dict[str, Expr], s_ub: dict[str, Expr], size: int, length: Expr,
                outermost: bool) -> int | None:
    """Return the loop that the bursts of one instruction can be, or None. It is the innermost such loop or, if `outermost`, the outermost,
    as the loop over a tile of narrow rows is the longest.

    The loop steps forward on both sides, at least as far as a burst of at most `length` elements, by whole blocks in UB. All bursts have
    one length, and no other loop's size depends on the loop."""
    for at, (v, _, _) in enumerate(rest) if outermost else reversed(list(enumerate(rest))):
        held = {w for _, low, count in rest for w in variables(low) | variables(count)} | variables(length)
        forward = all(v in steps and not _falls(steps[v]) and not _is_within_burst(steps[v], length) for steps in (s_gm, s_ub))
        if forward and _bursts(s_ub[v], size) and v not in held:
            return at
    return None


def _falls(step: Expr) -> bool:
    """Return True for a step backwards: the sign that an index gives its loop is plain, other factors are sizes."""
    if isinstance(step, Binary) and step.op == "*":
        return _falls(step.left) != _falls(step.right)
    return isinstance(step, Int) and step.value < 0


def _is_within_burst(step: Expr, length: Expr) -> bool:
    """Return whether a step is shorter than a burst, as in a loop of one iteration. Bursts of one instruction follow one another."""
    return isinstance(step, Int) and isinstance(length, Int) and step.value < length.value


def _bursts(step: Expr, size: int) -> bool:
    """Return True where bursts may start on this UB stride: whole blocks, by structure."""
    return normalise(call("select", Binary("==", normalise(step * size % 32), Int(0)), 1, 0)) == Int(1)
