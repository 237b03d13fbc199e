"""A graph in layouts and groups, with those choices of fusion that are faster on the model machine."""
from __future__ import annotations

from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.attention import fuse_exceptions
from aoec.jobs.choose.moves import kept_moves, sentences
from aoec.jobs.compile.join_by_time import keep_apart, say_apart
from aoec.jobs.compile.models import Pool, Weights, fuse_model
from aoec.target.machine import Machine


def fuse_by_time(graph: Graph, weights: Weights, machine: Machine, pool: Pool | None = None) -> tuple[Graph, Weights, list[str]]:
    """Return the graph in groups, its constants as stored, and a sentence on what is not done for it would take longer."""
    several = keep_apart(graph, machine)
    apart = fuse_exceptions(graph, machine).union(a.exception for a in several)
    made = fuse_model(graph, weights, machine, pool, apart)
    kept = kept_moves(made[0], machine)
    if kept:
        made = fuse_model(graph, weights, machine, pool, apart.union(*(k.exceptions for k in kept)))
    return *made, [*say_apart(several), *sentences(kept)]
