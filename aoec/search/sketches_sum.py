"""Sketches of sums of which there are fewer than cores: each core sums a part of what is summed, and adds it to the result in GM.

Holes: sc what a core sums (elements of the reduced axis), k0 the part of it in UB, di slots of what comes in.
"""
from __future__ import annotations

from aoec.ir.index import DTYPES, Read
from aoec.ir.schedule import Step, Trace
from aoec.ir.tir import Func
from aoec.search.sketches import Nest, even_shares, hole, ladder, nests, output_nest, step
from aoec.search.sketches_reduce import loads, phases, rows_only
from aoec.search.sketches_vector import MOST_ELEMENTS, cores_of
from aoec.target.instructions import ADDED
from aoec.target.machine import Machine

UNIT = 64  # elements: parts start on whole repeats of fp32
LEAST = 8192  # elements of a core: for fewer, the cores' additions to one place cost more than they save


def sum_sketches(func: Func, machine: Machine) -> list[Trace]:
    """One sketch where the func is one plain sum over lanes, longer than a core should take, and what feeds it; none elsewhere."""
    out, order = output_nest(func), nests(func)
    found = phases(func, out)
    if len(found) != 2 or not taken_out(func, out, found[0].last) or len(found[0].before) + 2 < len(order):
        return []
    total, axis = found[0].last, found[0].axis
    cores = cores_of(machine)
    kept = [lp.var for lp in total.loops if lp.var != axis]
    if total.loops[-1].var != axis or total.extent(axis) < 2 * LEAST or cores < 2 * rows(total, kept):
        return []
    return [Trace(tuple(shared_sum(func, cores, out, total, axis)))]


def taken_out(func: Func, out: Nest, total: Nest) -> bool:
    """True where the output is a copy of a sum of one element a row, of a dtype that GM adds."""
    value = out.block.value
    plain = isinstance(value, Read) and value.buffer == total.block.target.buffer and rows_only(total)
    return plain and total.block.op == "+=" and func.buffer(out.block.target.buffer).dtype in ADDED and DTYPES[func.outputs[0].dtype] == 4


def rows(total: Nest, kept: list[str]) -> int:
    """How many sums there are."""
    count = 1
    for v in kept:
        count *= total.extent(v)
    return count


def shared_sum(func: Func, cores: int, out: Nest, total: Nest, axis: str) -> list[Step]:
    """The steps: parts over cores, each in parts that UB holds."""
    extent, phase = total.extent(axis), phases(func, out)[0]
    shares = sorted(s for s in even_shares(extent, UNIT, extent) if -(-extent // s) <= cores and s >= min(LEAST, extent))
    part, at = f"{axis}_p", f"{axis}_t"
    steps = [step("split", loop=axis, factor=hole("sc", tuple(shares)), outer=f"{axis}_c", inner=part),
             step("split", loop=part, factor=hole("k0", ladder(max(shares), UNIT, MOST_ELEMENTS, UNIT)), outer=at, inner=f"{axis}_i")]
    kept = [lp.var for lp in total.loops if lp.var != axis]
    steps += [step("reorder", loops=(f"{axis}_c", at, *kept, f"{axis}_i")),
              step("add_parts", block=out.block.name, loop=f"{axis}_c")]
    steps += [step("compute_at", block=n.block.name, loop=at) for n in reversed(phase.before)]
    steps += [step("set_scope", buffer=n.block.target.buffer, scope="UB") for n in (*phase.before, total)]
    steps += loads(func, phase, 0, at)
    steps += [step("tensorize", loop=n.loops[0].var, instr="vector") for n in phase.before]
    steps += [step("tensorize", loop=kept[0], instr="vector"), step("tensorize", loop=out.loops[0].var, instr="copy")]
    return [*steps, step("bind", loop=f"{axis}_c")]
