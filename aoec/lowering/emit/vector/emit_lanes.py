"""Emission of one vector operation over the elements of UB buffers.

An operation becomes one of three forms, chosen by structure alone. *Flat*: all operands are one contiguous run. *Strided*: 32-byte
blocks at a stride for each operand, eight a repeat, or one short row a repeat. *Rows*: a run for each row, in loops.
"""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Call, Expr, Int, Read, Var, both, ceildiv, either, eq, le, maximum, minimum, normalise, select, variables
from aoec.ir.program import For, Instr, Item, Ref
from aoec.lowering.emit.emit_place import in_place
from aoec.lowering.emit.emit_runs import (
    BLOCKS,
    MAX_REPEAT,
    MAX_STRIDE,
    either_of,
    lanes_of,
    make,
    nest,
    one_of,
    operand_names,
    product_sum,
    run,
)
from aoec.lowering.emit.tile import Emitter, TileOp, base_offset, c0, dtype_size, instr, largest, loop_strides, product
from aoec.lowering.emit.vector.emit_blocks import emit_strided, join_loops, narrow_rows, over_rows, row_blocks, side_by_side
from aoec.lowering.emit.vector.emit_laid import TIMES, with_laid_rows
from aoec.target.isa.instructions import REPEAT_BYTES
from aoec.target.isa.words import VectorOp

HEAD, COPY_HEAD = 25, 15  # cycles of an instruction's head, and of a copy's: they only decide between forms of one operation
MOST_LAID = 255  # parts of rows for which a block each is laid out: 8 KB


def elementwise(em: Emitter, op: TileOp, work: VectorOp, accumulate: bool = False, skip: frozenset[str] = frozenset()) -> list[Item]:
    """Return the operation on all points of the tensor loops except `skip`. With `accumulate` the target is the first source too."""
    target = op.block.target
    operands = [target, *([target] if accumulate else []), *work.sources]
    own = [lp for lp in op.loops if lp.var not in skip]
    loops = [lp for lp in own if lp.extent != Int(1)] or own[-1:] or list(op.loops[-1:])
    if not loops or any(lp.var in skip for lp in loops):
        raise UnsupportedError(f"block {op.block.name}: nothing to do in lanes")
    strides = [loop_strides(em.buffers[r.buffer], r.indices, op) for r in operands]
    if backwards := [(lp.var, lp.extent) for lp in loops if any(is_backward(s, lp.var) for s in strides)]:
        return nest(backwards, elementwise(em, op, work, accumulate, skip | {v for v, _ in backwards}))
    offsets = [base_offset(em.buffers[r.buffer], r.indices, op.names) for r in operands]
    moves = [[lp.var for lp in op.loops if lp.var in skip and lp.var in s] for s in strides]
    offsets = [o + product_sum(s, m) for o, s, m in zip(offsets, strides, moves)]
    every = [(lp.var, lp.extent) for lp in op.loops]
    if reorders_axes(op, work) and (moved := emit_strided(em, work, operands, strides, offsets, every)) is not None:
        return moved
    extents = [(lp.var, lp.extent) for lp in loops]
    if all(s.get(extents[-1][0], Int(0)) != Int(1) for s in strides):  # one element a row
        extents.append(("", Int(1)))
        strides = [{**s, "": Int(1)} for s in strides]
    if flat_from(em, operands, strides, extents):
        in_place(em, operands)
        total = product([e for _, e in extents])
        return [run(em, work, (target.buffer, offsets[0]), list(zip([r.buffer for r in operands[1:]], offsets[1:])), total)]
    if (alike := with_numbers(em, work, operands, strides, offsets, extents)) is not None:
        return alike
    if (together := lane_parts(em, op, work, operands, strides, offsets, extents)) is not None:
        return together
    if (whole := padded_length(em, operands, strides, extents)) is not None:
        if work.sources and all(r.buffer in em.spread for r in operands[1:]):
            em.spread.add(target.buffer)
        return [run(em, work, (target.buffer, offsets[0]), list(zip([r.buffer for r in operands[1:]], offsets[1:])), whole)]
    long = join_loops(strides, extents)
    if (parts := row_blocks(em, work, operands, strides, offsets, long)) is not None:
        return parts
    wide = next((e for e in (long, extents) if wide_rows(em, operands, strides, e)), None)
    blocks = emit_strided(em, work, operands, strides, offsets, extents) if wide is None else None
    if blocks is not None:
        stepped = over_rows(em, work, operands, strides, offsets, extents)
        return blocks if stepped is None else either_of(em, *stepped, blocks)
    if wide is None or wide is extents:  # also rows of a loop that a hole makes one
        every_row = [*[(lp.var, lp.extent) for lp in own if lp.var != extents[-1][0]], extents[-1]]
    else:
        every_row = wide
    if (parts := narrow_rows(em, work, operands, strides, offsets, every_row)) is not None:
        return parts
    if (runs := cast_runs(em, op, work, operands, strides, offsets, every_row)) is not None:
        return runs
    for r, s in zip(operands, strides):
        require_rows(em, op, r.buffer, s, (wide or extents)[:-1])
    if (cast := cast_rows(em, work, operands, strides, offsets, every_row)) is not None:
        return cast
    return whole_tiles(em, op, work, operands, strides, offsets, wide or extents)


