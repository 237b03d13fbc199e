"""Sketches of vector funcs whose rows are taken a part at a time: rows that UB does not hold, or whose parts overlap better.

Each reduction is a phase with a loop over parts of what it reduces: its inputs come in, what feeds it alone is computed, it adds
its part. The output is the last phase, with a loop over parts where it walks the rows too. Holes: t0 g0 as in vector
sketches, k0 the part, di do slots.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.ir.func.tir import Func
from aoec.ir.index import Int, reads, variables
from aoec.ir.schedule import Step, Trace
from aoec.search.sketches.nests import Nest, dtype_bytes, gm_reads, hole, ladder, nests, output_nest, parts, step
from aoec.search.sketches.rows import cores_of, rows_read, ruled_axes
from aoec.search.sketches.sketches_vector import MOST_ELEMENTS, SLOTS, lanes_cut, reduced_axes
from aoec.target.machine import Machine

LEAST_PART = 1024  # elements of a long row, or rows of 16 lanes: smaller parts are no choice


@dataclass(frozen=True, slots=True)
class Phase:
    """A reduction, or the output, with the blocks that feed it alone; `axis`: the loop that is taken in parts, if any."""

    last: Nest
    before: tuple[Nest, ...]
    axis: str


def chunked_sketches(func: Func, machine: Machine) -> list[Trace]:
    """Return one sketch where every row-long value feeds one phase and there is a reduction, and one more where rows that are reduced lane
    by lane may be cut; none elsewhere."""
    out = output_nest(func)
    found = phases(func, out)
    kept = [lp.var for lp in out.loops if any(lp.var in variables(i) for i in out.block.target.indices)]
    axis = found[-1].axis if found else ""
    tiled = [v for v in kept if v != axis]
    if len(found) < 2 or not tiled or ruled_axes(out) or windows_of_results(func, found):
        return []
    if len({p.last.extent(p.axis) for p in found if p.axis}) > 1:  # such as rows, and parts of a range that was found before
        return []
    cut = [tiled[-1]] if len(tiled) > 1 and lanes_cut(func, out) else []
    return [Trace(tuple(chunk_steps(func, machine, out, found, v, [u for u in tiled[:-1] if v in cut]))) for v in (tiled[0], *cut)]


def phases(func: Func, out: Nest) -> list[Phase]:
    """Return the reductions in order and the output, each with its feeders; empty where a feeder feeds two or walks other axes."""
    order = nests(func)
    readers = {n.block.target.buffer: [m.block.name for m in order if n.block.target.buffer in {r.buffer for r in reads(m.block.value)}]
               for n in order}
    heads = [n for n in order if n.block.op != "=" or n is out or n.block.name == out.block.name]
    belongs = {n.block.name: n.block.name for n in heads}
    small = {n.block.name for n in order if n.block.op == "=" and rows_only(n) and n.block.name != out.block.name}
    for n in reversed(order):
        if n.block.name in belongs or n.block.name in small:
            continue
        if readers[n.block.target.buffer] and small.issuperset(readers[n.block.target.buffer]):  # such as these, cast
            small.add(n.block.name)
            continue
        users = {belongs.get(m) for m in readers[n.block.target.buffer]}
        if len(users) != 1 or None in users:
            return []
        belongs[n.block.name] = users.pop()  # type: ignore[assignment]
    made = []
    for head in heads:
        before = tuple(n for n in order if n is not head and belongs.get(n.block.name) == head.block.name)
        axis = part_axis(func, head, out, [n for n in order if n.block.op != "="])
        made.append(Phase(head, before, axis))
    return made if all(p.axis for p in made[:-1]) else []


def windows_of_results(func: Func, found: Sequence[Phase]) -> bool:
    """Return True where a phase slides a window over what a reduction made: parts of one axis are no parts of what another then reads."""
    reduced = {n.block.target.buffer for n in nests(func) if n.block.op != "="}
    return any(len(variables(i)) > 1 for p in found for r in reads(p.last.block.value) if r.buffer in reduced for i in r.indices)


def rows_only(n: Nest) -> bool:
    """Return True for a block with one element a row, as what derives from a reduction has."""
    return n.block.target.indices[-1] == Int(0)


def part_axis(func: Func, head: Nest, out: Nest, reductions: list[Nest]) -> str:
    """Return the reduced loop of a reduction, if it has one; of the output the lanes, where a reduction ran over them, or the one axis over
    which one ran lane by lane."""
    kept = {lp.var for lp in head.loops if any(lp.var in variables(i) for i in head.block.target.indices)}
    reduced = [lp.var for lp in head.loops if lp.var not in kept]
    if head.block.op != "=":
        return reduced[0] if len(reduced) == 1 else ""
    across = any(n.loops[-1].var not in {v for i in n.block.target.indices for v in variables(i)} for n in reductions)
    if not across and head is out and len(summed := reduced_axes(func, out)) == 1:
        return summed.pop()
    return head.loops[-1].var if across and len(head.loops) > 1 and not rows_read(head) else ""


def chunk_steps(func: Func, machine: Machine, out: Nest, found: list[Phase], tiled: str, leading: Sequence[str] = ()) -> list[Step]:
    """Return the steps: rows over cores, and in them each phase with its parts. `leading`: loops around them."""
    cores, size = cores_of(machine), dtype_bytes(func, func.outputs[0].name)
    lanes = tiled == out.loops[-1].var
    unit = 32 // size if lanes and not rows_read(out) else 1
    extent = out.extent(tiled)
    many = bool(found[-1].axis) or lanes  # else one matrix at a time: with more, the pitch of its rows would hang on a hole
    tile = hole("t0", ladder(extent, unit, MOST_ELEMENTS))
    steps = [step("split", loop=tiled, factor=tile, outer=f"{tiled}_t", inner=f"{tiled}_i")] if many else []
    spread = hole("g0", parts(-(-extent // unit), cores))
    steps.append(step("split", loop=f"{tiled}_t" if many else tiled, parts=spread, outer=f"{tiled}_c", inner=f"{tiled}_s"))
    at, last = f"{tiled}_s", found[-1]
    own = [f"{last.axis}_t"] if last.axis else []
    outside = {*leading, *([] if many else [tiled])}
    inner = [f"{lp.var}_i" if lp.var in (tiled, last.axis) else lp.var for lp in out.loops if lp.var not in outside]
    steps += part(last.axis, out) if last.axis else []
    steps.append(step("reorder", loops=(f"{tiled}_c", *leading, at, *own, *inner)))
    for n in reversed(nests(func)):
        phase = next((p for p in found if n.block.name in {m.block.name for m in (*p.before, p.last)}), None)
        if n.block.name == out.block.name:
            continue
        if phase is None or n.block.name == phase.last.block.name:
            steps.append(step("compute_at", block=n.block.name, loop=at))
            steps += part(phase.axis, n, reorder=True) if phase else []
        else:
            steps.append(step("compute_at", block=n.block.name, loop=f"{phase.axis}_t" if phase.axis else at))
    steps += [step("set_scope", buffer=n.block.target.buffer, scope="UB") for n in nests(func) if n.block.name != out.block.name]
    phased = {n.block.name for p in found for n in (*p.before, p.last)}
    steps += loads(func, [n for n in nests(func) if n.block.name not in phased], "", at)
    for number, p in enumerate(found):
        steps += loads(func, (*p.before, p.last), str(number), f"{p.axis}_t" if p.axis else at)
    return [*steps, *finish(func, found, inner[0], at), step("bind", loop=f"{tiled}_c")]


def part(axis: str, n: Nest, reorder: bool = False) -> list[Step]:
    """Return an axis in parts; with `reorder` the loop over them comes out of the block's other loops."""
    extent = n.extent(axis)
    lanes = n.loops[-1].var
    unit, least = (32, LEAST_PART) if axis == lanes else (1, min(LEAST_PART, max(1, 16 * LEAST_PART // n.extent(lanes))))
    choices = ladder(extent, unit, MOST_ELEMENTS, min(extent // 32, least))
    steps = [step("split", loop=axis, factor=hole("k0", choices), outer=f"{axis}_t", inner=f"{axis}_i")]
    if reorder:
        others = [f"{lp.var}_i" if lp.var == axis else lp.var for lp in n.loops]
        steps.append(step("reorder", loops=(f"{axis}_t", *others)))
    return steps


def loads(func: Func, of: Sequence[Nest], number: str, at: str) -> list[Step]:
    """Return copies into UB of what blocks read from GM: those of a phase in its loop over parts, others, of one element a row, with the
    rows."""
    out: list[Step] = []
    readers: dict[str, list[str]] = {}
    for n in of:
        for b in gm_reads(func, n.block):
            readers.setdefault(b, []).append(n.block.name)
    for buffer, names in readers.items():
        local = f"{buffer}_UB{number}"
        out.append(step("cache_read", block=tuple(names), buffer=buffer, scope="UB", at=at, name=local))
        out.append(step("double_buffer", buffer=local, depth=hole("di", SLOTS)))
    return out


def finish(func: Func, found: list[Phase], first_loop: str, at: str) -> list[Step]:
    """Return the output's way out, and instructions."""
    out, axis = found[-1].last, found[-1].axis
    source = reads(out.block.value)
    where = f"{axis}_t" if axis else at
    steps: list[Step] = []
    if out.block.value in source and source[0].buffer in {b.name for b in func.locals}:
        steps.append(step("tensorize", loop=first_loop, instr="copy"))
    else:
        target = out.block.target.buffer
        steps += [step("cache_write", block=out.block.name, buffer=target, scope="UB", at=where),
                  step("tensorize", loop=first_loop, instr="vector"), step("double_buffer", buffer=f"{target}_UB", depth=hole("do", SLOTS))]
    for n in nests(func):
        if n.block.name == out.block.name:
            continue
        phase = next((p for p in found if p.last.block.name == n.block.name), None)
        loops = [lp.var for lp in n.loops]
        first = next((f"{v}_i" if phase and v == phase.axis else v for v in loops), "")
        steps.append(step("tensorize", loop=first, instr="vector"))
    return steps
