"""Emission of one vector operation over the elements of UB buffers.

An operation becomes one of three forms, chosen by structure alone: *flat* (all operands are one contiguous run),
*strided* (32-byte blocks at a stride per operand, eight a repeat; of short rows a repeat a row), *rows* (a run for each row, loops
around).
"""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, Int, Read, Var, both, ceildiv, either, eq, le, maximum, minimum, normalise, variables
from aoec.ir.program import For, Instr, Item, Ref
from aoec.lowering.emit_place import in_place
from aoec.lowering.emit_runs import (
    BLOCKS,
    MAX_REPEAT,
    MAX_STRIDE,
    either_of,
    lanes_of,
    make,
    nest,
    operand_names,
    product_sum,
    run,
)
from aoec.lowering.tile import Emitter, TileOp, base_offset, c0, dtype_size, instr, largest, loop_strides, product
from aoec.target.instructions import REPEAT_BYTES
from aoec.target.words import VectorOp


def elementwise(em: Emitter, op: TileOp, work: VectorOp, accumulate: bool = False, skip: frozenset[str] = frozenset()) -> list[Item]:
    """All points of the tensor loops but `skip`; with `accumulate` the target is the first source too."""
    target = op.block.target
    operands = [target, *([target] if accumulate else []), *work.sources]
    own = [lp for lp in op.loops if lp.var not in skip]
    loops = [lp for lp in own if lp.extent != Int(1)] or own[-1:] or list(op.loops[-1:])
    if any(lp.var in skip for lp in loops):
        raise UnsupportedError(f"block {op.block.name}: nothing to do in lanes")
    strides = [loop_strides(em.buffers[r.buffer], r.indices, op) for r in operands]
    offsets = [base_offset(em.buffers[r.buffer], r.indices, op.names) for r in operands]
    moves = [[lp.var for lp in op.loops if lp.var in skip and lp.var in s] for s in strides]
    offsets = [o + product_sum(s, m) for o, s, m in zip(offsets, strides, moves)]
    every = [(lp.var, lp.extent) for lp in op.loops]
    if reordered(op, work) and (moved := strided(em, work, operands, strides, offsets, every)) is not None:
        return moved
    extents = [(lp.var, lp.extent) for lp in loops]
    if all(s.get(extents[-1][0], Int(0)) != Int(1) for s in strides):  # one element a row
        extents.append(("", Int(1)))
        strides = [{**s, "": Int(1)} for s in strides]
    if flat_from(em, operands, strides, extents):
        in_place(em, operands)
        total = product([e for _, e in extents])
        return [run(em, work, (target.buffer, offsets[0]), list(zip([r.buffer for r in operands[1:]], offsets[1:])), total)]
    if (together := lane_parts(em, op, work, operands, strides, offsets, extents)) is not None:
        return together
    if (whole := padded(em, operands, strides, extents)) is not None:
        if work.sources and all(r.buffer in em.spread for r in operands[1:]):
            em.spread.add(target.buffer)
        return [run(em, work, (target.buffer, offsets[0]), list(zip([r.buffer for r in operands[1:]], offsets[1:])), whole)]
    if (parts := row_blocks(em, work, operands, strides, offsets, joined(strides, extents))) is not None:
        return parts
    blocks = None if wide_rows(em, operands, strides, extents) else strided(em, work, operands, strides, offsets, extents)
    if blocks is not None:
        stepped = over_rows(em, work, operands, strides, offsets, extents)
        return blocks if stepped is None else either_of(em, *stepped, blocks)
    rows_around = [(lp.var, lp.extent) for lp in own if lp.var != extents[-1][0]]
    if (parts := narrow_rows(em, work, operands, strides, offsets, [*rows_around, extents[-1]])) is not None:
        return parts
    for r, s in zip(operands, strides):
        require_rows(em, op, r.buffer, s, extents[:-1])
    if (cast := cast_rows(em, work, operands, strides, offsets, [*rows_around, extents[-1]])) is not None:
        return cast
    return by_rows(em, work, operands, strides, offsets, extents)


def reordered(op: TileOp, work: VectorOp) -> bool:
    """True for a copy whose target has its axes in another order: one form for all extents, also where one is 1 and nothing moves."""
    if work.name != "vcopy":
        return False
    to, source = ([v for i in r.indices for v in sorted(variables(i)) if v in op.names] for r in (op.block.target, work.sources[0]))
    return to != source and sorted(to) == sorted(source)


