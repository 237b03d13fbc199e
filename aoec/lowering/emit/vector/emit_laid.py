"""Rows that are read with every row of a tile, stored several times by the pipe that makes them.

One instruction then reads them with several rows of the tile. The scales and shifts of a norm are an example. They are made once a core,
while pipe V waits for the first tile."""
from __future__ import annotations

from collections.abc import Sequence

from aoec.ir.func.tir import Buffer
from aoec.ir.index import Expr, Int, Read, Var, ceildiv, minimum, normalise, reads
from aoec.ir.program import For, Item, Ref
from aoec.lowering.emit.emit_runs import BLOCKS, lanes_of, make, nest, operand_names, product_sum, run
from aoec.lowering.emit.tile import Emitter, TileOp, dtype_size, largest
from aoec.target.isa.words import VectorOp

TIMES = 4  # how often a row is laid out
LONGEST = 4096  # bytes of such a row: of longer ones few lie in UB, and each is many repeats


def lay_out_rows(em: Emitter, ops: Sequence[TileOp]) -> None:
    """Note the rows that pipe V makes outside the loops in which it reads them with tiles of several rows."""
    made = {op.block.target.buffer: op for op in ops if op.block.instr == "vector" and op.block.op == "="}
    for op in ops:
        for r in reads(op.block.value) if op.block.instr == "vector" and op.block.op == "=" else ():
            if r.buffer in made and _fits(em.buffers[r.buffer]) and _for_all_rows(op, r) and _outside(made[r.buffer], op):
                em.laid.add(r.buffer)
                em.behind[r.buffer] = em.buffers[r.buffer].shape[0] * (TIMES - 1)


def _fits(b: Buffer) -> bool:
    """Return whether a buffer is one row of whole repeats, more than one, that is not too long."""
    n = b.shape[0]
    known = len(b.shape) == 1 and isinstance(n, Int) and (b.scope, b.depth) == ("UB", Int(1)) and dtype_size(b) == 4
    return known and n.value % lanes_of(4) == 0 and lanes_of(4) < n.value <= LONGEST // 4  # type: ignore[attr-defined]


def _for_all_rows(op: TileOp, r: Read) -> bool:
    """Return whether a block works on a tile of rows and reads the same row with each."""
    target = op.block.target.indices
    plain = len(target) > 1 and len(op.loops) > 1 and len(reads(op.block.value)) == 2 and r.indices == target[-1:]
    return plain and any(largest(lp.extent, op.above) != Int(1) for lp in op.loops[:-1])


def _outside(made: TileOp, op: TileOp) -> bool:
    """Return whether what makes a row stands outside some loop around what reads it."""
    around = [lp.var for lp in made.above]
    return [lp.var for lp in op.above][:len(around)] == around and len(around) < len(op.above)


def more_rows(em: Emitter, name: str) -> list[Item]:
    """Return the items that repeat a row as many times as rows are read at once."""
    row, out, there = em.buffers[name].shape[0], list[Item](), 1
    while there < TIMES:
        out.append(run(em, VectorOp("vcopy", ()), (name, row * there), [(name, Int(0))], row * there))
        there *= 2
    return out


def with_laid_rows(em: Emitter, work: VectorOp, operands: list[Read], strides: list[dict[str, Expr]], offsets: list[Expr],
                   extents: list[tuple[str, Expr]]) -> list[Item] | None:
    """Return the operation on rows without a gap and a row that is stored several times, with that many rows an instruction. Return None
    for other operands."""
    (row, count), (lane, inner) = extents[-2:] if len(extents) > 1 else (("", Int(1)), extents[-1])
    still = [r.buffer in em.laid and s.get(row, Int(0)) == Int(0) for r, s in zip(operands, strides)]
    others = [s for s, x in zip(strides, still) if not x]
    if sum(still) != 1 or not isinstance(inner, Int) or any(s.get(lane, Int(0)) != Int(1) for s in strides):
        return None
    if any(s.get(row, Int(0)) != inner for s in others) or any(dtype_size(em.buffers[r.buffer]) != 4 for r in operands):
        return None
    lanes, v, outer = lanes_of(4), em.fresh("rows"), [u for u, _ in extents[:-2]]
    at = [o + product_sum(s, [u for u in outer if u in s]) for o, s in zip(offsets, strides)]
    names = operand_names(len(operands) - 1)
    fields: dict[str, Expr | Ref] = {n: em.ref(r.buffer, o if x else o + Var(v) * (TIMES * inner.value))
                                     for n, r, o, x in zip(names, operands, at, still)}
    fixed = {f"{n}_{kind}": 1 if kind == "blk" else BLOCKS for kind in ("blk", "rep") for n in names}
    repeat = minimum(TIMES, count - Var(v) * TIMES) * (inner.value // lanes)
    return nest(extents[:-2], [For(v, normalise(ceildiv(count, TIMES)), (make(work, fields, Int(lanes), repeat, fixed),))])
