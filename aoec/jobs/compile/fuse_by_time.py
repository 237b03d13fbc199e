"""A graph in layouts and groups, with those choices of fusion that are faster on the model machine."""
from __future__ import annotations

from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.attention import fuse_exceptions
from aoec.jobs.choose.moves import kept_moves, kept_results, sentences
from aoec.jobs.compile.images_by_time import keep_images, say_unchanged
from aoec.jobs.compile.models import Pool, Weights, fuse_model
from aoec.target.machine import Machine

Fused = tuple[Graph, Weights, frozenset[str], list[str]]


def fuse_by_time(graph: Graph, weights: Weights, machine: Machine, pool: Pool | None = None) -> Fused:
    """Return the graph in groups, its constants as stored, the exceptions that change it, and sentences on what is not fused because it is
    faster so."""
    unchanged = keep_images(graph, machine)
    apart = fuse_exceptions(graph, machine).union(u.exception for u in unchanged)
    made = fuse_model(graph, weights, machine, pool, apart)
    kept = [*kept_moves(made[0], machine), *kept_results(made[0], machine)]
    if kept:
        apart = apart.union(*(k.exceptions for k in kept))
        made = fuse_model(graph, weights, machine, pool, apart)
    return made[0], made[1], apart & made[2], [*say_unchanged(unchanged), *sentences(kept)]
