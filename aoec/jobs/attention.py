"""Attention in one pass or in single operators: whichever the model machine is faster with, by default schedules, from cold inputs."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from aoec.ir.draft import Draft
from aoec.ir.graph import Graph, OpNode
from aoec.ir.show import show
from aoec.jobs.known import known
from aoec.jobs.made import realise
from aoec.jobs.plan import tasks
from aoec.jobs.solve import Order, attempt
from aoec.lowering.fuse import fuse
from aoec.lowering.take_apart import in_one_pass
from aoec.simulate.time import chain
from aoec.target.machine import Machine


def apart(graph: Graph, machine: Machine) -> frozenset[str]:
    """The attention nodes that are faster in single operators, among those that could be done in one pass. Equal ones are timed once."""
    draft = Draft.of(graph, {})
    found = [n for n in graph.nodes if n.op == "attention" and in_one_pass(draft, n, machine)]
    return frozenset(n.name for n in found if _slower(_alone(graph, n), machine))


def _alone(graph: Graph, node: OpNode) -> Graph:
    """A graph of the one node, under names of its own, all that it reads being inputs."""
    tensors = {t.name: t for t in graph.tensors}
    names = dict(zip(dict.fromkeys((*node.inputs, *node.outputs)), "abcdefgh"))
    inputs, outputs = (tuple(names[t] for t in ends) for ends in (node.inputs, node.outputs))
    own = tuple(replace(tensors[t], name=name, data="", declared="") for t, name in names.items())
    renamed = replace(node, name="attention", inputs=inputs, outputs=outputs)
    return Graph("attention", tuple(dict.fromkeys(inputs)), outputs, own, (renamed,))


def _slower(alone: Graph, machine: Machine) -> bool:
    """Whether one pass takes longer than single operators."""
    def make() -> list[float]:
        return [time_us(alone, machine, named) for named in ((), ("attention",))]
    at = ("attention", show(alone), machine.name, machine.hash)
    whole, single = known(at, make, lambda made: made, lambda kept: [float(x) for x in kept])
    return whole > single


def time_us(graph: Graph, machine: Machine, named: Collection[str]) -> float:
    """Modelled µs of one inference of a graph by default schedules, `named` attention nodes in single operators; inf where one has none."""
    fused, _ = fuse(graph, {}, machine, named)
    measures = []
    for task in tasks(fused, machine):
        solved = attempt(task, machine, Order(tune=False))
        if isinstance(solved, str):
            return float("inf")
        measures.append(realise(task.func, solved.default.trace, machine, task.state).measure)
    return chain(measures, machine).latency_us