def is_backward(strides: dict[str, Expr], loop: str) -> bool:
    """Return whether an operand is read backwards along a loop. No instruction does that: its iterations are taken one by one."""
    stride = normalise(strides.get(loop, Int(0)))
    return isinstance(stride, Int) and stride.value < 0


def whole_tiles(em: Emitter, op: TileOp, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                extents: list[tuple[str, Expr]]) -> list[Item]:
    """Return the operation on rows of a tile that may be cut at the end of its tensor. The program chooses by the loops above: one run
    where the length of a row is its distance to the next in every operand, and otherwise a run for each row. So whole tiles cost the
    same whether or not they are known to be whole."""
    apiece = by_rows(em, op, work, operands, strides, offsets, extents)
    (row, count), (lane, inner) = extents[-2:] if len(extents) == 2 else [("", Int(1)), extents[-1]]
    cut = isinstance(inner, Call) and inner.fn == "min" and bool(variables(inner))
    if not row or not cut or any(s.get(lane) != Int(1) or row not in s for s in strides):
        return apiece
    whole = eq(inner, strides[0][row])
    for s in strides[1:]:  # also of those that are alike, which some become where holes are filled
        whole = both(whole, eq(inner, s[row]))
    long = run(em, work, (operands[0].buffer, offsets[0]), list(zip([r.buffer for r in operands[1:]], offsets[1:])), count * inner)
    return either_of(em, whole, [long], apiece)


def reorders_axes(op: TileOp, work: VectorOp) -> bool:
    """Return whether this is a copy whose target has its axes in another order.
    It has one form for all extents, also where one is 1 and nothing moves."""
    if work.name != "vcopy":
        return False
    to, source = ([v for i in r.indices for v in sorted(variables(i)) if v in op.names] for r in (op.block.target, work.sources[0]))
    return to != source and sorted(to) == sorted(source)


def require_rows(em: Emitter, op: TileOp, buffer: str, strides: dict[str, Expr], outer: list[tuple[str, Expr]]) -> None:
    """Require that every row starts on a block, as a vector operand must: rows of whole blocks, or one row a tile."""
    for v, extent in outer:
        aligned = eq(strides.get(v, Int(0)) * dtype_size(em.buffers[buffer]) % 32, 0)
        em.require(either(aligned, le(largest(extent, op.above), 1)),
                   f"block {op.block.name}: rows of {buffer} that are no whole blocks of 32 bytes are taken one a tile")


