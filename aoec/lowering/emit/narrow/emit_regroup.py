"""Emission of rows that are packed by transposition, where no instruction packs them, and of runs that are unpacked in the same way.

Rows are divided into sixteen shares, each of so many rows that a share is whole blocks of elements. A transposition makes one row of
sixteen from an element of all shares. These rows lie element after element, and row after row of a share. So a row's elements overwrite
what the last block of the row before has behind its own elements. Transposed back, sixteen by sixteen, each share is a run.

From a run to rows the steps are the same in reverse: a row's last block ends with the first elements of the next row.
"""
from __future__ import annotations

from math import gcd

from aoec.ir.index import Expr, Int, Var, ceildiv, minimum, normalise
from aoec.ir.program import Item
from aoec.lowering.emit.emit_runs import nest
from aoec.lowering.emit.tile import Emitter, c0, instr

ROWS = 16  # that one vnchwconv turns


def share_rows(width: int) -> int:
    """Return the fewest rows of so many elements that are a whole number of sixteens together."""
    return ROWS // gcd(width, ROWS)


def pack_by_turns(em: Emitter, to: tuple[str, Expr], at: tuple[str, Expr], rows: Expr, most: Expr, width: int, pitch: int) -> list[Item]:
    """Return items that pack `rows` rows, at most `most`, of two or four bytes an element. `to` and `at` are (buffer, first element) of
    the run and of the rows. The rows are `pitch` elements apart, in whole blocks."""
    src = em.buffers[at[0]]
    unit, each = c0(src), share_rows(width)
    halves, blocks = ROWS // unit, -(-width // unit)
    places = each * width + blocks * unit - width  # of elements, with those behind the last row
    turned = em.add_scratch(src.dtype, normalise(ceildiv(most, ROWS * each) * (places * ROWS)))
    row, block, part, half = (em.fresh(n) for n in ("row", "block", "part", "half"))
    repeat = ceildiv(rows, ROWS * each)
    take = instr("vnchwconv", dst=em.ref(turned, (Var(row) * width + Var(block) * unit) * ROWS),
                 src=em.ref(at[0], at[1] + Var(row) * pitch + Var(block) * unit), repeat=repeat, dst_stride=halves, dst_half=halves - 1,
                 src_stride=each * pitch // unit, dst_rep=places * halves, src_rep=ROWS * each * pitch // unit)
    lay = instr("vnchwconv", dst=em.ref(to[0], to[1] + Var(half) * (unit * each * width) + Var(part) * ROWS),
                src=em.ref(turned, Var(part) * (ROWS * ROWS) + Var(half) * unit), repeat=repeat, dst_stride=each * width // unit,
                dst_half=halves - 1, src_stride=halves, dst_rep=ROWS * each * width // unit, src_rep=places * halves)
    there = minimum(each, rows)  # rows of a share: of fewer there is but one
    parts = ceildiv(there * width, ROWS)
    return [*nest([(row, there), (block, Int(blocks))], [take]), *nest([(part, parts), (half, Int(halves))], [lay])]


def unpack_by_turns(em: Emitter, to: tuple[str, Expr], at: tuple[str, Expr], rows: Expr, most: Expr, width: int, pitch: int) -> list[Item]:
    """Return items that unpack a run: as `pack_by_turns`, with `to` the rows and `at` the run, of two bytes an element."""
    run = em.buffers[at[0]]
    each, blocks = share_rows(width), -(-width // ROWS)
    places = each * width + blocks * ROWS - width
    turned = em.add_scratch(run.dtype, normalise(ceildiv(most, ROWS * each) * (places * ROWS)))
    row, block, part = (em.fresh(n) for n in ("row", "block", "part"))
    repeat, there = ceildiv(rows, ROWS * each), minimum(each, rows)
    take = instr("vnchwconv", dst=em.ref(turned, Var(part) * (ROWS * ROWS)), src=em.ref(at[0], at[1] + Var(part) * ROWS), repeat=repeat,
                 dst_stride=1, dst_half=0, src_stride=each * width // ROWS, dst_rep=places, src_rep=each * width)
    lay = instr("vnchwconv", dst=em.ref(to[0], to[1] + Var(row) * pitch + Var(block) * ROWS),
                src=em.ref(turned, (Var(row) * width + Var(block) * ROWS) * ROWS), repeat=repeat, dst_stride=each * pitch // ROWS,
                dst_half=0, src_stride=1, dst_rep=each * pitch, src_rep=places)
    return [*nest([(part, ceildiv(there * width, ROWS))], [take]), *nest([(row, there), (block, Int(blocks))], [lay])]
