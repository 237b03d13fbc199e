"""Normalisation of rows in single operators: sums of rows, which cores may share, and elementwise work on all rows.

The mean comes first, and then the sum of squared differences to it, as where one core has the row: no difference of large sums is taken.
Sums and differences are in fp32, and the result is rounded once.

A norm of groups of channels is viewed as the image that it came from, and factors of channels follow. Elementwise nodes behind such a view
join those of the norm: all are done in one shape, of whose dimensions both shapes are made.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.lowering.arrange.layout import family

NORMS = ("layer_norm", "rms_norm")
Shape = tuple[int, ...]


def split_norm(draft: Draft, node: OpNode) -> list[OpNode]:
    """Return the nodes that do what a norm of rows does: one or two sums of rows, and then what is done to each element."""
    x, *factors = node.inputs
    result, epsilon = draft.tensors[node.outputs[0]], dict(node.attributes)["epsilon"]
    shape, share = result.shape, 1.0 / result.shape[-1]
    out: list[OpNode] = []

    def step(op: str, inputs: Sequence[str], label: str, width: int = shape[-1], **attributes: Attribute) -> str:
        name = draft.tensor(f"{result.name}_{label}", "fp32", (*shape[:-1], width))
        out.append(draft.node(op, inputs, name, attributes, f"{node.name}_{label}"))
        return name

    def total(of: str, label: str) -> str:
        return step("reduce_sum", [of], label, 1, axes=(len(shape) - 1,))

    def from_mean(label: str) -> str:
        return step("axpy", [x, mean], label, alpha=-share) if mean else x
    mean = total(x, "total") if node.op == "layer_norm" else ""
    far = from_mean("distance")
    squares = total(step("mul", [far, far], "square"), "squares")
    made = step("over_root", [from_mean("centred"), squares], "scaled", share=share, epsilon=epsilon)
    for op, factor in zip(("mul", "add"), factors):
        made = step(op, [made, factor], op)
    del draft.tensors[made]
    return [*out[:-1], replace(out[-1], outputs=node.outputs)]


def join_views(draft: Draft, split: Sequence[OpNode]) -> None:
    """Do elementwise nodes behind views of a split norm's result together with the norm's own elementwise nodes, if there are any."""
    first = next(i for i, n in enumerate(split) if n.op == "over_root")
    if found := find_tail(draft, split[first - (split[first - 1].op == "axpy"):]):
        _rewrite(draft, *found)


def norm_planes(draft: Draft, node: OpNode) -> None:
    """Do a norm of rows and the elementwise nodes behind views of its result in one shape, in which a row is several dimensions. So
    factors of channels join a norm of groups of channels."""
    if found := find_tail(draft, [node]):
        ((_, rows), *rest), views, common = found
        dims = next(d for d in range(1, len(common) + 1) if prod(common[-d:]) == rows[-1])
        whole = replace(node, op="plane_norm", attributes=(*node.attributes, ("dims", dims)))
        draft.nodes = [whole if n.name == node.name else n for n in draft.nodes]
        _rewrite(draft, [(whole, rows), *rest], views, common)


def find_tail(draft: Draft, own: Sequence[OpNode]) -> tuple[list[tuple[OpNode, Shape]], list[OpNode], Shape] | None:
    """Return (nodes and the elementwise ones behind views of what they give, each with the shape it made; these views; the shape in which
    all can be done); None where nothing is behind a view."""
    shape = common = draft.tensors[own[-1].outputs[0]].shape
    chain, views, users = [(n, shape) for n in own], list[OpNode](), draft.users()
    joined = 0, 0, common  # of chain and views, and the shape in which all are done
    last = own[-1]
    while (user := draft.only_user(last.outputs[0], users)) is not None:
        if user.op == "reshape":
            shape = draft.tensors[user.outputs[0]].shape
            finer = common_shape(common, shape)
            if finer is None:
                break
            common = finer
            views.append(user)
        elif _joins(draft, user, shape):
            chain.append((user, shape))
            joined = len(chain), len(views), common
        else:
            break
        last = user
    return (chain[:joined[0]], views[:joined[1]], joined[2]) if joined[1] else None


def _rewrite(draft: Draft, chain: Sequence[tuple[OpNode, Shape]], views: Sequence[OpNode], common: Shape) -> None:
    """Do the nodes of a chain in the common shape, and remove the views between them. `chain`: each node, with the shape of its result."""
    source = {v.outputs[0]: v.inputs[0] for v in views}
    made = {n.outputs[0] for n, _ in chain}
    last, shape = chain[-1]
    seen: list[OpNode] = []  # views of what the chain reads: they come first
    nodes: list[OpNode] = []
    names: dict[str, str] = {}
    for n, whole in chain:
        inputs = []
        for i in n.inputs:
            while i in source:
                i = source[i]
            if i not in made:
                t = draft.tensors[i]
                parts = _of_parts(t.shape, whole, common)
                if parts != t.shape and i not in names:
                    names[i] = draft.tensor(f"{i}_parts", t.dtype, parts)
                    seen.append(draft.node("reshape", [i], names[i], {"shape": parts}))
            inputs.append(names.get(i, i))
        nodes.append(replace(n, inputs=tuple(inputs)))
    for name in made - {last.outputs[0]}:
        draft.tensors[name] = replace(draft.tensors[name], shape=common)
    if shape != common:
        result = draft.tensors[last.outputs[0]]
        inner = draft.tensor(f"{result.name}_rows", result.dtype, common)
        nodes[-1] = replace(nodes[-1], outputs=(inner,))
        nodes.append(draft.node("reshape", [inner], result.name, {"shape": shape}, views[-1].name))
    for v in views:
        del draft.tensors[v.outputs[0]]
    gone = {n.name for n in (*views, *(n for n, _ in chain[:-1]))}
    draft.nodes = [m for n in draft.nodes if n.name not in gone for m in ([*seen, *nodes] if n.name == last.name else [n])]


def common_shape(a: Shape, b: Shape) -> Shape | None:
    """Return the shape of which each dimension of both is made: one or several neighbours of it. None where dimensions overlap."""
    ends = sorted({*accumulate(a, mul), *accumulate(b, mul), 1})
    return None if any(y % x for x, y in pairwise(ends)) else tuple(y // x for x, y in pairwise(ends))


def _joins(draft: Draft, node: OpNode, shape: Shape) -> bool:
    """Return whether a node makes each element of what has this shape of one element of each argument."""
    tensors = [draft.tensors[name] for name in (*node.inputs, *node.outputs) if name]
    return family(node) == "elementwise" and not node.definition and draft.tensors[node.outputs[0]].shape == shape and all(
        t.layout == "ND" and all(n in (1, whole) for n, whole in zip(t.shape[::-1], shape[::-1])) for t in tensors)


def _of_parts(shape: Shape, whole: Shape, common: Shape) -> Shape:
    """Return the shape, which is 1 or `whole` in each dimension, in the dimensions that those of `whole` are made of."""
    out: list[int] = []
    left = list(common)
    for n, full in zip((*[1] * (len(whole) - len(shape)), *shape), whole):
        size = 1
        while size < full:
            part = left.pop(0)
            size *= part
            out.append(part if n > 1 else 1)
    return tuple(out)
