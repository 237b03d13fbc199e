"""Rows of blocks in UB: one vector operation over them, blocks of 32 bytes at a stride, eight a repeat or a repeat of every row."""
from __future__ import annotations

from aoec.ir.index import Expr, Int, Read, Var, both, ceildiv, le, minimum, normalise
from aoec.ir.program import Instr, Item, Ref
from aoec.lowering.emit.emit_runs import BLOCKS, MAX_REPEAT, MAX_STRIDE, lanes_of, make, nest, operand_names, product_sum
from aoec.lowering.emit.tile import Emitter, dtype_size
from aoec.target.isa.words import VectorOp


def emit_strided(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                 extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Emit blocks of 32 bytes at a stride, when the innermost loop is whole blocks and the next has literal strides."""
    sizes = {dtype_size(em.buffers[r.buffer]) for r in operands}
    if len(extents) < 2 or len(sizes) != 1:
        return None
    unit, (v_in, inner) = 32 // sizes.pop(), extents[-1]
    if not isinstance(inner, Int) or inner.value % unit or any(s.get(v_in, Int(0)) != Int(1) for s in strides):
        return None
    return block_columns(em, work, operands, strides, offsets, extents)


def narrow_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return the operation on rows that take less than half a repeat, with what pads their last blocks: a block of eight rows a repeat.
    A source may be one row for all, or one element a row that fills its block. Return None for other rows, of which a repeat takes one
    (`by_rows`)."""
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
    """Return the loops with the innermost two merged, as long as no operand has a gap between them."""
    if len(loops) < 2:
        return loops
    *outer, (far, times), (near, count) = loops
    if any(s.get(far, Int(0)) != normalise(s.get(near, Int(0)) * count) for s in strides):
        return loops
    return side_by_side(strides, [*outer, (near, normalise(times * count))])


def block_columns(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                  extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return the operation on rows of whole blocks, one block after the other, with eight rows a repeat. Return None where rows lie at
    no literal stride."""
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
    """Emit what `emit_strided` does, row by row, for rows of known length. An instruction takes eight blocks of every row, with a repeat
    for each row. Return also whether that takes fewer instructions, as it does where rows are short. Return None where rows do not lie at a
    literal stride.

    The blocks left over are done as the last eight of the row, where doing some again changes nothing. Elsewhere an instruction takes
    one block of every row."""
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
                 *(emit_strided(em, work, operands, strides, moved, [*outer, (column, Int(rest)), (row, rows), (lane, inner)]) or [])]
    return both(le(eights + (int(again) or rest), rows - 1), le(rows, MAX_REPEAT)), items


def join_loops(strides: list[dict[str, Expr]], extents: list[tuple[str, Expr]]) -> list[tuple[str, Expr]]:
    """Return the loops with the innermost ones merged as long as every operand walks them without a gap; literal lengths only."""
    if len(extents) < 2:
        return extents
    *outer, (row, count), (lane, inner) = extents
    if not (isinstance(inner, Int) and isinstance(count, Int)) or any(s.get(lane) != Int(1) or s.get(row) != inner for s in strides):
        return extents
    return join_loops(strides, [*outer, (lane, Int(count.value * inner.value))])


def row_blocks(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
               extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return the operation on rows of whole blocks that are longer than a repeat, one repeat of each row at a time. The rest of the rows
    is done in a repeat that ends with the row, where doing some again changes nothing, and else by blocks. Return None where that takes
    no fewer instructions than there are rows."""
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
    left = emit_strided(em, work, operands, strides, [o + full * lanes for o in offsets], tail) if rest and not again else []
    return None if left is None else [*whole, *left]


def idempotent(work: VectorOp, operands: list[Read]) -> bool:
    """Return whether doing an operation twice gives what it gives once: a maximum or minimum, or what does not read where it writes."""
    return work.name in ("vmax", "vmin") or all(r.buffer != operands[0].buffer for r in operands[1:])


def fewer(parts: int, rows: Expr) -> bool:
    """Return whether so many instructions are fewer than one a row; of rows whose number is open, two at most are."""
    return parts < rows.value <= MAX_REPEAT if isinstance(rows, Int) else parts <= 2
