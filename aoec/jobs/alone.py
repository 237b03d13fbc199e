"""One node of a graph as a graph of its own: how its ways of being done are compared before the whole is fused."""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from aoec.ir.graph import Graph, OpNode, Tensor
from aoec.jobs.made import realise
from aoec.jobs.order import Order
from aoec.jobs.plan import tasks
from aoec.jobs.solve import attempt
from aoec.lowering.fuse import fuse
from aoec.simulate.time import chain
from aoec.target.machine import Machine

NO_WEIGHTS: Mapping[str, np.ndarray] = {}


def alone(tensors: Mapping[str, Tensor], node: OpNode) -> Graph:
    """A graph of the one node, under names of its own, all that it reads being inputs. `tensors`: of its graph, by name."""
    named = dict(zip([t for t in dict.fromkeys((*node.inputs, *node.outputs)) if t], "abcdefgh"))
    inputs, outputs = (tuple(named.get(t, "") for t in ends) for ends in (node.inputs, node.outputs))
    own = tuple(replace(tensors[t], name=name, data="", declared="") for t, name in named.items())
    only = replace(node, name=node.op, inputs=inputs, outputs=outputs)
    return Graph(node.op, tuple(dict.fromkeys(filter(None, inputs))), outputs, own, (only,))


def time_us(graph: Graph, machine: Machine, apart: Collection[str] = (), weights: Mapping[str, np.ndarray] = NO_WEIGHTS) -> float:
    """Modelled µs of one inference of a graph by default schedules, attention nodes `apart` in single operators; inf where one has none."""
    fused, _ = fuse(graph, weights, machine, apart)
    measures = []
    for task in tasks(fused, machine):
        solved = attempt(task, machine, Order(tune=False))
        if isinstance(solved, str):
            return float("inf")
        measures.append(realise(task.func, solved.default.trace, machine, task.state).measure)
    return chain(measures, machine).latency_us
