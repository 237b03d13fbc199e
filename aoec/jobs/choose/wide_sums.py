"""Choice of sums in fp32 with a rounding after them, and of norms of long rows in single operators. They are taken where cores that share
the terms of a sum gain more time than this costs. Both ways are timed by default schedules and from cold inputs. The work that needs the
whole sum is then a launch of its own. Norms of groups of channels run with their factors as one launch where that is faster."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.ir.graph.bodies import homes
from aoec.ir.graph.graph import Graph
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_us
from aoec.jobs.choose.refusal import refusal
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.wide_sums import SUMS, find_joined_tails, find_tails, join_tails, may_be_wide, widen_sums
from aoec.lowering.lower.lower import lower
from aoec.ops.run import NUMPY
from aoec.search.sketches.sketches import sketches
from aoec.target.machine import Machine

Single = tuple[Graph, tuple[str, ...]]  # a graph of one node, perhaps with what is done to its result, and its inputs that are constants


@dataclass(frozen=True)
class Widened:
    """A graph, not fused yet, with the sums and norms `wide` in fp32, and the norms `tails` joined with their factors."""

    graph: Graph
    wide: frozenset[str]
    tails: frozenset[str]


def widen(graph: Graph, machine: Machine) -> Widened:
    """Return the graph, not fused yet, with those sums widened that are then faster. Sums in bodies of control flow stay as they are. After
    that, factors of channels and the like are joined to the norms of groups before them, where that is faster. Equal graphs are timed
    once."""
    inside = homes(graph)
    tensors = {t.name: t for t in graph.tensors}
    found: dict[Single, list[str]] = {}
    tails = find_tails(graph)
    for n in (n for n in graph.nodes if n.name not in inside):
        if may_be_wide(n, tensors):
            nodes = tails.get(n.name, (n,))
            single = graph_of_nodes(tensors, *nodes)
            made = {o for m in nodes for o in m.outputs}
            own = dict(zip(single.inputs, dict.fromkeys(i for m in nodes for i in m.inputs if i and i not in made)))
            found.setdefault((single, tuple(i for i, name in own.items() if tensors[name].data)), []).append(n.name)
    names = frozenset(name for single, names in found.items() if _faster(single, machine) for name in names)
    widened = widen_sums(graph, names)
    joined = _faster_tails(widened, machine)
    return Widened(join_tails(widened, joined), names, joined)


def wide(graph: Graph, machine: Machine) -> Graph:
    """Return the graph as `widen` has it."""
    return widen(graph, machine).graph


def _faster_tails(graph: Graph, machine: Machine) -> frozenset[str]:
    """Return the norms of a graph, not fused yet, that are faster as one launch with what is behind them."""
    tensors = {t.name: t for t in graph.tensors}
    found = {name: graph_of_nodes(tensors, *nodes) for name, nodes in find_joined_tails(graph).items()}

    def faster(single: Graph) -> bool:
        def make() -> list[float]:
            return [time_us(g, machine) for g in (single, join_tails(single, (single.nodes[0].name,)))]
        apart_us, joined_us = recall_times(("norm and tail", show(single), machine.name, machine.hash), make)
        return joined_us < apart_us
    kept = {single: faster(single) for single in dict.fromkeys(found.values())}
    return frozenset(name for name, single in found.items() if kept[single])


def _faster(single: Single, machine: Machine) -> bool:
    """Return whether a node takes less time with its sums in fp32, what is behind them included."""
    graph, constants = single
    in_fp32 = widen_sums(graph, (graph.nodes[0].name,))

    def make() -> list[float]:
        if not _shares(in_fp32, machine):
            return [0.0, 0.0]
        weights = {t.name: np.zeros(t.shape, NUMPY[t.dtype]) for t in graph.tensors if t.name in constants}
        return [time_us(g, machine, weights=weights) for g in (graph, in_fp32)]
    at = ("wide sum", show(graph), " ".join(constants), machine.name, machine.hash)
    rounded_us, wide_us = recall_times(at, make)
    return wide_us < rounded_us


def _shares(graph: Graph, machine: Machine) -> bool:
    """Return whether cores may share the terms of the sum that a graph begins with."""
    fused, _ = fuse(graph, {}, machine)
    total = next(n.name for n in graph.nodes if n.op in SUMS)
    (group,) = [g for g in fused.groups if total in g.nodes]
    try:
        return any(s.primitive == "add_parts" for trace in sketches(lower(fused, group), machine) for s in trace.steps)
    except Exception as e:
        refusal(e)
        return False
