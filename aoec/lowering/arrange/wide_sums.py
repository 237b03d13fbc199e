"""Sums whose result has 16 bits, left in fp32 and rounded by an operator behind them: cores may share the terms of such a sum.

What cores add to in GM holds parts of a sum, so it has the dtype of sums: a part in 16 bits would be rounded, and may overflow where the
sum does not. (The vendor's split-K writes fp32 too: C is float where its API reference shows EnableMultiCoreSplitK.) The rounding needs the
whole sum of all cores, and a launch of its own is where all of them have met; it joins what follows.
"""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode

SUMS = ("matmul", "reduce_sum")
ROUNDED = ("fp16", "bf16")


def widen_sums(graph: Graph, names: Collection[str]) -> Graph:
    """Compute the named sums in fp32. The graph is not fused yet. A bias is added after the sum, and the result is rounded once."""
    draft = Draft.of(graph, {})
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += _wide(draft, node) if node.name in names else [node]
    tensors = tuple(draft.tensors.values())
    return replace(graph, tensors=tensors, nodes=tuple(draft.nodes))


def _wide(draft: Draft, node: OpNode) -> list[OpNode]:
    """The sum in fp32, and its rounding with what was added to it."""
    result = draft.tensors[node.outputs[0]]
    total = draft.tensor(f"{result.name}_sum", "fp32", result.shape)
    *terms, bias = node.inputs if len(node.inputs) > 2 else (*node.inputs, "")
    rounded = draft.node("add", [total, bias], result.name) if bias else draft.node("cast", [total], result.name)
    return [replace(node, inputs=tuple(terms), outputs=(total,)), rounded]
