"""The vector that is added to every row of a product is its bias, and the vector by which every row is multiplied a factor of its columns,
of whatever rank the rows are (of matrices, `affine` sees to both too): ConvNeXt scales what each block adds, channel by channel."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


def fold_biases(draft: Draft) -> None:
    """Nothing; products with a constant matrix take what is added to their columns as what their sums start from."""
    users = draft.users()
    dropped: dict[str, OpNode] = {}  # addition -> the product that does it
    for node in draft.nodes:
        follower = draft.only_user(node.outputs[0], users) if _plain(draft, node) else None
        if follower is not None and follower.op == "add" and (bias := _columns(draft, follower, node.outputs[0])) is not None:
            name = draft.constant(f"{node.inputs[1]}_bias", bias.astype(np.float32), "fp32")
            dropped[follower.name] = replace(node, inputs=(*node.inputs, name), outputs=follower.outputs)
    done = {p.name: p for p in dropped.values()}
    draft.nodes = [done.get(n.name, n) for n in draft.nodes if n.name not in dropped]


def fold_scales(draft: Draft) -> None:
    """Nothing; of products with a constant matrix, and a bias perhaps, what multiplies their columns is in these. Factors are computed in
    fp64."""
    users = draft.users()
    done: dict[str, OpNode] = {}
    dropped: set[str] = set()
    for node in draft.nodes:
        held = node.op == "matmul" and len(node.inputs) > 1 and all(draft.is_constant(i) for i in node.inputs[1:])
        plain = held and len(draft.tensors[node.inputs[1]].shape) == 2 and not node.attribute("trans_a", 0)
        follower = draft.only_user(node.outputs[0], users) if plain else None
        if follower is not None and follower.op == "mul" and (factor := _columns(draft, follower, node.outputs[0])) is not None:
            scale = factor.astype(np.float64)
            by = (scale[:, None] if node.attribute("trans_b", 0) else scale, *[scale] * (len(node.inputs) - 2))
            scaled = [draft.constant(f"{name}_scaled", (draft.weights[name] * f).astype(np.float32), "fp32")
                      for name, f in zip(node.inputs[1:], by)]
            done[node.name] = replace(node, inputs=(node.inputs[0], *scaled), outputs=follower.outputs)
            dropped.add(follower.name)
    draft.nodes = [done.get(n.name, n) for n in draft.nodes if n.name not in dropped]


def _plain(draft: Draft, node: OpNode) -> bool:
    """True for a product with a constant matrix, without a bias yet."""
    return node.op == "matmul" and len(node.inputs) == 2 and draft.is_constant(node.inputs[1]) and \
        len(draft.tensors[node.inputs[1]].shape) == 2


def _columns(draft: Draft, add: OpNode, product: str) -> np.ndarray | None:
    """The constant that is added, as a vector over the columns; None where it is none."""
    other = add.inputs[1] if add.inputs[0] == product else add.inputs[0]
    shape = draft.tensors[add.outputs[0]].shape
    if not draft.is_constant(other) or draft.tensors[product].shape != shape:
        return None
    c = draft.weights[other]
    return c.reshape(-1) if c.size == shape[-1] and c.shape[-1:] == shape[-1:] else None