def wide_rows(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> bool:
    """Return whether rows are a repeat or longer, of whole blocks. Repeats of eight blocks of one row then take fewer instructions than
    repeats of one block of eight rows, and the blocks lie in eight bank groups."""
    inner, size = extents[-1][1], dtype_size(em.buffers[operands[0].buffer])
    return isinstance(inner, Int) and inner.value * size >= REPEAT_BYTES and row_steps(em, operands, strides, extents) is not None


def flat_from(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> bool:
    """Return True where the loops walk every operand without a gap, by structure."""
    step: Expr = Int(1)
    for v, e in reversed(extents):
        if any(s.get(v, Int(0)) != step for s in strides):
            return False
        if v != extents[0][0]:
            step = normalise(step * e)
    return True


def with_numbers(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                 extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return the operation as one run, including the padding of rows. At least one operand must be a single element. Such an element
    fills a block that is read again for every block of the others. Return None where there are no single elements, or the others are no
    run."""
    moves = [any(s.get(v, Int(0)) != Int(0) for v, _ in extents) for s in strides]
    others, steps = [r for r, m in zip(operands, moves) if m], [s for s, m in zip(strides, moves) if m]
    if all(moves) or not moves[0] or any(dtype_size(em.buffers[r.buffer]) == 1 for r, m in zip(operands, moves) if not m):
        return None
    flat = flat_from(em, others, steps, extents)
    if (count := product([e for _, e in extents]) if flat else padded_length(em, others, steps, extents)) is None:
        return None
    if flat:
        in_place(em, others)
    filled, places, blocks = list[Item](), [(r.buffer, o) for r, o in zip(operands, offsets)], set[str]()
    for i, (r, m) in enumerate(zip(operands, moves)):
        if m:
            continue
        if r.buffer not in em.spread:
            places[i] = block_of(em, r.buffer, offsets[i], filled), Int(0)
        blocks.add(places[i][0])
    return [*filled, run(em, work, places[0], places[1:], count, frozenset(blocks))]


def block_of(em: Emitter, buffer: str, at: Expr, before: list[Item]) -> str:
    """Return a buffer whose first block an element fills; `before` grows by the instruction that does so."""
    b = em.add_scratch(em.buffers[buffer].dtype, BLOCKS * c0(em.buffers[buffer]))
    before.append(instr("vbrcb", dst=em.ref(b, Int(0)), src=em.ref(buffer, at), repeat=1, dst_blk=1, dst_rep=BLOCKS))
    return b


def lane_parts(em: Emitter, op: TileOp, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
               extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return the operation on rows of whole repeats: for one repeat of each row at a time, all rows in one instruction. Return None for
    other rows.

    Rows are handled here that are worked on in place, where data written behind a row would be lost. So are casts from rows that lie
    further apart. A source may be one row for all, or one element a row that fills its block."""
    sizes = [dtype_size(em.buffers[r.buffer]) for r in operands]
    if len(extents) < 2:
        return None
    (row, count), (lane, inner) = extents[-2:]
    lanes, steps = lanes_of(max(sizes)), [s.get(row, Int(0)) * size for s, size in zip(strides, sizes)]
    along = [s.get(lane, Int(0)) == Int(1) for s in strides]
    cast = len(set(sizes)) > 1
    if cast and (isinstance(inner, Int) or len(operands) != 2 or normalise(em.buffers[operands[1].buffer].shape[-1]) == normalise(inner)):
        return None
    apart = not cast and operands[0].buffer not in {r.buffer for r in operands[1:]}
    spread = all(a or s.get(lane, Int(0)) == Int(0) and r.buffer in em.spread for r, s, a in zip(operands, strides, along))
    if apart or not along[0] or not spread or any(normalise(e) != Int(0) for e in (inner % lanes, *[x % 32 for x in steps])):
        return None
    for r, x, size in zip(operands, steps, sizes):
        em.require(le(x // 32, MAX_STRIDE), f"block {op.block.name}: rows of {r.buffer} are at most {MAX_STRIDE * 32 // size:,} elements")
    em.require(le(largest(count, op.above), MAX_REPEAT), f"block {op.block.name}: at most {MAX_REPEAT} rows are worked on at a time")
    part, names = em.fresh("part"), operand_names(len(operands) - 1)
    at = [o + product_sum(s, [v for v, _ in extents[:-2] if v in s]) for o, s in zip(offsets, strides)]
    moved = [o + Var(part) * lanes if a else o for o, a in zip(at, along)]
    fields: dict[str, Expr | Ref] = {n: em.ref(r.buffer, o) for n, r, o in zip(names, operands, moved)}
    fixed = {f"{n}_blk": Int(int(a)) for n, a in zip(names, along)} | {f"{n}_rep": normalise(x // 32) for n, x in zip(names, steps)}
    return nest([*extents[:-2], (part, inner // lanes)], [make(work, fields, Int(lanes), count, fixed)])  # type: ignore[arg-type]


def padded_length(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> Expr | None:
    """Return the number of elements of one run over whole rows, with the padding of their last blocks, where all operands have one
    layout. Return None elsewhere."""
    if len(extents) < 2 or not isinstance(extents[-1][1], Int):
        return None
    inner, dst = extents[-1][1].value, em.buffers[operands[0].buffer]
    pitch = -(-inner // c0(dst)) * c0(dst)
    last = ("", Int(pitch))
    whole = [{**s, "": Int(1)} for s in strides]
    alike = all(s.get(extents[-1][0], Int(0)) == Int(1) for s in strides) and flat_from(em, operands, whole, [*extents[:-1], last])
    own = all(normalise(em.buffers[r.buffer].shape[-1]) == Int(inner) and len(em.buffers[r.buffer].shape) > 1 for r in operands)
    return product([e for _, e in extents[:-1]]) * pitch if alike and own else None


def by_rows(em: Emitter, op: TileOp, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
            extents: list[tuple[str, Expr]]) -> list[Item]:
    """Return the operation on rows. Rows of a known length are done a part of all rows at a time, where there are at least as many rows
    as parts; else one after the other. Where it takes less time, numbers of rows are first laid out for each part."""
    one_by_one = rows(em, work, operands, strides, offsets, extents)
    steps = row_steps(em, operands, strides, extents)
    if steps is None:
        return one_by_one
    inner, lanes = extents[-1][1].value, lanes_of(max(dtype_size(em.buffers[r.buffer]) for r in operands))  # type: ignore[attr-defined]
    together = row_parts(em, work, operands, strides, offsets, extents, steps)
    parts, count = -(-inner // lanes), extents[-2][1]
    apiece = either_of(em, both(le(parts, count), le(count, MAX_REPEAT)), together, one_by_one)
    if (several := with_laid_rows(em, work, operands, strides, offsets, extents)) is not None:
        return either_of(em, le(ceildiv(count, TIMES), minimum(parts, count)), several, apiece)
    if (number := number_of_rows(em, operands, strides, extents, steps)) is None:
        return apiece
    most = largest(count, op.above)  # decided by whole tiles, so that the size of what is laid out is known
    laid = ceildiv(parts, BLOCKS) * (most + COPY_HEAD) + ceildiv(most * parts, MAX_REPEAT) * HEAD
    pays = normalise(both(le(laid, minimum(parts, most) * HEAD - 1), le(most * parts, MOST_LAID)))
    # a repeat of the copy writes eight blocks, behind the last rows too
    room = normalise(select(pays, most * parts + BLOCKS, 1) * (lanes // BLOCKS))
    blocks = em.add_scratch(em.buffers[operands[number].buffer].dtype, room)
    return one_of(em, pays, laid_out(em, work, operands, strides, offsets, extents, number, blocks), apiece)


def number_of_rows(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]],
                   steps: list[int]) -> int | None:
    """Return the operand that has one element a row, which fills its block, where all others are rows of whole repeats without a gap.
    Return None where there is none."""
    lane, inner = extents[-1]
    assert isinstance(inner, Int)
    size = dtype_size(em.buffers[operands[0].buffer])
    still = [i for i, s in enumerate(strides) if s.get(lane, Int(0)) == Int(0)]
    alike = all(dtype_size(em.buffers[r.buffer]) == size for r in operands)
    if len(still) != 1 or not alike or inner.value % lanes_of(size) or inner.value <= lanes_of(size) or steps[still[0]] != 1:
        return None
    return still[0] if all(i == still[0] or step * 32 == inner.value * size for i, step in enumerate(steps)) else None


def laid_out(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
             extents: list[tuple[str, Expr]], number: int, blocks: str) -> list[Item]:
    """Return the operation as one run over all rows. The block of each row's number is stored once for every part of a row, and all
    blocks of a repeat read it."""
    (_, count), (_, inner) = extents[-2:]
    assert isinstance(inner, Int)
    b, outer = em.buffers[operands[number].buffer], [v for v, _ in extents[:-2]]
    lanes, unit = lanes_of(dtype_size(b)), c0(b)
    parts = inner.value // lanes
    at = [o + product_sum(s, [v for v in outer if v in s]) for o, s in zip(offsets, strides)]
    before = list[Item]()
    for first in reversed(range(0, parts, BLOCKS)):  # what the last writes behind a row is the next one's first parts
        filled = {"dst": em.ref(blocks, Int(first * unit)), "src": em.ref(b.name, at[number])}
        apart = {"dst_blk": 1, "src_blk": 0, "dst_rep": parts, "src_rep": 1}
        before.append(make(VectorOp("vcopy", ()), filled, Int(min(BLOCKS, parts - first) * unit), count, apart))  # type: ignore[arg-type]
    v, names = em.fresh("rep"), operand_names(len(operands) - 1)
    done = Var(v) * MAX_REPEAT
    places = [(blocks, done * unit) if i == number else (r.buffer, o + done * lanes) for i, (r, o) in enumerate(zip(operands, at))]
    fields: dict[str, Expr | Ref] = {n: em.ref(*place) for n, place in zip(names, places)}
    fixed = {f"{n}_blk": int(i != number) for i, n in enumerate(names)} | {f"{n}_rep": 1 if i == number else BLOCKS
                                                                            for i, n in enumerate(names)}
    total = count * parts
    once = make(work, fields, Int(lanes), minimum(MAX_REPEAT, total - done), fixed)
    return nest(extents[:-2], [*before, For(v, normalise(ceildiv(total, MAX_REPEAT)), (once,))])


def row_steps(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> list[int] | None:
    """Return the blocks from row to row of each operand, where repeats can step over rows. Return None elsewhere.

    Every repeat but the last takes all lanes. So the data that it writes behind a row must lie in the next row, and there must be none
    where rows are worked on in place."""
    if len(extents) < 2 or not isinstance(extents[-1][1], Int):
        return None
    (row, _), lane, inner = extents[-2], extents[-1][0], extents[-1][1]
    assert isinstance(inner, Int)
    lanes = lanes_of(max(dtype_size(em.buffers[r.buffer]) for r in operands))
    if inner.value % lanes and operands[0].buffer in {r.buffer for r in operands[1:]}:
        return None
    whole = -(-inner.value // lanes) * lanes
    out = []
    for r, s in zip(operands, strides):
        step, size, run_of = s.get(row, Int(0)), dtype_size(em.buffers[r.buffer]), s.get(lane, Int(0))
        spread = run_of == Int(0) and r.buffer in em.spread
        if not isinstance(step, Int) or step.value * size % 32 or step.value * size // 32 > MAX_STRIDE:
            return None
        still = step == Int(0) and em.buffers[r.buffer].shape[-1] == inner  # one row for all
        if not spread and (run_of != Int(1) or not still and 2 * step.value < whole):
            return None
        out.append(step.value * size // 32)
    return out


def row_parts(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
              extents: list[tuple[str, Expr]], steps: list[int]) -> list[Item]:
    """Return a repeat for each of at most MAX_REPEAT rows. The last part of the rows is done first: the other parts overwrite what it
    writes behind a row."""
    (_, count), (lane, inner) = extents[-2], extents[-1]
    assert isinstance(inner, Int)
    outer = [v for v, _ in extents[:-2]]
    lanes = lanes_of(max(dtype_size(em.buffers[r.buffer]) for r in operands))
    part = em.fresh("part")

    def at(number: Expr, width: int) -> Instr:
        fields: dict[str, Expr | Ref] = {}
        fixed: dict[str, int] = {}
        for name, r, o, s, step in zip(operand_names(len(operands) - 1), operands, offsets, strides, steps):
            along = s.get(lane, Int(0)) == Int(1)
            if along and not step:  # every repeat but the last reads whole lanes of the row
                em.behind[r.buffer] = normalise(maximum(em.behind.get(r.buffer, Int(0)), -inner.value % lanes))
            place = o + product_sum(s, [v for v in outer if v in s])
            fields[name] = em.ref(r.buffer, place + number * lanes if along else place)
            fixed[f"{name}_blk"], fixed[f"{name}_rep"] = int(along), step
        return make(work, fields, Int(width), count, fixed)

    more = -(-inner.value // lanes) - 1
    body: list[Item] = [at(Int(more), inner.value - more * lanes)]
    if more:
        body.append(For(part, Int(more), (at(Var(part), lanes),)))
    return nest(extents[:-2], body)


def cast_runs(em: Emitter, op: TileOp, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
              extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return a cast of rows that follow each other without a gap in both types, as one run for each iteration of the other loops. Return
    None where the lanes follow on without a gap in none of the loops."""
    *outer, (lane, run_length) = side_by_side(strides, extents)
    same = len({dtype_size(em.buffers[r.buffer]) for r in operands}) == 1
    if same or len(outer) == len(extents) - 1 or any(s.get(lane) != Int(1) for s in strides):
        return None
    for r, s in zip(operands, strides):
        require_rows(em, op, r.buffer, s, outer)
    at = [o + product_sum(s, [v for v, _ in outer if v in s]) for o, s in zip(offsets, strides)]
    places = [(r.buffer, o) for r, o in zip(operands, at)]
    return nest(outer, [run(em, work, places[0], places[1:], run_length)])


def cast_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
              extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return a cast of rows that take less than half a repeat, between types that pad them to other lengths. Return None for other rows.

    Each row takes a repeat with all lanes. The next rows overwrite the lanes that are not the row's own. The last rows, with no more
    behind them, are done one after the other."""
    lanes, loops = lanes_of(max(dtype_size(em.buffers[r.buffer]) for r in operands)), side_by_side(strides, extents[:-1])
    if len(operands) != 2 or len({em.buffers[r.buffer].dtype for r in operands}) == 1 or not loops or not isinstance(extents[-1][1], Int):
        return None
    *outer, (row, count) = loops
    steps, units = [s.get(row, Int(0)) for s in strides], [c0(em.buffers[r.buffer]) for r in operands]
    along = [s.get(extents[-1][0], Int(0)) == Int(1) and r.buffer not in em.spread for r, s in zip(operands, strides)]
    blocks = [x.value // unit for x, unit in zip(steps, units) if isinstance(x, Int) and x.value % unit == 0]
    if len(blocks) < 2 or not all(a or r.buffer in em.spread for r, a in zip(operands, along)) or not 0 < max(blocks) <= MAX_STRIDE:
        return None
    last = max(-(-lanes // x.value) - 1 for x, a in zip(steps, along) if a)  # type: ignore[attr-defined]
    if not along[0] or last < 2:
        return None
    head, batch, at = maximum(count - last, 0), em.fresh("batch"), em.fresh("row")
    done = Var(batch) * MAX_REPEAT
    start = [o + product_sum(s, [v for v, _ in outer if v in s]) for o, s in zip(offsets, strides)]
    names = operand_names(1)
    fields: dict[str, Expr | Ref] = {n: em.ref(r.buffer, o + done * x) for n, r, o, x in zip(names, operands, start, steps)}
    apart = {f"{n}_blk": int(a) for n, a in zip(names, along)} | {f"{n}_rep": b for n, b in zip(names, blocks)}
    repeats = make(work, fields, Int(lanes), minimum(MAX_REPEAT, head - done), apart)
    places = [o + head * x for o, x in zip(start, steps)]
    apiece = rows(em, work, operands, [{at: x} | {v: s[v] for v in s if v == extents[-1][0]} for x, s in zip(steps, strides)], places,
                  [(at, minimum(count, last)), extents[-1]])
    return nest(outer, [*nest([(batch, ceildiv(head, MAX_REPEAT))], [repeats]), *apiece])


def rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
         extents: list[tuple[str, Expr]]) -> list[Item]:
    """Return a contiguous run for each point of the outer loops. A source that is one element for a row is broadcast first, unless it
    fills its block already."""
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
        elif step == Int(0) and r.buffer in em.spread:
            scratch.add(r.buffer)
            srcs.append((r.buffer, o))
        elif step == Int(0):
            b = block_of(em, r.buffer, o, before)
            scratch.add(b)
            srcs.append((b, Int(0)))
        else:
            raise UnsupportedError("a vector operation reads lanes at a stride")
    item = run(em, work, (operands[0].buffer, at[0]), srcs, inner, frozenset(scratch))
    return nest(outer, [*before, item])
