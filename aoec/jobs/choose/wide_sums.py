"""Sums in fp32 with their rounding behind them, and norms of few long rows in single operators, where cores that share the terms gain more
than that costs: by default schedules, from cold inputs, what needs the whole sum in a launch of its own."""
from __future__ import annotations

from math import prod

import numpy as np

from aoec.ir.graph.bodies import homes
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_us
from aoec.jobs.choose.refusal import refusal
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.shared_norms import NORMS
from aoec.lowering.arrange.wide_sums import MEAN, ROUNDED, SUMS, widen_sums
from aoec.lowering.lower.lower import lower
from aoec.ops.run import NUMPY
from aoec.search.sketches.sketches import sketches
from aoec.search.sketches.sketches_vector import cores_of
from aoec.target.machine import Machine

Single = tuple[Graph, tuple[str, ...]]  # a graph of one node, and its inputs that are constants
LEAST_ROW = 16384  # elements of a row whose norm may be shared: a core takes less time for a shorter one than three launches do


def wide(graph: Graph, machine: Machine) -> Graph:
    """The graph, not fused yet, with those sums widened that are faster so, but for those in bodies of control flow. Equal ones are timed
    once."""
    inside = homes(graph)
    tensors = {t.name: t for t in graph.tensors}
    found: dict[Single, list[str]] = {}
    for n in (n for n in graph.nodes if n.name not in inside):
        if _may_be_shared(n, tensors, machine):
            single = graph_of_nodes(tensors, n)
            own = dict(zip(filter(None, single.nodes[0].inputs), filter(None, n.inputs)))
            found.setdefault((single, tuple(i for i, name in own.items() if tensors[name].data)), []).append(n.name)
    return widen_sums(graph, frozenset(name for single, names in found.items() if _faster(single, machine) for name in names))


def _may_be_shared(node: OpNode, tensors: dict[str, Tensor], machine: Machine) -> bool:
    """Whether a node may be faster with its sums in fp32: sums of 16 bits, means, and norms of long rows that are fewer than cores."""
    result = tensors[node.outputs[0]]
    if node.op in NORMS:
        return result.shape[-1] >= LEAST_ROW and prod(result.shape[:-1]) < cores_of(machine)
    short = node.op in SUMS and result.dtype in ROUNDED
    return result.layout == "ND" and (short or node.op == MEAN and result.dtype in (*ROUNDED, "fp32"))


def _faster(single: Single, machine: Machine) -> bool:
    """Whether a node takes less time with its sums in fp32, what is behind them included."""
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
    """Whether cores may share the terms of the sum that a graph begins with."""
    fused, _ = fuse(graph, {}, machine)
    total = next(n.name for n in graph.nodes if n.op in SUMS)
    (group,) = [g for g in fused.groups if total in g.nodes]
    try:
        return any(s.primitive == "add_parts" for trace in sketches(lower(fused, group), machine) for s in trace.steps)
    except Exception as e:
        refusal(e)
        return False
