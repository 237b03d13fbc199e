"""One inference as a profiler would list it: a task for each group in the model's order, with its place on the modelled timeline."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from aoec.cann.op_summary import Launch, Operand, Part
from aoec.cann.op_types import type_of
from aoec.ir.graph.bodies import MAIN, groups_by_place, place
from aoec.ir.graph.graph import OPAQUE, Body, Group, OpNode, Tensor
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.choose.rounds import passes
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.tune.made import Schedule
from aoec.ops.words.layout import stored_shape
from aoec.simulate.timing.time import chain
from aoec.target.machine import Machine

Ends = tuple[tuple[Operand, ...], tuple[Operand, ...]]


@dataclass(frozen=True)
class Place:
    """A task's place on the timeline of one inference, in modelled microseconds. `passes`: how often its body of control flow runs in one
    inference. All passes are one place, from the begin of the first to the end of the last."""

    group: Group
    passes: float
    start_us: float
    stop_us: float


class TaskLine:
    """A model's tasks in the order in which they run, as tuned or by default schedules. Nothing runs in parallel with the host. So its
    work, and the bodies that it runs, delay everything after them."""

    def __init__(self, made: Made, machine: Machine, tuned: bool) -> None:
        self.machine, self.graph, self.tuned = machine, made.model.graph, tuned
        self.choices = {c.task.group.name: c for c in made.choices}
        self.groups, self.often, self.host_us = groups_by_place(self.graph), passes(self.graph), host_times(self.graph)
        self.bodies: dict[str, list[Body]] = {}
        for b in self.graph.bodies:
            self.bodies.setdefault(b.node, []).append(b)
        self.places: list[Place] = []
        self.walk(MAIN, 0.0)

    def schedule(self, name: str) -> Schedule:
        """Return the schedule of a group."""
        return self.choices[name].best if self.tuned else self.choices[name].default

    def walk(self, at: tuple[str, str], begin_us: float) -> float:
        """Return places what lies in a body, or in none; when it ends. Passes of a body follow each other group by group."""
        often, own = self.often[at], [g for g in self.groups[at] if g.kind != "view"]
        line = chain([self.schedule(g.name).measure for g in own if g.name in self.choices], self.machine)
        spans_us, off_us, ended_us = iter(line.spans_us), begin_us, begin_us
        for g in own:
            if g.name in self.choices:
                start_us, ended_us = (often * us + off_us for us in next(spans_us))
                self.places.append(Place(g, often, start_us, ended_us))
                continue
            start_us, ended_us = ended_us, ended_us + often * self.host_us[g.name]
            self.places.append(Place(g, often, start_us, ended_us))
            for body in (b for name in g.nodes for b in self.bodies.get(name, ())):
                ended_us = self.walk(place(body), ended_us)
            off_us += ended_us - start_us
        return ended_us


def launches(made: Made, machine: Machine, tuned: bool) -> list[Launch]:
    """Return every task of one inference, as tuned or by default schedules. The last ends at the latency."""
    line, graph = TaskLine(made, machine, tuned), made.model.graph
    nodes, tensors = {n.name: n for n in graph.nodes}, {t.name: t for t in graph.tensors}
    ended_us, out = 0.0, []
    for p in line.places:
        of, parts = [nodes[name] for name in p.group.nodes], {}
        if p.group.name in line.choices:
            schedule = line.schedule(p.group.name)
            ends = ends_of(schedule.program, dict(line.choices[p.group.name].task.bindings), tensors)
            parts = parts_of(schedule, machine)
        else:
            ends = ends_on_host(of, tensors)
        types = tuple(type_of(n.op) for n in of)
        out.append(Launch(of[0].name, types, p.start_us, p.stop_us - p.start_us, p.start_us - ended_us, *ends, parts))
        ended_us = p.stop_us
    return out


def parts_of(schedule: Schedule, machine: Machine) -> dict[str, Part]:
    """Return what a program runs on each kind of core; all is one kind where cores hold cube and vector both."""
    m, streams, out = schedule.measure, schedule.program.streams, {}
    for s in streams:
        prefix = f"{s.name}." if len(streams) > 1 else ""
        busy = {name.removeprefix(prefix): cycles for name, cycles in m.busy_cycles.items() if name.startswith(prefix)}
        out[s.core if split(machine) else "core"] = Part(prod(evaluate(extent, {}) for _, extent in s.grid), m.cycles, busy)
    return out


def split(machine: Machine) -> bool:
    """Return True of a chip with cube cores and vector cores."""
    return "aic" in machine.cores


def ends_of(program: Program, bindings: Mapping[str, str], tensors: Mapping[str, Tensor]) -> Ends:
    """Return what a program reads and writes."""
    roles = {t.name: t.role for t in program.tensors}
    read, written = ([tensors[bindings[n]] for n in bindings if roles.get(n) == role] for role in ("input", "output"))
    return operands(read), operands(written)


def ends_on_host(nodes: Iterable[OpNode], tensors: Mapping[str, Tensor]) -> Ends:
    """Return what nodes read that none of them made, and all that they make."""
    made = {o: tensors[o] for n in nodes for o in n.outputs if o}
    read = {i: tensors[i] for n in nodes for i in n.inputs if i and i not in made}
    return operands(read.values()), operands(made.values())


def operands(tensors: Iterable[Tensor]) -> tuple[Operand, ...]:
    """Return tensors as a profiler lists them."""
    return tuple(Operand(() if t.dtype == OPAQUE else stored_shape(t), t.dtype, t.layout) for t in tensors)
