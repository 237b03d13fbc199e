"""Emission of transpositions of narrow rows. Rows of a few elements lie in UB one after the other, and each of their columns becomes a run.

256 rows of n elements are sixteen runs of 16 n elements. These are transposed sixteen by sixteen, which gives 16 n places of sixteen
rows each. The places of one column are n apart. Sixteen of them are transposed back, and then lie row after row. From columns to rows
the steps are the same in reverse.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.base.errors import UnsupportedError
from aoec.ir.func.narrow import GROUP, MOST, takes_every_nth
from aoec.ir.func.tir import Buffer, Loop
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, lt, minimum, normalise, round_up, substitute
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import MAX_REPEAT, nest, product_sum, run
from aoec.lowering.emit.tile import Emitter, Piece, TileOp, base_offset, c0, dtype_size, instr, largest, loop_strides, piece, product
from aoec.target.isa.words import VectorOp

ROWS = 16  # that one vnchwconv turns


def is_narrow(em: Emitter, op: TileOp) -> bool:
    """Return True where a side is a run of narrow rows of at most four bytes an element, and the other has their columns."""
    value = op.block.value
    if op.block.op != "=" or not isinstance(value, Read) or not op.loops:
        return False
    dst, src = em.buffers[op.block.target.buffer], em.buffers[value.buffer]
    runs = "RUN" in (dst.layout, src.layout) or takes_every_nth(op.block)
    return runs and dst.scope == src.scope == "UB" and dst.dtype == src.dtype and dtype_size(src) in (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Sides:
    """What is turned: the run of rows and the columns, each with a stride of each loop and where it starts; loops of the rows, of the
    elements that are taken of a row, and around."""

    run: Buffer
    columns: Buffer
    in_run: dict[str, Expr]
    in_columns: dict[str, Expr]
    starts: tuple[Expr, Expr]
    rows: tuple[str, Expr]
    taken: list[tuple[str, Expr]]
    outer: list[tuple[str, Expr]]
    back: bool

    @property
    def width(self) -> int:
        """Return the number of elements from one row of the run to the next."""
        step = self.in_run[self.rows[0]]
        assert isinstance(step, Int)
        return step.value


def sides(em: Emitter, op: TileOp) -> Sides:
    """Return the two sides of a turn; UnsupportedError where the run has no narrow rows."""
    target, value = op.block.target, op.block.value
    assert isinstance(value, Read)
    back = em.buffers[target.buffer].layout == "RUN"
    pair = (target, value) if back else (value, target)
    run, columns = (em.buffers[r.buffer] for r in pair)
    s_run, s_columns = (loop_strides(em.buffers[r.buffer], r.indices, op) for r in pair)
    loops = [(lp.var, lp.extent) for lp in op.loops]
    rows = next(((v, n) for v, n in loops if s_columns.get(v) == Int(1)), None)
    step = s_run.get(rows[0]) if rows else None
    if rows is None or not isinstance(step, Int) or not 1 < step.value <= MOST:
        raise UnsupportedError(f"block {op.block.name}: {run.name} has no rows of a few elements, one behind the other")
    taken = [(v, n) for v, n in loops if v != rows[0] and s_run.get(v) == Int(1)]
    outer = [(v, n) for v, n in loops if v != rows[0] and s_run.get(v) != Int(1)]
    first, second = (base_offset(em.buffers[r.buffer], r.indices, op.names) + product_sum(s, [v for v, _ in outer if v in s])
                     for r, s in zip(pair, (s_run, s_columns)))
    return Sides(run, columns, s_run, s_columns, (first, second), rows, taken, outer, back)


def whole_groups(em: Emitter, op: TileOp) -> None:
    """Grow both buffers to whole groups of rows."""
    s = sides(em, op)
    rows = normalise(round_up(s.columns.shape[-1], GROUP))
    em.buffers[s.columns.name] = replace(s.columns, shape=(*s.columns.shape[:-1], rows))
    own = (*s.run.shape[:-2], rows, s.run.shape[-1]) if s.run.layout == "RUN" else (*s.run.shape[:-1], normalise(rows * s.width))
    em.buffers[s.run.name] = replace(s.run, shape=own)


def narrow(em: Emitter, op: TileOp) -> Piece:
    """Return the transpositions of a block. Bytes are widened to 16 bits for them, which hold every byte."""
    s = sides(em, op)
    value = op.block.value
    assert isinstance(value, Read)
    items = in_two_bytes(em, op, s) if dtype_size(s.run) == 1 else two_turns(em, op, s, elements_of(s))
    return piece(em, "V", nest(s.outer, items), op.block.target.buffer, value.buffer)


def in_two_bytes(em: Emitter, op: TileOp, s: Sides) -> list[Item]:
    """Return the piece that casts bytes to 16 bits, transposes them and casts them back."""
    row, many = s.rows
    places = normalise(round_up(largest(many, op.above), GROUP))
    elements = elements_of(s)
    run_wide = em.add_scratch("fp16", normalise(places * s.width))
    columns_wide = em.add_scratch("fp16", normalise(places * product([n for _, n in s.taken])))
    steps, step = dict[str, Expr](), places
    for v, n in reversed(s.taken):
        steps[v], step = step, step * n
    wide = replace(s, run=em.buffers[run_wide], columns=em.buffers[columns_wide], in_columns={**steps, row: Int(1)},
                   starts=(Int(0), Int(0)))
    cast, names = VectorOp("vconv", ()), [v for v, _ in s.taken]
    runs = (s.run.name, s.starts[0]), (run_wide, Int(0))
    own = (s.columns.name, s.starts[1] + product_sum(s.in_columns, names)), (columns_wide, product_sum(steps, names))
    if s.back:
        before, after = nest(s.taken, [run(em, cast, own[1], [own[0]], many)]), [run(em, cast, runs[0], [runs[1]], elements)]
    else:
        before, after = [run(em, cast, runs[1], [runs[0]], elements)], nest(s.taken, [run(em, cast, own[0], [own[1]], many)])
    return [*before, *two_turns(em, op, wide, elements), *after]


def elements_of(s: Sides) -> Expr:
    """Return the elements of the run, up to the last one that is taken from the last row."""
    return s.rows[1] * s.width if s.run.layout == "RUN" or s.back else (s.rows[1] - 1) * s.width + 1


def two_turns(em: Emitter, op: TileOp, s: Sides, elements: Expr) -> list[Item]:
    """Return two transpositions for each element of a row: one between the run and the places of all its elements, and one between these
    and the columns."""
    unit, width = c0(s.run), s.width
    halves = ROWS // unit  # blocks that sixteen elements take
    pitch = halves * width  # blocks from one sixteen rows' place of an element to that of the next row's, and of sixteen rows in the run
    turned = em.add_scratch(s.run.dtype, normalise(round_up(largest(s.rows[1], op.above), GROUP) * width))
    rep, block, half = em.fresh("rep"), em.fresh("block"), em.fresh("half")
    groups = ceildiv(s.rows[1], GROUP)
    first, repeat = Var(rep) * (MAX_REPEAT * GROUP), minimum(MAX_REPEAT, groups - Var(rep) * MAX_REPEAT)
    batches = (rep, ceildiv(groups, MAX_REPEAT))

    def turn(to: tuple[str, Expr], at: tuple[str, Expr], **fields: int) -> Item:
        return instr("vnchwconv", dst=em.ref(*to), src=em.ref(*at), repeat=repeat, **fields)
    rows_at = s.run.name, s.starts[0] + first * width
    lane = product_sum(dict.fromkeys([v for v, _ in s.taken], Int(1)), [v for v, _ in s.taken])
    columns = s.columns.name, s.starts[1] + product_sum(s.in_columns, [v for v, _ in s.taken]) + first
    places: Expr = first * width
    if s.back and halves > 1:
        em.require(lt(unit, smallest(s.rows[1], op.above)), f"block {op.block.name}: the last of its tiles has more than {unit} rows")
    if s.back:  # a half of the columns' rows after the other; sixteen elements of a row at a time
        gather = turn((turned, places + (Var(half) * (unit * width) + lane) * ROWS), (columns[0], columns[1] + Var(half) * unit),
                      dst_stride=pitch, dst_half=halves - 1, src_stride=halves, dst_rep=ROWS * pitch, src_rep=ROWS * halves)
        lay = turn((rows_at[0], rows_at[1] + Var(half) * (unit * ROWS * width) + Var(block) * ROWS),
                   (turned, places + Var(block) * GROUP + Var(half) * unit),
                   dst_stride=pitch, dst_half=halves - 1, src_stride=halves, dst_rep=ROWS * pitch, src_rep=ROWS * pitch)
        there = minimum(halves, ceildiv(s.rows[1], unit))
        parts = [*nest([*s.taken, (half, there), batches], [gather]),
                 *nest([(block, Int(width)), (half, Int(halves)), batches], [lay])]
    else:
        take = turn((turned, places + Var(block) * (unit * ROWS)), (rows_at[0], rows_at[1] + Var(block) * unit),
                    dst_stride=halves, dst_half=halves - 1, src_stride=pitch, dst_rep=ROWS * pitch, src_rep=ROWS * pitch)
        lay = turn((columns[0], columns[1] + Var(half) * (unit * ROWS)), (turned, places + lane * ROWS + Var(half) * unit),
                   dst_stride=halves, dst_half=halves - 1, src_stride=pitch, dst_rep=ROWS * halves, src_rep=ROWS * pitch)
        there = minimum(pitch, ceildiv(elements, unit))  # of fewer than sixteen rows nothing lies in the last blocks
        parts = [*nest([(block, there), batches], [take]), *nest([*s.taken, (half, Int(halves)), batches], [lay])]
    return parts


def smallest(extent: Expr, loops: tuple[Loop, ...]) -> Expr:
    """Return the value of an extent in the last iteration of all loops, to which it shrinks."""
    last: dict[str, Expr] = {}
    for lp in loops:
        last[lp.var] = substitute(lp.extent, last) - 1
    return normalise(substitute(extent, last))
