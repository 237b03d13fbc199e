"""Attention in one pass or in single operators: whichever the model machine is faster with, by default schedules, from cold inputs."""
from __future__ import annotations

from aoec.ir.draft import Draft
from aoec.ir.graph import Graph
from aoec.ir.show import show
from aoec.jobs.alone import alone, time_us
from aoec.jobs.known import known
from aoec.lowering.take_apart import in_one_pass
from aoec.target.machine import Machine


def apart(graph: Graph, machine: Machine) -> frozenset[str]:
    """The attention nodes that are faster in single operators, among those that could be done in one pass. Equal ones are timed once."""
    draft = Draft.of(graph, {})
    found = [n for n in graph.nodes if n.op == "attention" and in_one_pass(draft, n, machine)]
    return frozenset(n.name for n in found if _slower(alone(draft.tensors, n), machine))


def _slower(single: Graph, machine: Machine) -> bool:
    """Whether one pass takes longer than single operators."""
    def make() -> list[float]:
        return [time_us(single, machine, named) for named in ((), ("attention",))]
    at = ("attention", show(single), machine.name, machine.hash)
    whole, taken_apart = known(at, make, lambda made: made, lambda kept: [float(x) for x in kept])
    return whole > taken_apart
