"""Moves transposes behind elementwise work, views, and slices and concats of rows, where they meet others. Two that meet become one, and
one that restores the order is dropped.

Exporters of channels-last models put a transpose before and behind each convolution, with activations, biases and residual additions in
between. Moved behind these, the transposes of one layer and the next cancel. Detectors turn channels into rows, cut these, work on the
parts and join them again. Before the transpose the parts are whole planes.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.frontend.passes.views import viewed_before
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops import OPS

Perm = tuple[int, ...]
MOVED = ("reshape", "transpose")
EACH_AXIS = ("starts", "sizes", "steps")


def sink_transposes(draft: Draft) -> None:
    """Move transposes behind the nodes that read them: elementwise nodes, views, slices and concats of rows. Such a node then reads what
    the transpose read, and its result is transposed. A node moves only if it alone reads the transpose. Join transposes of transposes into
    one."""
    users = draft.users()
    turned: dict[str, OpNode] = {}  # result -> the transpose that gives it
    nodes: list[OpNode] = []
    for node in draft.nodes:
        if node.op == "transpose":
            node = _compose(node, turned)
            turned[node.outputs[0]] = node
        elif (viewed := _swap_view(draft, node, turned, users)) is not None:
            below, node = viewed
            nodes.append(below)
            turned[node.outputs[0]] = node
        elif (perm := _sinks(draft, node, turned, users) or _cuts(draft, node, turned, users)) is not None:
            below, node = _sunk(draft, node, turned, perm)
            nodes.append(below)
            turned[node.outputs[0]] = node
        nodes.append(node)
    draft.nodes = nodes


def scale_last(draft: Draft) -> None:
    """Move the multiplication of a product's operand with a number behind the operand's views and transposes, where attention looks for its
    scale. `sink_transposes` does the reverse."""
    find = Finder.of(draft)
    scales: dict[str, OpNode] = {}  # result -> the node that makes it by a number, for one reader
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        scale = scales.get(node.inputs[0]) if node.op in MOVED else None
        if scale is not None and _leads_to_product(find, node):
            t = draft.tensors[node.outputs[0]]
            moved = draft.tensor(f"{t.name}_unscaled", t.dtype, t.shape)
            draft.nodes.append(replace(node, inputs=scale.inputs, outputs=(moved,)))
            node = replace(scale, name=draft.fresh(scale.name, "node"), inputs=(moved,), outputs=node.outputs)
        draft.nodes.append(node)
        if node.op == "muls" and find.only_user(node.outputs[0]) is not None:
            scales[node.outputs[0]] = node


def _leads_to_product(find: Finder, node: OpNode) -> bool:
    """Return True where a product alone reads what the node gives, seen otherwise or transposed perhaps."""
    user = find.only_user(node.outputs[0])
    while user is not None and user.op in MOVED:
        user = find.only_user(user.outputs[0])
    return user is not None and user.op == "matmul"


def _swap_view(draft: Draft, node: OpNode, turned: dict[str, OpNode], users: dict[str, list[OpNode]]) -> tuple[OpNode, OpNode] | None:
    """Return (a view of the tensor before the transpose, the transpose of that view). Return None where the node is no view, or shares the
    transpose with other readers."""
    first = turned.get(node.inputs[0]) if node.op == "reshape" else None
    alone = first is not None and draft.only_user(node.inputs[0], users) is not None
    return viewed_before(draft, node, first) if alone and first is not None else None


def _compose(node: OpNode, turned: dict[str, OpNode]) -> OpNode:
    """Return a transpose that reads what the one before it read."""
    first = turned.get(node.inputs[0])
    if first is None:
        return node
    perm = tuple(_perm(first)[axis] for axis in _perm(node))
    return replace(node, inputs=first.inputs, attributes=(("perm", perm),))


def _perm(node: OpNode) -> Perm:
    perm = dict(node.attributes)["perm"]
    assert isinstance(perm, tuple)
    return tuple(int(axis) for axis in perm)


def _sinks(draft: Draft, node: OpNode, turned: dict[str, OpNode], users: dict[str, list[OpNode]]) -> Perm | None:
    """Return the permutation of the transposes that a node can move before: elementwise work, or a concat of rows. All its inputs except
    constants must be transposed alike, and nobody else may read them. For elementwise work they must have the result's shape. Return None
    where there is no such permutation."""
    joins = node.op == "concat" and _along_rows(draft, node)
    if node.op not in OPS or not joins and OPS[node.op].family != "elementwise" or len(node.outputs) != 1:
        return None
    read = [i for i in node.inputs if not draft.is_constant(i)]
    shape, perms = draft.tensors[node.outputs[0]].shape, set()
    for name in read:
        if name not in turned or any(u.name != node.name for u in users.get(name, [])) or name in draft.outputs \
                or not joins and draft.tensors[name].shape != shape:
            return None
        perms.add(_perm(turned[name]))
    return perms.pop() if len(perms) == 1 else None


def _along_rows(draft: Draft, concat: OpNode) -> bool:
    """Return True where a concat makes rows out of shorter ones."""
    return dict(concat.attributes)["axis"] == len(draft.tensors[concat.outputs[0]].shape) - 1


def _cuts(draft: Draft, node: OpNode, turned: dict[str, OpNode], users: dict[str, list[OpNode]]) -> Perm | None:
    """Return the permutation of the transpose that a slice of rows can move before. All readers of the slice's input must be slices of
    rows, which together take no more than there is. Return None where this is not so. The planes of which rows are made are contiguous, but
    their elements in the rows are not."""
    name = node.inputs[0] if node.op == "slice" else ""
    if name not in turned or name in draft.outputs:
        return None
    whole, readers = draft.tensors[name].shape, users[name]
    sizes = [draft.tensors[u.outputs[0]].shape for u in readers]
    rows = all(u.op == "slice" and size[:-1] == whole[:-1] for u, size in zip(readers, sizes))
    return _perm(turned[name]) if rows and sum(size[-1] for size in sizes) <= whole[-1] else None


def _sunk(draft: Draft, node: OpNode, turned: dict[str, OpNode], perm: Perm) -> tuple[OpNode, OpNode]:
    """Return (the work on what was not yet transposed, the transpose of its result)"""
    back = tuple(int(axis) for axis in np.argsort(perm))
    result = draft.tensors[node.outputs[0]]
    inner = draft.tensor(f"{result.name}_before", result.dtype, (result.shape[axis] for axis in back))
    inputs = [turned[i].inputs[0] if i in turned else _constant(draft, i, back) for i in node.inputs]
    below = replace(node, name=draft.fresh(f"{node.name}_before", "node"), inputs=tuple(inputs), outputs=(inner,),
                    attributes=tuple((word, _before(word, value, back)) for word, value in node.attributes))
    return below, OpNode(node.name, "transpose", (inner,), node.outputs, (("perm", perm),))


def _before(word: str, value: Attribute, back: Perm) -> Attribute:
    """Return an attribute of a node as it meets what was not yet transposed: those of slices are a number for each axis."""
    if word == "axis":
        return back.index(int(value))  # type: ignore[arg-type]
    return tuple(value[axis] for axis in back) if word in EACH_AXIS and isinstance(value, tuple) else value  # type: ignore[return-value]


def _constant(draft: Draft, name: str, back: Perm) -> str:
    """Return a constant as it meets what was not yet transposed."""
    t, array = draft.tensors[name], draft.weights[name]
    if array.size == 1:
        return name
    wide = array.reshape((1,) * (len(back) - array.ndim) + array.shape)
    return draft.constant(f"{name}_turned", np.ascontiguousarray(wide.transpose(back)), t.dtype)
