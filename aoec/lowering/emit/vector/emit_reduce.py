"""Emission of reductions: lane by lane over outer axes, or whole rows to one element each, in one go or a part at a time.

Where a serial loop walks the reduced axis too, its first iteration sets the result to the identity and each adds its part.
A long row is first folded, eight or thirty-two repeats at a time, into as many: a whole reduce costs seven times an addition.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from aoec.base.errors import UnsupportedError
from aoec.ir.func.tir import Loop
from aoec.ir.index import Cast, Expr, Int, Read, Var, both, ceildiv, eq, le, maximum, minimum, normalise, round_up, select
from aoec.ir.program import For, Item, Ref
from aoec.lowering.emit.emit_runs import (
    BLOCKS,
    MAX_REPEAT,
    MAX_STRIDE,
    either_of,
    lanes_of,
    make,
    nest,
    operand_names,
    product_sum,
    when,
)
from aoec.lowering.emit.tile import Emitter, TileOp, base_offset, c0, dtype_size, instr, largest, loop_strides, uses
from aoec.lowering.emit.vector.emit_blocks import side_by_side
from aoec.lowering.emit.vector.emit_fold import fold_rows, rows_of
from aoec.lowering.emit.vector.emit_lanes import elementwise, require_rows
from aoec.lowering.emit.vector.emit_rows import PITCH, SIXTEEN, ShortRows, short_rows
from aoec.lowering.emit.vector.emit_spread import spread_among, spread_run
from aoec.target.isa.words import VectorOp

FEW, MANY = 8, 32  # repeats that a row is folded into
REDUCERS = {"+=": ("vadd", "vcadd", 0.0), "max=": ("vmax", "vcmax", float("-inf")), "min=": ("vmin", "vcmin", float("inf"))}
LONG = 64  # repeats from which on it is folded into MANY first


def reduce(em: Emitter, op: TileOp, home: frozenset[str]) -> list[Item]:
    """Return a reduction over tensor loops: across lanes when the innermost loop is reduced, else lane by lane; on top of what serial loops
    inside the target's home have left."""
    target = op.block.target
    used = frozenset(v for i in target.indices for v in op.names if uses(i, frozenset((v,))))
    reduced = [lp for lp in op.loops if lp.var not in used]
    serial = [lp for lp in op.above if lp.var not in home and not any(uses(i, frozenset((lp.var,))) for i in target.indices)]
    read = op.block.value.value if isinstance(op.block.value, Cast) else op.block.value
    if not reduced or not isinstance(read, Read) or op.block.init is not None or any(lp.kind == "core" for lp in serial):
        raise UnsupportedError(f"block {op.block.name}: a vector reduction reduces one buffer over tensor loops, on one core")
    if em.buffers[read.buffer].dtype != em.buffers[target.buffer].dtype:
        raise UnsupportedError(f"block {op.block.name}: cast to the accumulator's dtype in a block of its own")
    name, across, identity = REDUCERS[op.block.op]
    rows = reduced[-1].var == op.loops[-1].var
    start = elementwise(em, op, VectorOp("vdup", (), identity), skip=frozenset(lp.var for lp in reduced)) if serial or not rows else []
    if serial:
        start = when(em, first_of([lp.var for lp in serial]), start)
    if rows:
        return [*start, *reduce_rows(em, op, read, across, name, bool(serial))]
    step = elementwise(em, op, VectorOp(name, (read,)), accumulate=True, skip=frozenset(lp.var for lp in reduced))
    one_by_one = nest([(lp.var, lp.extent) for lp in reduced], step)
    found = rows_of(em, op, read, reduced)
    return [*start, *(one_by_one if found is None else fold_rows(em, op, found, name, one_by_one, bool(serial)))]


def first_of(loops: list[str]) -> Expr:
    """Return 1 in the first iteration of all these loops, else 0."""
    condition: Expr = eq(Var(loops[0]), 0)
    for v in loops[1:]:
        condition = both(condition, eq(Var(v), 0))
    return condition


