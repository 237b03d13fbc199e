"""Drops expansions that their readers do not need: elementwise work and products broadcast along axes of one element themselves."""
from __future__ import annotations

from dataclasses import replace

from aoec import ops
from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops import OPS


def drop_expansions(draft: Draft) -> None:
    """Make readers of expanded tensors read what was expanded, where they give the same shape."""
    find = Finder.of(draft)
    draft.nodes = [_without_expansions(find, n) for n in draft.nodes]


def _without_expansions(find: Finder, node: OpNode) -> OpNode:
    """Return a node that reads what is expanded as it is, where its result keeps its shape."""
    if node.op != "matmul" and (node.op not in OPS or OPS[node.op].family != "elementwise") or len(node.outputs) != 1:
        return node
    for at, name in enumerate(node.inputs):
        source = find.unary(name, "expand")
        if source is None:
            continue
        inputs = (*node.inputs[:at], source, *node.inputs[at + 1:])
        if _keeps_shape(find.draft, replace(node, inputs=inputs)):
            node = replace(node, inputs=inputs)
    return node


def _keeps_shape(draft: Draft, node: OpNode) -> bool:
    """Return whether a node whose inputs were changed gives the shape that it gave; of a product, matrices stay matrices."""
    shapes = [draft.tensors[i].shape for i in node.inputs if i]
    if node.op == "matmul" and any(len(s) < 2 for s in shapes[:2]):
        return False
    return ops.shape(node.op, shapes, dict(node.attributes)) == draft.tensors[node.outputs[0]].shape
