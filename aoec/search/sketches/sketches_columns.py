"""Sketches of elementwise funcs of rows and columns, which take a part of the columns at a time for all rows of a core.

What every row shares (a bias) is read once a part, and rows may be longer than UB.

Holes: t0 g0 of the rows and t1 g1 of the columns (tile, parts over cores), di do p0 as in vector sketches.
"""
from __future__ import annotations

from aoec.ir.func.tir import Func
from aoec.ir.index import Int, reads, variables
from aoec.ir.schedule import Step, Trace
from aoec.search.sketches.nests import Nest, dtype_bytes, gm_reads, ladder, nests, output_nest, step, tiles_over_cores
from aoec.search.sketches.rows import cores_of, rows_read, ruled_axes
from aoec.search.sketches.sketches_vector import (
    LEAST_ELEMENTS,
    MOST_ELEMENTS,
    inputs,
    placement,
    store,
    whole_axes,
)
from aoec.target.machine import Machine


def columns_sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return one sketch where all work is elementwise on two axes and some input has the columns alone; none elsewhere."""
    out, order = output_nest(func), nests(func)
    elementwise = all(n.block.op == "=" for n in order) and len(out.loops) == 2 == len(out.block.target.indices)
    if not elementwise or not func.locals and len(order) > 1 or whole_axes(func, machine, out) or ruled_axes(out) or rows_read(out):
        return []
    once = shared_inputs(func, order)
    return [columns_sketch(func, machine, out, once)] if once else []


def of_columns(n: Nest) -> bool:
    """Return True for a block that walks the columns alone; one that walks the rows alone leaves each element in a block of its own."""
    return len(n.loops) == 1 and n.block.target.indices[-1] != Int(0)


def shared_inputs(func: Func, order: list[Nest]) -> set[str]:
    """Return the inputs that no block reads by rows."""
    own = {b for n in order for b in gm_reads(func, n.block)}
    by_rows = {r.buffer for n in order if not of_columns(n) for r in reads(n.block.value)
               if any(n.loops[0].var in variables(i) for i in r.indices)}
    return own - by_rows


def columns_sketch(func: Func, machine: Machine, out: Nest, once: set[str]) -> Trace:
    """Return all blocks in loops over parts of the columns, then of the rows; `once`: what is read in the loop over columns."""
    (i, j), order = [lp.var for lp in out.loops], nests(func)
    before = [n for n in order if n is not out and n.block.name != out.block.name]
    steps = [*tiles(func, machine, out), step("reorder", loops=(f"{i}_c", f"{j}_c", f"{j}_s", f"{i}_s", f"{i}_i", f"{j}_i"))]
    for n in reversed(before):
        steps.append(step("compute_at", block=n.block.name, loop=f"{j}_s" if of_columns(n) else f"{i}_s"))
    steps += [step("set_scope", buffer=n.block.target.buffer, scope="UB") for n in before]
    steps += inputs(func, order, f"{i}_s", dict.fromkeys(once, f"{j}_s"))
    steps += store(func, out, f"{i}_i", f"{i}_s")
    steps += [step("tensorize", loop=n.loops[0].var, instr="vector") for n in before]
    return Trace((*steps, *placement(func, order), step("bind", loop=f"{i}_c"), step("bind", loop=f"{j}_c")))


def tiles(func: Func, machine: Machine, out: Nest) -> list[Step]:
    """Return rows and columns in tiles, and these over cores; a tile of columns is whole blocks."""
    (i, j), unit = [lp.var for lp in out.loops], 32 // dtype_bytes(func, func.outputs[0].name)
    steps: list[Step] = []
    sizes = ((i, ladder(out.extent(i), 1, MOST_ELEMENTS)), (j, ladder(out.extent(j), unit, MOST_ELEMENTS, LEAST_ELEMENTS)))
    for number, (v, choices) in enumerate(sizes):
        most = -(-out.extent(v) // (unit if v == j else 1))
        steps += tiles_over_cores(v, number, choices, most, cores_of(machine))
    return steps