def reduce_rows(em: Emitter, op: TileOp, read: Read, across: str, fold: str, adds: bool) -> list[Item]:
    """Return the items that reduce each row to one element. With `adds` it is added to the element that is there."""
    dst, src = em.buffers[op.block.target.buffer], em.buffers[read.buffer]
    s_dst, s_src = loop_strides(dst, op.block.target.indices, op), loop_strides(src, read.indices, op)
    loops, inner = contiguous_row(op.loops, s_dst, s_src)
    if s_src.get(op.loops[-1].var) != Int(1) or any(lp.var not in s_dst for lp in loops if lp.extent != Int(1)):
        raise UnsupportedError(f"block {op.block.name}: a row reduction reads contiguous rows")
    outer = side_by_side([s_dst, s_src], [(lp.var, lp.extent) for lp in loops])
    to = base_offset(dst, op.block.target.indices, op.names) + product_sum(s_dst, [v for v, _ in outer if v in s_dst])
    at = base_offset(src, read.indices, op.names) + product_sum(s_src, [v for v, _ in outer if v in s_src])
    require_rows(em, op, src.name, s_src, outer)
    if adds:
        require_rows(em, op, dst.name, s_dst, outer)
    lanes = lanes_of(dtype_size(src))
    row = Row(em, src.name, at, inner, lanes, across, fold)
    if not adds and outer and s_dst.get(outer[-1][0]) == Int(c0(dst)):
        *around, (v, count) = outer
        first = base_offset(src, read.indices, op.names) + product_sum(s_src, [v for v, _ in around if v in s_src])
        if not around and src.name in em.worked and normalise(inner % lanes) == Int(0):
            return whole_repeats(em, op, (src.name, first, s_src.get(v, Int(0))), count, inner, fold)
        short = short_rows(em, src.name, first, s_src.get(v, Int(0)), count, largest(count, op.above), inner, fold)
        return nest(around, spread_rows(em, op, (v, count), row, short, to - Var(v) * s_dst[v], bool(around)))
    result = (em.add_scratch(src.dtype, lanes), Int(0)) if adds else (dst.name, to)
    body = row.reduce_row(*result)
    if adds:
        operands = {"dst": em.ref(dst.name, to), "src0": em.ref(dst.name, to), "src1": em.ref(*result)}
        strides = {f"{n}_{kind}": 1 if kind == "blk" else BLOCKS for kind in ("blk", "rep") for n in operands}
        body.append(make(VectorOp(fold, ()), operands, Int(1), Int(1), strides))  # type: ignore[arg-type]
    return nest(outer, body)


def contiguous_row(loops: Sequence[Loop], kept: Mapping[str, Expr], read: Mapping[str, Expr]) -> tuple[Sequence[Loop], Expr]:
    """Return (the loops around a row, the elements of it): loops that the result does not keep make one row with the last, where each walks
    whole runs of those in it."""
    *around, last = loops
    inner = last.extent
    while around and around[-1].var not in kept and around[-1].var in read and read[around[-1].var] == normalise(inner):
        inner = normalise(inner * around.pop().extent)
    return around, inner


