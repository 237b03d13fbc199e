"""Sketches of plain sums whose terms are shared out over cores: each core sums its part of them, and adds it to the result in GM.

Of use where few elements are kept, or where cores that share out what is kept would read short bursts. Holes: t0 g0 of the terms
(tile, parts over cores), t1 g1 of what is kept, di do slots.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aoec.ir.func.tir import Func
from aoec.ir.index import Read, reads, variables
from aoec.ir.schedule import Step, Trace
from aoec.search.sketches.nests import Nest, hole, ladder, nests, output_nest, parts, step, tiles_over_cores
from aoec.search.sketches.rows import cores_of
from aoec.search.sketches.sketches_vector import MOST_ELEMENTS, SLOTS, inputs
from aoec.target.machine import Machine

REPEAT = 64  # elements of fp32
LEAST_TERMS = 64  # for fewer, cores share out what is kept
LEAST_TILE = 16  # of terms: what one instruction adds up at least
MOST_KEPT = 512  # elements of a row that stay whole: rows without holes in their lengths are one run, which an instruction takes many of


def sum_sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return sketches of a func that is one sum, with what feeds it, that leaves as it is: what is kept whole, or in tiles."""
    out, order = output_nest(func), nests(func)
    taken = out.block.value
    sums = [n for n in order if n.block.op != "="]
    if len(sums) != 1 or not isinstance(taken, Read) or taken.buffer != sums[0].block.target.buffer:
        return []
    total = sums[0]
    kept = [lp.var for lp in total.loops if any(lp.var in variables(i) for i in total.block.target.indices)]
    terms = [lp.var for lp in total.loops if lp.var not in kept]
    plain = total.block.op == "+=" and total.block.init is None and isinstance(total.block.value, Read)
    if not plain or len(terms) != 1 or not kept or total.extent(terms[0]) < LEAST_TERMS or len(out.loops) != len(kept):
        return []
    few = prod(total.extent(v) for v in kept) <= MOST_KEPT
    choices = [()] * few + [(kept[-1],)] * (total.extent(kept[-1]) > 1)
    return [sum_sketch(func, machine, out, total, terms[0], tiled) for tiled in choices]


def sum_sketch(func: Func, machine: Machine, out: Nest, total: Nest, terms: str, tiled: Sequence[str]) -> Trace:
    """Return terms, and the kept axis that is `tiled`, if any, in tiles over cores. Other axes stay whole. They are walked one after the
    other where terms lie between them: the distance from one to the next is a tile of terms, so an instruction's stride would depend on a
    hole."""
    before = [n for n in nests(func) if n.block.name not in (out.block.name, total.block.name)]
    around = [v for v in kept_around(total, terms) if v not in tiled]
    inner = [f"{lp.var}_i" if lp.var in (*tiled, terms) else lp.var for lp in total.loops if lp.var not in around]
    grid, chunk = [f"{v}_c" for v in (terms, *tiled)], f"{terms}_s"
    steps = [*tiles(machine, total, (terms, *tiled)), step("reorder", loops=(*grid, *[f"{v}_s" for v in tiled], chunk, *around, *inner)),
             step("add_parts", block=out.block.name, loop=grid[0])]
    steps += [step("compute_at", block=out.block.name, loop=f"{v}_s") for v in tiled]
    steps += [step("compute_at", block=n.block.name, loop=chunk) for n in reversed(before)]
    steps += [step("set_scope", buffer=n.block.target.buffer, scope="UB") for n in (*before, total)]
    steps += inputs(func, [*before, total], chunk)
    steps += [step("tensorize", loop=out.loops[0].var, instr="copy"),
              step("double_buffer", buffer=total.block.target.buffer, depth=hole("do", SLOTS))]
    steps += [step("tensorize", loop=loop, instr="vector") for loop in (*[n.loops[0].var for n in before], inner[0])]
    return Trace((*steps, *[step("bind", loop=v) for v in grid]))


def kept_around(total: Nest, terms: str) -> list[str]:
    """Return the loops over what is kept whose axes of the source lie around the terms' axis."""
    source = reads(total.block.value)[0].indices
    places = {v: d for d, i in enumerate(source) for v in variables(i)}
    return [lp.var for lp in total.loops if places.get(lp.var, len(source)) < places[terms]]


def tiles(machine: Machine, total: Nest, axes: Sequence[str]) -> list[Step]:
    """Return axes split into tiles, and these over cores; lanes in whole blocks."""
    steps: list[Step] = []
    for number, v in enumerate(axes):
        unit = 32 if v == total.loops[-1].var else 1
        if number and (block := even_block(total.extent(v))):
            steps += even_blocks(v, total.extent(v), block, machine)
            continue
        sizes = ladder(total.extent(v), unit, MOST_ELEMENTS, min(total.extent(v) // 32, LEAST_TILE))
        steps += tiles_over_cores(v, number, sizes, -(-total.extent(v) // unit), cores_of(machine))
    return steps


def even_block(extent: int) -> int:
    """Return the longest part of a kept axis that divides it, is whole repeats and may stay whole; 0 where there is none."""
    return max((b for b in range(REPEAT, MOST_KEPT + 1, REPEAT) if extent % b == 0), default=0)


def even_blocks(v: str, extent: int, block: int, machine: Machine) -> list[Step]:
    """Return a kept axis in equal blocks, and these over cores."""
    spread = hole("g1", parts(extent // block, cores_of(machine)))
    return [step("split", loop=v, factor=block, outer=f"{v}_t", inner=f"{v}_i"),
            step("even", loop=f"{v}_t", extent=extent, factor=block),
            step("split", loop=f"{v}_t", parts=spread, outer=f"{v}_c", inner=f"{v}_s")]
