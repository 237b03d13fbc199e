"""Biases in int32 where a cube has no table for them: vector work adds them to the sums, which are exact either way."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


def add_whole_biases(draft: Draft, kept: Collection[str] = ()) -> None:
    """Split products of integers with a constant bias into a product and an addition. `kept`: nodes that stay as they are, because their
    group adds the bias on the way out."""
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        biased = node.op in ("conv2d", "matmul") and len(node.inputs) > 2 and draft.is_constant(node.inputs[2])
        if biased and node.name not in kept and draft.tensors[node.inputs[2]].dtype == "int32":
            draft.nodes += _split_bias(draft, node)
        else:
            draft.nodes.append(node)


def _split_bias(draft: Draft, node: OpNode) -> list[OpNode]:
    out = draft.tensors[node.outputs[0]]
    sums = draft.tensor(f"{out.name}_sums", out.dtype, out.shape, out.layout)
    bias = draft.weights[node.inputs[2]].reshape((1, -1, 1, 1) if node.op == "conv2d" else (-1,))
    name = draft.constant(f"{node.inputs[2]}_added", bias, "int32")
    return [replace(node, inputs=node.inputs[:2], outputs=(sums,)), draft.node("add", [sums, name], out.name, None, f"{node.name}_bias")]
