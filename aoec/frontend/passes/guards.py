"""Drops choices whose outcome is always the same. Exporters write them behind a softmax for rows that see nothing: where(is_nan(y), 0, y),
or where(is_negative_inf(reduce_max(mask)), 0, y). They are dropped if every row sees something.

A row's softmax is NaN where all of the row is -inf. Scores are products that are scaled and have a mask added. They are numbers, as long as
they do not overflow. So the outcome depends on the mask. It must hold numbers, however low, or be infinite only in constant places that
leave something in every row.
"""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

# operators between products, or masks, and a softmax that make numbers of numbers; the condition of a choice and an index are none
NUMBERS = frozenset(("add", "concat", "expand", "gather", "muls", "reshape", "slice", "transpose", "where"))
DEPTH = 8  # nodes that are looked back over


def drop_guards(draft: Draft) -> None:
    """Drop such choices, and let their readers read what is always chosen."""
    find = Finder.of(draft)
    names = {n.outputs[0]: n.inputs[2] for n in draft.nodes if n.op == "where" and n.outputs[0] not in draft.outputs
             and draft.tensors[n.outputs[0]].shape == draft.tensors[n.inputs[2]].shape and _never(find, n.inputs[0])}
    draft.nodes = [n for n in draft.nodes if n.outputs[0] not in names]
    draft.rename(names)


def _never(find: Finder, condition: str) -> bool:
    """Return True for a condition that holds nowhere."""
    if condition in find.draft.weights:
        return not find.draft.weights[condition].any()
    shares, mask = find.unary(condition, "is_nan"), find.unary(condition, "is_negative_inf")
    softmax = find.producer(shares, "softmax") if shares else None
    return softmax is not None and _is_number(find, softmax) or mask is not None and _finite(find, find.unary(mask, "reduce_max") or mask)


def _is_number(find: Finder, softmax: OpNode) -> bool:
    """Return True for a softmax of scores that leave something in every row."""
    scores, rank = softmax.inputs[0], len(find.draft.tensors[softmax.inputs[0]].shape)
    plus = find.producer(scores, "add") if dict(softmax.attributes)["axis"] in (-1, rank - 1) else None
    pairs = [plus.inputs, plus.inputs[::-1]] if plus else []
    return _finite(find, scores) or any(_finite(find, a) and _leaves(find.draft.weights, b) for a, b in pairs)


def _leaves(weights: Mapping[str, np.ndarray], mask: str) -> bool:
    """Return True for a constant of numbers and -inf that leaves a number in every row."""
    c = weights.get(mask)
    return c is not None and c.ndim > 0 and bool((c < np.inf).all() and np.isfinite(c).any(axis=-1).all())


def _finite(find: Finder, name: str, depth: int = DEPTH) -> bool:
    """Return True for a tensor that is made of numbers where nothing overflows: of products, or of constants that are numbers."""
    if name in find.draft.weights:
        return bool(np.isfinite(find.draft.weights[name]).all())
    node = find.producers.get(name)
    if node is None or depth == 0:
        return False
    read = node.inputs[1:] if node.op == "where" else node.inputs[:1] if node.op == "gather" else node.inputs
    return node.op == "matmul" or node.op in NUMBERS and all(_finite(find, i, depth - 1) for i in read)
