"""A model's regions in slices, where they are faster so."""
from __future__ import annotations

from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.choose.regions import Whole, regions
from aoec.lowering.arrange.slices import slice_graph
from aoec.target.machine import Machine
from bench.cases.near import Done


def in_slices(graph: Graph, machine: Machine, trials: int, done: Done) -> Graph | None:
    """Return the graph with those regions in slices that take less time so. Return None where there are none. `done` has its groups
    whole."""
    whole = {}
    for t in tasks(graph, machine, warm=True):
        at = done.at(t, machine, trials)
        whole[t.group.name] = Whole(done.traces[at], done.measures[at][0])
    found = regions(graph, machine, whole)
    return slice_graph(graph, found) if found else None
