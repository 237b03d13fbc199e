"""Finds layer and root-mean-square normalisation where an exporter wrote them as single operators, and makes one node of each.

    mean = reduce_mean(x)   d = x - mean   v = reduce_mean(d * d)   y = d / sqrt(v + epsilon) [* scale] [+ bias]
    v = reduce_mean(x * x)                                          y = x / sqrt(v + epsilon) [* scale]

Where the root is written as a reciprocal (1 / sqrt, rsqrt) that x or d is multiplied with, it is the same. Nodes that something else
reads too stay; the others lead nowhere then, and `drop_dead` takes them.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


@dataclass(frozen=True)
class _Norm:
    """`op` of rows of `x`, made by nodes up to `last`."""

    op: str
    x: str
    epsilon: float
    last: OpNode
    factors: tuple[np.ndarray, ...] = ()


def find_row_norms(draft: Draft) -> None:
    """Nothing; each spelt-out normalisation of rows gives its result by one node."""
    find = Finder.of(draft)
    replaced: dict[str, OpNode] = {}
    for node in draft.nodes:
        found = _find_norm(find, node)
        if found is not None:
            found = _factors(find, found)
            result = found.last.outputs[0]
            inputs = [draft.constant(f"{result}_{label}", f, "fp32") for label, f in zip(("scale", "bias"), found.factors)]
            replaced[found.last.name] = draft.node(found.op, [found.x, *inputs], result, {"epsilon": found.epsilon}, found.last.name)
    draft.nodes = [replaced.get(n.name, n) for n in draft.nodes]


def _find_norm(find: Finder, node: OpNode) -> _Norm | None:
    """Match x or d over the root of a mean square, where `node` divides by it or multiplies with its reciprocal."""
    if node.op not in ("div", "mul"):
        return None
    for data, root in ((0, 1), (1, 0))[:1 if node.op == "div" else 2]:
        spread = _spread(find, node.inputs[root], node.op == "mul")
        if spread is None:
            continue
        square, epsilon = spread
        x = node.inputs[data]
        if find.same(square, x):
            return _of(find, x, epsilon, node)
    return None


def _spread(find: Finder, root: str, inverse: bool) -> tuple[str, float] | None:
    """(what is squared, epsilon) of a tensor that is the root (or its inverse) of a mean square of rows plus epsilon."""
    if inverse:
        at = find.unary(root, "rsqrt")
        if at is None and (under := find.unary(root, "reciprocal")) is not None:
            at = find.unary(under, "sqrt")
    else:
        at = find.unary(root, "sqrt")
    shifted = at and find.scalar(at, "adds")
    if not shifted:
        return None
    mean, epsilon = shifted
    squares = find.row_mean(mean)
    squared = squares and find.square(squares)
    return (squared, epsilon) if squared else None


def _of(find: Finder, x: str, epsilon: float, last: OpNode) -> _Norm | None:
    """Layer normalisation where x is a difference to its rows' means, else by the mean square."""
    if find.draft.tensors[x].shape != find.draft.tensors[last.outputs[0]].shape:
        return None
    difference = find.producer(x, "sub")
    if difference and find.row_mean(difference.inputs[1]) == difference.inputs[0]:
        return _Norm("layer_norm", difference.inputs[0], epsilon, last)
    return _Norm("rms_norm", x, epsilon, last)


def _factors(find: Finder, norm: _Norm) -> _Norm:
    """The normalisation with the constants that follow: a number for each column times it, and for layers plus it."""
    for op in ("mul", "add")[:2 if norm.op == "layer_norm" else 1]:
        user = find.only_user(norm.last.outputs[0])
        row = _row(find, user, norm.last.outputs[0]) if user and user.op == op else None
        if user is None or row is None:
            return norm
        norm = _Norm(norm.op, norm.x, norm.epsilon, user, (*norm.factors, row))
    return norm


def _row(find: Finder, node: OpNode, data: str) -> np.ndarray | None:
    """The node's other argument, where it is one constant number for each column."""
    other = next((i for i in node.inputs if i != data), "")
    width = find.draft.tensors[data].shape[-1]
    c = find.draft.weights.get(other)
    return c.reshape(-1) if c is not None and c.size == width and c.shape[-1:] == (width,) else None
