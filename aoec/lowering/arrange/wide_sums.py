"""Sums that are left in fp32, with operators behind them for the steps that need the whole sum. Cores may share the terms of such a sum.

Where cores add to a tensor in GM, each adds a part of a sum, so the tensor has the dtype of sums. A part in 16 bits would be rounded,
and might overflow where the sum does not. The vendor's split-K writes fp32 too: C is float where its API reference shows
EnableMultiCoreSplitK. Rounding, the division of a mean and the normalisation of rows need the whole sum of all cores. They are in a
later launch, which begins when all cores have added their parts. That launch also holds the operators that follow.
"""
from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from aoec.ir.graph.bodies import homes
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.lowering.arrange.shared_norms import NORMS, find_tail, join_views, norm_planes, split_norm

SUMS = ("matmul", "reduce_sum")
ROUNDED = ("fp16", "bf16")
MEAN = "reduce_mean"
LEAST_ROW = 16384  # elements of a row whose norm may be shared: a core takes less time for a shorter one than three launches do


def widen_sums(graph: Graph, names: Collection[str]) -> Graph:
    """Compute the sums of the named nodes in fp32. The graph is not fused yet. A bias is added after the sum, and the result is rounded
    once; a norm of rows becomes its sums and what is done to each element."""
    draft = Draft.of(graph, {})
    nodes, draft.nodes = draft.nodes, []
    norms = []
    for node in nodes:
        made = [node] if node.name not in names else split_norm(draft, node) if node.op in NORMS else _wide(draft, node)
        draft.nodes += made
        if node.name in names and node.op in NORMS:
            norms.append(made)
    for made in norms:
        join_views(draft, made)
    tensors = tuple(draft.tensors.values())
    return replace(graph, tensors=tensors, nodes=tuple(draft.nodes))


def may_be_wide(node: OpNode, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether a node may be faster with its sums in fp32: sums of 16 bits, means, and norms of long rows."""
    result = tensors[node.outputs[0]]
    if node.op in NORMS:
        return result.shape[-1] >= LEAST_ROW
    short = node.op in SUMS and result.dtype in ROUNDED
    return result.layout == "ND" and (short or node.op == MEAN and result.dtype in (*ROUNDED, "fp32"))


def find_joined_tails(graph: Graph) -> dict[str, tuple[OpNode, ...]]:
    """Find each norm of groups of channels that is in no body, and all nodes that could be done with it in one launch. The graph is not
    fused yet."""
    inside = homes(graph)
    return {name: nodes for name, nodes in find_tails(graph).items()
            if name not in inside and nodes[0].op == "layer_norm" and len(nodes[0].inputs) == 1}


def find_tails(graph: Graph) -> dict[str, tuple[OpNode, ...]]:
    """Find each norm of rows, all nodes that could be done with it in one shape, and the views between them. The graph is not fused yet."""
    draft = Draft.of(graph, {})
    out = {}
    for node in graph.nodes:
        if node.op in NORMS and (found := find_tail(draft, [node])):
            names = {n.name for n in (*(n for n, _ in found[0]), *found[1])}
            out[node.name] = tuple(n for n in graph.nodes if n.name in names)
    return out


def join_tails(graph: Graph, names: Collection[str]) -> Graph:
    """Join the named norms of rows with what is done behind views of their results. The graph is not fused yet."""
    draft = Draft.of(graph, {})
    for node in graph.nodes:
        if node.name in names:
            norm_planes(draft, next(n for n in draft.nodes if n.name == node.name))
    return replace(graph, tensors=tuple(draft.tensors.values()), nodes=tuple(draft.nodes))


def _wide(draft: Draft, node: OpNode) -> list[OpNode]:
    """Return the sum in fp32, and its rounding with what was added to it, or its share."""
    result = draft.tensors[node.outputs[0]]
    total = draft.tensor(f"{result.name}_sum", "fp32", result.shape)
    *terms, bias = node.inputs if len(node.inputs) > 2 else (*node.inputs, "")
    if node.op == MEAN:
        share = prod(result.shape) / prod(draft.tensors[node.inputs[0]].shape)
        return [replace(node, op="reduce_sum", outputs=(total,)), draft.node("muls", [total], result.name, {"scalar": share})]
    rounded = draft.node("add", [total, bias], result.name) if bias else draft.node("cast", [total], result.name)
    return [replace(node, inputs=tuple(terms), outputs=(total,)), rounded]
