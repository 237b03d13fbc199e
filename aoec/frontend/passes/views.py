"""Exchanges transposes and views, so that transposes meet others, and products that can read transposed operands.

PyTorch's exporter transposes the keys of attention as [batch * heads, words, depth], with views of [batch, heads, words, depth] before and
behind. A view that only joins axes which stay neighbours, or splits one, can be moved before the transpose.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

Perm = tuple[int, ...]


def viewed_before(draft: Draft, view: OpNode, turn: OpNode) -> tuple[OpNode, OpNode] | None:
    """Return (a view of what `turn` transposes, the transpose that gives the result of `view`, which reads that). Return None where no view
    does."""
    source, turned, result = (draft.tensors[t] for t in (turn.inputs[0], view.inputs[0], view.outputs[0]))
    perm = turn.attribute("perm")
    assert isinstance(perm, tuple)
    order = _order(tuple(int(axis) for axis in perm), turned.shape, result.shape)
    if order is None:
        return None
    inner = draft.tensor(f"{result.name}_before", source.dtype, [result.shape[axis] for axis in order])
    perm = tuple(order.index(axis) for axis in range(len(order)))
    return (draft.node("reshape", [source.name], inner, {"shape": draft.tensors[inner].shape}, view.name),
            OpNode(view.name, "transpose", (inner,), view.outputs, (("perm", perm),)))


def _order(perm: Perm, turned: Sequence[int], result: Sequence[int]) -> list[int] | None:
    """Return the axes of the result, in the order in which they lie before a transpose that gave `turned`. Return None where some axis of
    the result is made of axes that the transpose brought together."""
    if 0 in turned:
        return None
    wide = [axis for axis, size in enumerate(turned) if size > 1]
    place = {axis: at for at, axis in enumerate(sorted(wide, key=lambda axis: perm[axis]))}  # of those with more than one element
    kept = [axis for axis, size in enumerate(result) if size > 1]
    parts: list[tuple[int, list[int]]] = []
    for own, made in _parts([turned[axis] for axis in wide], [result[axis] for axis in kept]):
        places = [place[wide[at]] for at in own]
        if places != list(range(places[0], places[0] + len(places))):
            return None
        parts.append((places[0], [kept[at] for at in made]))
    order = [axis for _, axes in sorted(parts) for axis in axes]
    for axis in (a for a, size in enumerate(result) if size == 1):  # behind the axis that it follows; it has nothing to move
        order.insert(order.index(axis - 1) + 1 if axis else 0, axis)
    return order


def _parts(a: Sequence[int], b: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Return the shortest runs of axes of two shapes of equal size that hold the same elements; all extents are above 1."""
    out: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a):
        own, made = [i], [j]
        while prod(a[at] for at in own) != prod(b[at] for at in made):
            if prod(a[at] for at in own) < prod(b[at] for at in made):
                own.append(own[-1] + 1)
            else:
                made.append(made[-1] + 1)
        i, j = own[-1] + 1, made[-1] + 1
        out.append((own, made))
    return out
