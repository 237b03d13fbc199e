"""Joins products of one tensor with constant matrices to one product, whose result has their columns side by side.

Exporters write queries, keys and values as three products, and gate and value of SwiGLU as two. Together they read the tensor once and use
more cores. Products are joined only if their readers can read columns in place. These are products and rotary embedding behind moves,
attention, and `swiglu`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.words.movement import MOVES

PRODUCTS = {"matmul": 2, "attention": 3}  # operator -> how many of its first arguments it reads where they lie
WHOLE = 16  # columns: parts begin at whole fractals
LEAST_ROW = 32  # elements of what elementwise work reads of each row


def join_siblings(draft: Draft) -> None:
    """Join products that read one tensor; the results of each are slices of the joined one. Gates beside their values become `swiglu` in
    the pass behind this."""
    find = Finder.of(draft)
    found: dict[tuple[str, ...], list[OpNode]] = {}
    for node in draft.nodes:
        kind = _kind(find, node) if _is_plain(draft, node) else ""
        if kind:
            weight = draft.tensors[node.inputs[1]]
            found.setdefault((kind, node.inputs[0], str(node.attribute("trans_b", 0)), weight.dtype), []).append(node)
    first = {nodes[0].name: _gate_first(find, nodes) if at[0].startswith("gate") else nodes
             for at, nodes in found.items() if len(nodes) > 1}
    joined = {n.name for nodes in first.values() for n in nodes}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += _join(draft, first[node.name]) if node.name in first else [] if node.name in joined else [node]


def _is_plain(draft: Draft, node: OpNode) -> bool:
    """Return whether a node is a product with a constant matrix, and perhaps a constant bias, in whole fractals of columns."""
    if node.op != "matmul" or dict(node.attributes).get("trans_a") or node.outputs[0] in draft.outputs:
        return False
    columns = draft.tensors[node.outputs[0]].shape[-1:]
    matrix = draft.tensors[node.inputs[1]].shape
    constant = all(draft.is_constant(i) for i in node.inputs[1:]) and not draft.is_constant(node.inputs[0])
    return constant and len(matrix) == 2 and bool(columns) and columns[0] > 0 and columns[0] % WHOLE == 0


def _kind(find: Finder, node: OpNode) -> str:
    """Return "operand" where only products read a result, perhaps through moves, "gate of NODE" for the two of a SwiGLU, else ""."""
    if all(reads_in_place(find, node.outputs[0], u) for u in find.users.get(node.outputs[0], [])):
        return "operand"
    user = find.only_user(node.outputs[0])
    if user is not None and user.op == "silu":
        user = find.only_user(user.outputs[0])
    if user is None or user.op != "mul":
        return ""
    shape = find.draft.tensors[node.outputs[0]].shape
    gates = [i for i in user.inputs if find.unary(i, "silu")]
    return f"gate of {user.name}" if len(gates) == 1 and all(find.draft.tensors[i].shape == shape for i in user.inputs) else ""


def reads_in_place(find: Finder, name: str, user: OpNode, is_moved: bool = False) -> bool:
    """Return whether a reader of a tensor is a product of it, or moves it for products and multiplications of elements alone."""
    if user.op in MOVES and user.outputs[0] not in find.draft.outputs:
        readers = find.users.get(user.outputs[0], [])
        return bool(readers) and all(reads_in_place(find, user.outputs[0], u, True) for u in readers)
    if is_moved and user.op == "mul":  # of rotary embedding
        row = find.draft.tensors[name].shape[-1]
        return row >= LEAST_ROW and row % WHOLE == 0 and name not in find.draft.outputs
    return name in user.inputs[:PRODUCTS.get(user.op, 0)] and name not in user.inputs[PRODUCTS.get(user.op, 0):] and (
        name not in find.draft.outputs)


def _gate_first(find: Finder, nodes: Sequence[OpNode]) -> list[OpNode]:
    """Return the two products of a SwiGLU, that of the gate first."""
    def is_value(node: OpNode) -> bool:
        user = find.only_user(node.outputs[0])
        return user is None or user.op != "silu"
    return sorted(nodes, key=is_value)


def _join(draft: Draft, nodes: Sequence[OpNode]) -> list[OpNode]:
    """Return the joined product and the slices that give the results of the single ones."""
    turned = dict(nodes[0].attributes).get("trans_b", 0)
    counts = [draft.tensors[n.outputs[0]].shape[-1] for n in nodes]
    weights = [draft.weights[n.inputs[1]] for n in nodes]
    matrix = draft.constant(f"{nodes[0].inputs[1]}_joined", np.concatenate(weights, axis=0 if turned else 1),
                            draft.tensors[nodes[0].inputs[1]].dtype)
    inputs = [nodes[0].inputs[0], matrix]
    biases = [draft.weights[n.inputs[2]] if len(n.inputs) > 2 else None for n in nodes]
    given = next((n.inputs[2] for n in nodes if len(n.inputs) > 2), "")
    if given:
        whole = [np.zeros(count, draft.weights[given].dtype) if b is None else b.reshape(-1) for b, count in zip(biases, counts)]
        inputs.append(draft.constant(f"{given}_joined", np.concatenate(whole), draft.tensors[given].dtype))
    result = draft.tensors[nodes[0].outputs[0]]
    made = draft.tensor(f"{result.name}_joined", result.dtype, (*result.shape[:-1], sum(counts)))
    out = [replace(nodes[0], name=draft.fresh(f"{nodes[0].name}_joined", "node"), inputs=tuple(inputs), outputs=(made,))]
    start = 0
    for n, count in zip(nodes, counts):
        shape = draft.tensors[n.outputs[0]].shape
        given_attributes: dict[str, Attribute] = {"starts": (*(0,) * (len(shape) - 1), start), "sizes": shape, "steps": (1,) * len(shape)}
        out.append(draft.node("slice", [made], n.outputs[0], given_attributes, n.name))
        start += count
    return out