def whole_repeats(em: Emitter, op: TileOp, source: tuple[str, Expr, Expr], count: Expr, inner: Expr, fold: str) -> list[Item]:
    """Return the items that reduce rows of whole repeats, whose number a hole may set. Rows are folded onto one repeat each, one repeat
    of all rows at a time, and these are reduced as short rows. `source`: a buffer, the element where the rows start, and elements from
    row to row."""
    (buffer, at, step), target = source, em.buffers[op.block.target.buffer]
    lanes, unit, most = lanes_of(dtype_size(target)), c0(target), largest(count, op.above)
    em.require(le(step // unit, MAX_STRIDE), f"block {op.block.name}: rows of {buffer} are at most {MAX_STRIDE * unit:,} elements")
    em.require(le(most, MAX_REPEAT), f"block {op.block.name}: at most {MAX_REPEAT} rows are reduced at a time")
    rows = round_up(most, SIXTEEN) + 1  # sixteens are turned; what halves read behind the last row is never used
    sums = em.add_scratch(target.dtype, PITCH * unit, rows=normalise(rows))
    found = em.add_scratch(target.dtype, normalise(round_up(most, SIXTEEN)))

    def onto(name: str, *sources: Ref) -> Item:
        operands = {"dst": em.ref(sums, Int(0))} | dict(zip(operand_names(len(sources))[1:], sources))
        apart: dict[str, Expr] = {f"{n}_blk": Int(1) for n in operands}
        apart |= {f"{n}_rep": Int(PITCH) if r.buffer == sums else normalise(step // unit) for n, r in operands.items()}
        return make(VectorOp(name, ()), operands, Int(lanes), count, apart)  # type: ignore[arg-type]
    part, once, own = em.fresh("part"), normalise(inner // lanes), em.ref(sums, Int(0))
    short = ShortRows(em, sums, Int(0), PITCH, count, most, lanes, fold)
    em.spread.add(target.name)
    to = base_offset(target, op.block.target.indices, op.names)
    places = [em.ref(buffer, at + n * lanes) for n in (Int(0), Int(1), Var(part) + 2)]
    lone = For(em.fresh("lone"), normalise(select(le(once, 1), 1, 0)), (onto("vcopy", places[0]),))
    pair = For(em.fresh("pair"), normalise(select(le(once, 1), 0, 1)), (onto(fold, places[0], places[1]),))
    more = For(part, normalise(maximum(once - 2, 0)), (onto(fold, own, places[2]),))
    turns = short.across(sums, PITCH, short.scratch(0), found, Int(0))
    return [lone, pair, more, *short.from_eight(sums, turns, found, Int(0)),
            spread_run(em, (found, Int(0)), (target.name, to), count, unit)]


def spread_rows(em: Emitter, op: TileOp, loop: tuple[str, Expr], row: Row, short: ShortRows | None, to: Expr,
                among: bool) -> list[Item]:
    """Return the items that reduce the rows of a loop to a run of elements, and then move each to a whole block of the target, from
    element `to` on. Lanes read them there later. `among`: other rows may end close behind."""
    (v, count), target, most = loop, op.block.target.buffer, largest(loop[1], op.above)
    found = em.add_scratch(em.buffers[target].dtype, normalise(round_up(most, SIXTEEN)))
    fill = spread_among(em, (found, Int(0)), (target, to), count, most) if among else [
        spread_run(em, (found, Int(0)), (target, to), count, c0(em.buffers[target]))]
    em.spread.add(target)
    items = nest([(v, count)], row.reduce_row(found, Var(v)))
    if short is not None:
        items = either_of(em, le(short.least, count), short.reduce_rows(found), items)
    return [*items, *fill]


class Row:
    """A contiguous row of `inner` elements at an offset of a buffer, to be reduced with `across` (whole) and `fold` (lane by lane)."""

    def __init__(self, em: Emitter, buffer: str, at: Expr, inner: Expr, lanes: int, across: str, fold: str) -> None:
        self.em, self.buffer, self.at, self.inner, self.lanes = em, buffer, at, inner, lanes
        self.across, self.fold = across, fold
        self.repeats = ceildiv(inner, lanes)
        self.partial = em.add_scratch(em.buffers[buffer].dtype, lanes)

    def reduce_row(self, buffer: str, to: Expr) -> list[Item]:
        """Return the items that reduce the row to one element at `to`. A long row is folded first."""
        n, whole = self.repeats, Int(self.lanes)
        short = self.reduce_repeats(self.buffer, self.at, self.inner - (n - 1) * self.lanes, n, buffer, to)
        few = [*self.fold_repeats(FEW), *self.reduce_repeats(self.sums, Int(0), whole, Int(FEW), buffer, to)]
        many = [*self.fold_repeats(MANY), *self.halve_sums(MANY), *self.reduce_repeats(self.sums, Int(0), whole, Int(FEW), buffer, to)]
        between = both(le(FEW + 1, n), le(n, LONG))
        return [*when(self.em, le(n, FEW), short), *when(self.em, between, few), *when(self.em, le(LONG + 1, n), many)]

    @property
    def sums(self) -> str:
        """Return the buffer that rows are folded into."""
        if not hasattr(self, "_sums"):
            self._sums = self.em.add_scratch(self.em.buffers[self.buffer].dtype, MANY * self.lanes)
        return self._sums

    def reduce_repeats(self, source: str, at: Expr, tail: Expr, repeat: Expr, buffer: str, to: Expr) -> list[Item]:
        """Return one result a repeat, then one over those."""
        one = {"dst_rep": 1, "src_blk": 1, "src_rep": BLOCKS}
        return [instr(self.across, dst=self.em.ref(self.partial, Int(0)), src=self.em.ref(source, at), lanes=tail, repeat=repeat, **one),
                instr(self.across, dst=self.em.ref(buffer, to), src=self.em.ref(self.partial, Int(0)), lanes=repeat, repeat=1, **one)]

    def fold_repeats(self, width: int) -> list[Item]:
        """Copy the first `width` repeats, then add all others to them, `width` at a time."""
        v = self.em.fresh("fold")
        start = (Var(v) + 1) * width
        repeat = minimum(width, self.repeats - start)
        tail = minimum(self.lanes, self.inner - (start + repeat - 1) * self.lanes)
        copy = self.lanewise("vcopy", (self.buffer, self.at), Int(width), Int(self.lanes))
        add = self.lanewise(self.fold, (self.buffer, self.at + start * self.lanes), repeat, tail)
        return [copy, For(v, normalise(ceildiv(self.repeats, width) - 1), (add,))]

    def halve_sums(self, width: int) -> list[Item]:
        """Fold the sums in halves until FEW are left."""
        out = []
        while width > FEW:
            width //= 2
            out.append(self.lanewise(self.fold, (self.sums, Int(width * self.lanes)), Int(width), Int(self.lanes)))
        return out

    def lanewise(self, name: str, source: tuple[str, Expr], repeat: Expr, tail: Expr) -> Item:
        """sums = source, or sums = sums op source, over `repeat` repeats."""
        operands = {"dst": self.em.ref(self.sums, Int(0))}
        operands |= {"src": self.em.ref(*source)} if name == "vcopy" else {"src0": operands["dst"], "src1": self.em.ref(*source)}
        strides = {f"{n}_{kind}": 1 if kind == "blk" else BLOCKS for kind in ("blk", "rep") for n in operands}
        return make(VectorOp(name, ()), operands, tail, repeat, strides)  # type: ignore[arg-type]
