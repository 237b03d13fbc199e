"""Graphs of some nodes alone, to compare several ways to do them before the whole model is fused."""
from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import numpy as np

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.known import recall
from aoec.jobs.tune.made import realise
from aoec.jobs.tune.order import Order
from aoec.jobs.tune.solve import attempt, start_workers
from aoec.lowering.arrange.fuse import fuse
from aoec.simulate.timing.time import chain
from aoec.target.machine import Machine

NO_WEIGHTS: Mapping[str, np.ndarray] = {}


def graph_of_nodes(tensors: Mapping[str, Tensor], *nodes: OpNode) -> Graph:
    """Return a graph of some nodes, under new names (the first of an operator has its word as name). Its inputs are all tensors that the
    nodes read from elsewhere, and its outputs are those of the last node. `tensors`: those of the original graph, by name."""
    made = {o for n in nodes for o in n.outputs}
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made)
    named = {t: f"t{at}" for at, t in enumerate(dict.fromkeys((*read, *(o for n in nodes for o in n.outputs))))}
    own = tuple(replace(tensors[t], name=name, data="", declared="") for t, name in named.items())
    words: dict[str, int] = {}
    only = []
    for n in nodes:
        count = words[n.op] = words.get(n.op, 0) + 1
        inputs, outputs = (tuple(named.get(t, "") for t in ends) for ends in (n.inputs, n.outputs))
        only.append(replace(n, name=n.op if count == 1 else f"{n.op}_{count}", inputs=inputs, outputs=outputs))
    return Graph(nodes[0].op, tuple(named[t] for t in read), only[-1].outputs, own, tuple(only))


def recall_times(at: tuple[str, ...], make: Callable[[], list[float]]) -> list[float]:
    """Return modelled µs of the ways of doing something, made once. `at`: what they follow from. Where they are made, the model is most
    likely a new one, whose groups are searched next: workers start."""
    def start_and_make() -> list[float]:
        start_workers()
        return make()
    return recall(at, start_and_make, lambda made: made, lambda kept: [float(x) for x in kept])


def time_us(graph: Graph, machine: Machine, apart: Collection[str] = (), weights: Mapping[str, np.ndarray] = NO_WEIGHTS) -> float:
    """Return the modelled µs of one inference of a graph by default schedules, with attention nodes `apart` in single operators. Return inf
    where a group has no schedule."""
    return time_groups(fuse(graph, weights, machine, apart)[0], machine)


def time_groups(fused: Graph, machine: Machine) -> float:
    """Return modelled µs of one inference of a graph in groups by default schedules. Return inf where one has none."""
    found = place_groups(fused)
    if found.reasons:
        return float("inf")
    measures = []
    for task in tasks(found.graph, machine, funcs=found.funcs):
        solved = attempt(task, machine, Order(tune=False))
        if isinstance(solved, str):
            return float("inf")
        measures.append(realise(task.func, solved.default.trace, machine, task.state).measure)
    return chain(measures, machine).latency_us