def require_rows(em: Emitter, op: TileOp, buffer: str, strides: dict[str, Expr], outer: list[tuple[str, Expr]]) -> None:
    """Asks that every row starts on a block, as a vector operand must: rows of whole blocks, or one row a tile."""
    for v, extent in outer:
        aligned = eq(strides.get(v, Int(0)) * dtype_size(em.buffers[buffer]) % 32, 0)
        em.require(either(aligned, le(largest(extent, op.above), 1)),
                   f"block {op.block.name}: rows of {buffer} that are no whole blocks of 32 bytes are taken one a tile")


def wide_rows(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> bool:
    """True for rows of a repeat or more, of whole blocks: eight blocks of a row a repeat take fewer instructions than a block of eight
    rows, and lie in eight bank groups."""
    inner, size = extents[-1][1], dtype_size(em.buffers[operands[0].buffer])
    return isinstance(inner, Int) and inner.value * size >= REPEAT_BYTES and row_steps(em, operands, strides, extents) is not None


def flat_from(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> bool:
    """True where the loops walk every operand without a gap, by structure."""
    step: Expr = Int(1)
    for v, e in reversed(extents):
        if any(s.get(v, Int(0)) != step for s in strides):
            return False
        if v != extents[0][0]:
            step = normalise(step * e)
    return True


def strided(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
            extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Blocks of 32 bytes at a stride, when the innermost loop is whole blocks and the next has literal strides."""
    sizes = {dtype_size(em.buffers[r.buffer]) for r in operands}
    if len(extents) < 2 or len(sizes) != 1:
        return None
    unit, (v_in, inner) = 32 // sizes.pop(), extents[-1]
    if not isinstance(inner, Int) or inner.value % unit or any(s.get(v_in, Int(0)) != Int(1) for s in strides):
        return None
    return block_columns(em, work, operands, strides, offsets, extents)


def narrow_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Rows that take less than half a repeat, with what pads their last blocks, a block of eight rows a repeat. A source may be one row
    for all, or one element a row that fills its block. None for other rows, of which a repeat takes one (`by_rows`)."""
    sizes, (lane, inner) = {dtype_size(em.buffers[r.buffer]) for r in operands}, extents[-1]
    if len(extents) < 2 or len(sizes) != 1 or not isinstance(inner, Int):
        return None
    size = sizes.pop()
    unit = 32 // size
    whole = -(-inner.value // unit) * unit
    if 2 * whole >= lanes_of(size):
        return None
    for r, s in zip(operands, strides):
        run_of, shape, still = s.get(lane, Int(0)), em.buffers[r.buffer].shape, s.get(extents[-2][0], Int(0)) == Int(0)
        pads = inner.value == whole or (len(shape) > 1 or still) and normalise(shape[-1]) == inner
        if not (run_of == Int(1) and pads or run_of == Int(0) and r.buffer in em.spread):
            return None
    return block_columns(em, work, operands, strides, offsets, [*side_by_side(strides, extents[:-1]), (lane, Int(whole))])


def side_by_side(strides: list[dict[str, Expr]], loops: list[tuple[str, Expr]]) -> list[tuple[str, Expr]]:
    """The loops with the innermost two made one, as long as no operand has a gap between them."""
    if len(loops) < 2:
        return loops
    *outer, (far, times), (near, count) = loops
    if any(s.get(far, Int(0)) != normalise(s.get(near, Int(0)) * count) for s in strides):
        return loops
    return side_by_side(strides, [*outer, (near, normalise(times * count))])


def block_columns(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                  extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """One block after the other of rows of whole blocks, each of eight rows a repeat; None where rows lie at no literal stride."""
    unit = 32 // dtype_size(em.buffers[operands[0].buffer])
    (v_blk, count), (v_in, inner) = extents[-2], extents[-1]
    assert isinstance(inner, Int)
    steps = [s.get(v_blk, Int(0)) for s in strides]
    if not all(isinstance(s, Int) and s.value % unit == 0 for s in steps):
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
        at = o + product_sum(s, [v for v, _ in outer if v in s]) + Var(rep) * (per_repeat * BLOCKS * b * unit)
        fields[name] = em.ref(r.buffer, at + Var(sub) * unit if v_in in s else at)
        fixed[f"{name}_blk"], fixed[f"{name}_rep"] = b, b * BLOCKS if per_repeat > 1 else 0
    body: list[Item] = [make(work, fields, lanes, repeat, fixed)]
    return nest([*outer, (sub, Int(inner.value // unit)), (rep, ceildiv(total, per_repeat))], body)


def over_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
              extents: list[tuple[str, Expr]]) -> tuple[Expr, list[Item]] | None:
    """What `strided` does row by row, of rows of known length: eight blocks of every row an instruction, a repeat a row. What is left of
    them goes in eight that end with the row, where what these do again changes nothing, else a block of every row an instruction. With
    whether these are fewer instructions, as they are where rows are short. None where rows do not lie at a literal stride."""
    if len(extents) < 3:
        return None
    *outer, (row, rows), (column, count), (lane, inner) = extents
    if not isinstance(count, Int) or not isinstance(inner, Int):
        return None
    unit, names = 32 // dtype_size(em.buffers[operands[0].buffer]), operand_names(len(operands) - 1)
    down, along = ([s.get(v, Int(0)) for s in strides] for v in (row, column))
    far = [x.value // unit for x in (*along, *down) if isinstance(x, Int) and x.value % unit == 0 and x.value // unit <= MAX_STRIDE]
    if len(far) < 2 * len(names):
        return None
    eights, rest = divmod(count.value, BLOCKS)
    again = bool(eights and rest) and idempotent(work, operands)
    if rest and not again and max(far[len(names):]) * BLOCKS > MAX_STRIDE:
        return None
    part, sub = em.fresh("part"), em.fresh("blk")
    at = [o + product_sum(s, [v for v, _ in outer if v in s]) + Var(sub) * unit for o, s in zip(offsets, strides)]
    apart = {f"{n}_{kind}": x for (kind, n), x in zip(((k, n) for k in ("blk", "rep") for n in names), far)}

    def repeats(start: Expr) -> Instr:
        fields: dict[str, Expr | Ref] = {n: em.ref(r.buffer, o + start * s) for n, r, o, s in zip(names, operands, at, along)}
        return make(work, fields, Int(BLOCKS * unit), rows, apart)
    items = nest([(part, Int(eights))], [repeats(Var(part) * BLOCKS)]) if eights else []
    items = nest([*outer, (sub, Int(inner.value // unit))], [*items, *([repeats(count - BLOCKS)] if again else [])])
    if rest and not again:
        moved = [o + s * (count - rest) for o, s in zip(offsets, along)]
        items = [*(items if eights else []),
                 *(strided(em, work, operands, strides, moved, [*outer, (column, Int(rest)), (row, rows), (lane, inner)]) or [])]
    return both(le(eights + (int(again) or rest), rows - 1), le(rows, MAX_REPEAT)), items


def joined(strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> list[tuple[str, Expr]]:
    """The loops with the innermost ones made one as long as every operand walks them without a gap; literal lengths only."""
    if len(extents) < 2:
        return extents
    *outer, (row, count), (lane, inner) = extents
    if not (isinstance(inner, Int) and isinstance(count, Int)) or any(s.get(lane) != Int(1) or s.get(row) != inner for s in strides):
        return extents
    return joined(strides, [*outer, (lane, Int(count.value * inner.value))])


def row_blocks(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
               extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Rows of whole blocks, longer than a repeat, a repeat of each of all rows at a time. What is left of them goes in a repeat that ends
    with the row, where what it does again changes nothing, else by blocks. None where that is no fewer instructions than rows."""
    sizes = {dtype_size(em.buffers[r.buffer]) for r in operands}
    if len(extents) < 2 or len(sizes) != 1:
        return None
    *outer, (row, count), (lane, inner) = extents
    lanes = lanes_of(sizes.pop())
    unit, steps = lanes // BLOCKS, [s.get(row, Int(0)) for s in strides]
    apart = [x.value // unit for x in steps if isinstance(x, Int) and x.value % unit == 0 and x.value // unit <= MAX_STRIDE]
    if not isinstance(inner, Int) or len(apart) < len(steps) or any(s.get(lane) != Int(1) for s in strides):
        return None
    full, rest = divmod(inner.value, lanes)
    again = rest > 0 and idempotent(work, operands)
    if not full or rest % unit or not fewer(full + (1 if again else rest // unit), count):
        return None
    part, turn, names = em.fresh("part"), em.fresh("turn"), operand_names(len(operands) - 1)
    turns: list[tuple[str, Expr]] = [] if isinstance(count, Int) else [(turn, ceildiv(count, MAX_REPEAT))]
    repeat = minimum(MAX_REPEAT, count - Var(turn) * MAX_REPEAT) if turns else count
    fixed = {f"{n}_blk": 1 for n in names} | {f"{n}_rep": b for n, b in zip(names, apart)}

    def repeats(start: Expr) -> Instr:
        moves = [Var(turn) * (MAX_REPEAT * unit * b) if turns else Int(0) for b in apart]
        at = [o + product_sum(s, [v for v, _ in outer if v in s]) + start + m for o, s, m in zip(offsets, strides, moves)]
        return make(work, {n: em.ref(r.buffer, o) for n, r, o in zip(names, operands, at)}, Int(lanes), repeat, fixed)
    items = nest([(part, Int(full))], [repeats(Var(part) * lanes)]) + ([repeats(Int(inner.value - lanes))] if again else [])
    whole = nest([*outer, *turns], items)
    tail = [*outer, (row, count), (lane, Int(rest))]
    left = strided(em, work, operands, strides, [o + full * lanes for o in offsets], tail) if rest and not again else []
    return None if left is None else [*whole, *left]


def idempotent(work: VectorOp, operands: list[Read]) -> bool:
    """Whether doing an operation twice gives what it gives once: a maximum or minimum, or what does not read where it writes."""
    return work.name in ("vmax", "vmin") or all(r.buffer != operands[0].buffer for r in operands[1:])


def fewer(parts: int, rows: Expr) -> bool:
    """Whether so many instructions are fewer than one a row; of rows whose number is open, two at most are."""
    return parts < rows.value <= MAX_REPEAT if isinstance(rows, Int) else parts <= 2


def lane_parts(em: Emitter, op: TileOp, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
               extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """A repeat of each of all rows at a time, of rows that are whole repeats and worked on in place, where what is written behind a row
    would be lost. A source may be one row for all, or one element a row that fills its block. None for other rows."""
    sizes = {dtype_size(em.buffers[r.buffer]) for r in operands}
    if len(extents) < 2 or len(sizes) != 1:
        return None
    (row, count), (lane, inner) = extents[-2:]
    size = sizes.pop()
    lanes, steps = lanes_of(size), [s.get(row, Int(0)) * size for s in strides]
    along = [s.get(lane, Int(0)) == Int(1) for s in strides]
    apart = operands[0].buffer not in {r.buffer for r in operands[1:]}
    spread = all(a or s.get(lane, Int(0)) == Int(0) and r.buffer in em.spread for r, s, a in zip(operands, strides, along))
    if apart or not along[0] or not spread or any(normalise(e) != Int(0) for e in (inner % lanes, *[x % 32 for x in steps])):
        return None
    for r, x in zip(operands, steps):
        em.require(le(x // 32, MAX_STRIDE), f"block {op.block.name}: rows of {r.buffer} are at most {MAX_STRIDE * 32 // size:,} elements")
    em.require(le(largest(count, op.above), MAX_REPEAT), f"block {op.block.name}: at most {MAX_REPEAT} rows are worked on at a time")
    part, names = em.fresh("part"), operand_names(len(operands) - 1)
    at = [o + product_sum(s, [v for v, _ in extents[:-2] if v in s]) for o, s in zip(offsets, strides)]
    moved = [o + Var(part) * lanes if a else o for o, a in zip(at, along)]
    fields: dict[str, Expr | Ref] = {n: em.ref(r.buffer, o) for n, r, o in zip(names, operands, moved)}
    fixed = {f"{n}_blk": Int(int(a)) for n, a in zip(names, along)} | {f"{n}_rep": normalise(x // 32) for n, x in zip(names, steps)}
    return nest([*extents[:-2], (part, inner // lanes)], [make(work, fields, Int(lanes), count, fixed)])  # type: ignore[arg-type]


def padded(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> Expr | None:
    """The elements of one run over whole rows with what pads their last blocks, where all operands lie alike; else None."""
    if len(extents) < 2 or not isinstance(extents[-1][1], Int):
        return None
    inner, dst = extents[-1][1].value, em.buffers[operands[0].buffer]
    pitch = -(-inner // c0(dst)) * c0(dst)
    last = ("", Int(pitch))
    whole = [{**s, "": Int(1)} for s in strides]
    alike = all(s.get(extents[-1][0], Int(0)) == Int(1) for s in strides) and flat_from(em, operands, whole, [*extents[:-1], last])
    own = all(normalise(em.buffers[r.buffer].shape[-1]) == Int(inner) and len(em.buffers[r.buffer].shape) > 1 for r in operands)
    return product([e for _, e in extents[:-1]]) * pitch if alike and own else None


def by_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
            extents: list[tuple[str, Expr]]) -> list[Item]:
    """Rows of a known length a part of all of them at a time, where they are as many as parts; else one after the other."""
    one_by_one = rows(em, work, operands, strides, offsets, extents)
    steps = row_steps(em, operands, strides, extents)
    if steps is None:
        return one_by_one
    inner, lanes = extents[-1][1].value, lanes_of(max(dtype_size(em.buffers[r.buffer]) for r in operands))  # type: ignore[attr-defined]
    together = row_parts(em, work, operands, strides, offsets, extents, steps)
    return either_of(em, both(le(-(-inner // lanes), extents[-2][1]), le(extents[-2][1], MAX_REPEAT)), together, one_by_one)


def row_steps(em: Emitter, operands: list[Read], strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> list[int] | None:
    """Blocks from row to row of each operand, where repeats can step over rows; else None. Every repeat but the last takes all lanes:
    what it writes behind a row must lie in the next."""
    if len(extents) < 2 or not isinstance(extents[-1][1], Int) or operands[0].buffer in {r.buffer for r in operands[1:]}:
        return None
    (row, _), lane, inner = extents[-2], extents[-1][0], extents[-1][1]
    assert isinstance(inner, Int)
    lanes = lanes_of(max(dtype_size(em.buffers[r.buffer]) for r in operands))
    whole = -(-inner.value // lanes) * lanes
    out = []
    for r, s in zip(operands, strides):
        step, size, run_of = s.get(row, Int(0)), dtype_size(em.buffers[r.buffer]), s.get(lane, Int(0))
        spread = run_of == Int(0) and r.buffer in em.spread
        if not isinstance(step, Int) or step.value * size % 32 or step.value * size // 32 > MAX_STRIDE:
            return None
        still = step == Int(0) and em.buffers[r.buffer].shape[-1] == inner  # one row for all; its slot is as long as whole lanes
        if not spread and (run_of != Int(1) or not still and 2 * step.value < whole):
            return None
        out.append(step.value * size // 32)
    return out


def row_parts(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
              extents: list[tuple[str, Expr]], steps: list[int]) -> list[Item]:
    """A repeat for each of at most MAX_REPEAT rows, the last part first: what it writes behind a row the others overwrite."""
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
            place = o + product_sum(s, [v for v in outer if v in s])
            fields[name] = em.ref(r.buffer, place + number * lanes if along else place)
            fixed[f"{name}_blk"], fixed[f"{name}_rep"] = int(along), step
        return make(work, fields, Int(width), count, fixed)

    more = -(-inner.value // lanes) - 1
    body: list[Item] = [at(Int(more), inner.value - more * lanes)]
    if more:
        body.append(For(part, Int(more), (at(Var(part), lanes),)))
    return nest(extents[:-2], body)


def cast_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
              extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Rows that take less than half a repeat, of types that pad them to other lengths: a repeat a row with all lanes, of which the rows
    behind overwrite those that are not its own. The last rows, with no more behind them, go one after the other. None for other rows."""
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
    """A contiguous run for each point of the outer loops; a source that stands still in a row is broadcast first, where it does not
    fill its block already."""
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
            b = em.add_scratch(em.buffers[r.buffer].dtype, BLOCKS * c0(em.buffers[r.buffer]))
            before.append(instr("vbrcb", dst=em.ref(b, Int(0)), src=em.ref(r.buffer, o), repeat=1, dst_blk=1, dst_rep=BLOCKS))
            scratch.add(b)
            srcs.append((b, Int(0)))
        else:
            raise UnsupportedError("a vector operation reads lanes at a stride")
    item = run(em, work, (operands[0].buffer, at[0]), srcs, inner, frozenset(scratch))
    return nest(outer, [*before, item])
