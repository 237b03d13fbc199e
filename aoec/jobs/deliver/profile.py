"""One inference as a profiler would list it: a task for each group in the model's order, with its place on the modelled timeline."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from aoec.cann.op_summary import Launch, Operand, Part
from aoec.cann.op_types import type_of
from aoec.ir.graph.graph import OPAQUE, OpNode, Tensor
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.tune.made import Schedule
from aoec.ops.words.layout import stored_shape
from aoec.target.machine import Machine

Ends = tuple[tuple[Operand, ...], tuple[Operand, ...]]


def launches(made: Made, machine: Machine, tuned: bool) -> list[Launch]:
    """Every task of one inference, as tuned or by default schedules. Nothing runs beside the host: the last ends at the latency."""
    graph, choices = made.model.graph, {c.task.group.name: c for c in made.choices}
    nodes, tensors = {n.name: n for n in graph.nodes}, {t.name: t for t in graph.tensors}
    spans_us = iter((made.lines.tuned if tuned else made.lines.default).spans_us)
    on_host_us, host_us, ended_us = host_times(graph), 0.0, 0.0
    out = []
    for group in (g for g in graph.groups if g.kind != "view"):
        of, parts = [nodes[name] for name in group.nodes], {}
        if group.name in choices:
            choice = choices[group.name]
            schedule = choice.best if tuned else choice.default
            start_us, stop_us = (us + host_us for us in next(spans_us))
            ends, parts = ends_of(schedule.program, dict(choice.task.bindings), tensors), parts_of(schedule, machine)
        else:
            start_us, stop_us = ended_us, ended_us + on_host_us[group.name]
            host_us += on_host_us[group.name]
            ends = ends_on_host(of, tensors)
        out.append(Launch(of[0].name, tuple(type_of(n.op) for n in of), start_us, stop_us - start_us, start_us - ended_us, *ends, parts))
        ended_us = stop_us
    return out


def parts_of(schedule: Schedule, machine: Machine) -> dict[str, Part]:
    """What a program runs on each kind of core; all is one kind where cores hold cube and vector both."""
    m, streams, out = schedule.measure, schedule.program.streams, {}
    for s in streams:
        prefix = f"{s.name}." if len(streams) > 1 else ""
        busy = {name.removeprefix(prefix): cycles for name, cycles in m.busy_cycles.items() if name.startswith(prefix)}
        out[s.core if split(machine) else "core"] = Part(prod(evaluate(extent, {}) for _, extent in s.grid), m.cycles, busy)
    return out


def split(machine: Machine) -> bool:
    """True of a chip with cube cores and vector cores."""
    return "aic" in machine.cores


def ends_of(program: Program, bindings: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Ends:
    """What a program reads and writes."""
    roles = {t.name: t.role for t in program.tensors}
    read, written = ([tensors[bindings[n]] for n in bindings if roles.get(n) == role] for role in ("input", "output"))
    return operands(read), operands(written)


def ends_on_host(nodes: Iterable[OpNode], tensors: Mapping[str, Tensor]) -> Ends:
    """What nodes read that none of them made, and all that they make."""
    made = {o: tensors[o] for n in nodes for o in n.outputs if o}
    read = {i: tensors[i] for n in nodes for i in n.inputs if i and i not in made}
    return operands(read.values()), operands(made.values())


def operands(tensors: Iterable[Tensor]) -> tuple[Operand, ...]:
    """Tensors as a profiler lists them."""
    return tuple(Operand(() if t.dtype == OPAQUE else stored_shape(t), t.dtype, t.layout) for t in tensors)
