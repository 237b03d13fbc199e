"""Removes views around elementwise work whose shape differs from that of its input and its readers only in axes of one element.

Swin adds the mask of its shifted windows to scores that have a further axis for the batch in front, with a view before and a view behind.
Because of these views, the work before the addition and the softmax behind it would be groups of their own. The scale of the queries could
not be joined with that of the scores.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops import word
from aoec.ops.host import host

Shape = Sequence[int]


def work_unsqueezed(draft: Draft) -> None:
    """Let such a node read what the view before it reads, and put the view behind the node."""
    find = Finder.of(draft)
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += _before_view(find, node) or [node]


def work_as_images(draft: Draft) -> None:
    """Do elementwise work on images of one row where convolutions make lines as such images, and put the view behind it. Nothing is
    converted then between two such convolutions, or before the rows that a transpose makes of channels."""
    makers = draft.producers()
    find = Finder(draft, makers, draft.users())
    images = {n.outputs[0] for n in draft.nodes if n.op == "conv2d"}
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        made = _before_view(find, node, images)
        if made:
            images.add(made[-1].inputs[0])
            makers.update({o: n for n in made for o in n.outputs})
        draft.nodes += made or [node]


def _before_view(find: Finder, node: OpNode, images: Collection[str] = ()) -> list[OpNode] | None:
    """Return the node on what a view reads, perhaps a view of another argument, and the view of its result. Return None where that is not
    so. With `images` the view is of one of them; without, another view is behind the node."""
    if node.op.startswith(host.PREFIX):
        return None
    draft, result = find.draft, find.draft.tensors[node.outputs[0]]
    behind = find.only_user(result.name)
    fits = bool(images) or behind is not None and behind.op == "reshape"
    if word(node).family != "elementwise" or len(node.inputs) > 2 or "" in node.inputs or not fits:
        return None
    at = next((i for i, name in enumerate(node.inputs) if _is_narrow(find, name) and draft.tensors[name].shape == result.shape), None)
    if at is None:
        return None
    source = draft.tensors[find.producers[node.inputs[at]].inputs[0]]
    if images and source.name not in images:
        return None
    others = {i: _seen_as(draft.tensors[i].shape, result.shape, source.shape) for i in node.inputs if i != node.inputs[at]}
    if any(shape is None for shape in others.values()):
        return None
    made = draft.tensor(f"{result.name}_before", result.dtype, source.shape, source.layout)
    out, names = [], {node.inputs[at]: source.name}
    for name, shape in others.items():
        names[name] = draft.tensor(f"{name}_seen", draft.tensors[name].dtype, shape or ())
        if draft.is_constant(name):
            draft.weights[names[name]] = draft.weights[name].reshape(shape or ())
        else:
            out.append(draft.node("reshape", [name], names[name], {"shape": tuple(shape or ())}, node.name))
    return [*out, replace(node, inputs=tuple(names[i] for i in node.inputs), outputs=(made,)),
            draft.node("reshape", [made], result.name, {"shape": result.shape}, node.name)]


def _is_narrow(find: Finder, name: str) -> bool:
    """Return whether a tensor is a view that only adds or drops axes of one element, and nobody else reads it."""
    view = find.producer(name, "reshape")
    if view is None or find.only_user(name) is None:
        return False
    a, b = find.draft.tensors[view.inputs[0]].shape, find.draft.tensors[name].shape
    return a != b and [n for n in a if n != 1] == [n for n in b if n != 1]


def _seen_as(shape: Shape, whole: Shape, source: Shape) -> tuple[int, ...] | None:
    """Return a shape that broadcasts to `whole`, as one that broadcasts to `source`, which has the same axes but for those of one
    element."""
    own = [*[1] * (len(whole) - len(shape)), *shape]
    wide = iter([n for n, of in zip(own, whole) if of != 1])
    return tuple(1 if n == 1 else next(wide) for n in source) if len(own) == len(whole) else None
