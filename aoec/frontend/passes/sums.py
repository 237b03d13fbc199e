"""Constants that are added one after the other are one: (x + a) + b is x + (a + b).

Swin adds a bias of relative positions to its scores, and where windows are shifted a mask of those that are no neighbours; between product
and softmax attention has room for one. The sum of two constants is made in fp64 and rounded once, so the result is off by no more than the
rounding of one addition, which every pass that folds takes for granted (affine chains, biases). Where it is no finite number and both are,
the two stay: the lowest number that a dtype has is a mask, and twice that would be none beside others. So do two single numbers whose sum
loses the smaller one: in 1 - x + 1e-8 that keeps a logarithm finite where x is 1.
"""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.run import REALS

MOST_BYTES = 16 << 20  # of a constant that is made of two smaller ones
MOST_TIMES = 8  # as large as both together


def join_constants(draft: Draft) -> None:
    """Nothing; reals to which constants are added one after the other have one added."""
    find = Finder.of(draft)
    replaced: dict[str, OpNode] = {}
    for node in draft.nodes:
        found = _find_addend(find, node)
        first = found and find.producers.get(found[0])
        if not found or first is None or find.only_user(found[0]) is not node:
            continue
        before = _find_addend(find, replaced.get(first.name, first))
        total = before and _sum(draft, before[1], found[1])
        if before and total:
            replaced[node.name] = replace(node, inputs=(before[0], total))
    draft.nodes = [replaced.get(n.name, n) for n in draft.nodes]


def _find_addend(find: Finder, node: OpNode) -> tuple[str, str] | None:
    """Return (data, the constant added to it) of an addition of reals whose result has the shape of the data."""
    if node.op != "add" or find.draft.tensors[node.outputs[0]].dtype not in REALS:
        return None
    held = [i for i in node.inputs if find.draft.is_constant(i)]
    data = [i for i in node.inputs if i not in held]
    fits = len(held) == len(data) == 1 and find.draft.tensors[data[0]].shape == find.draft.tensors[node.outputs[0]].shape
    return (data[0], held[0]) if fits else None


def _sum(draft: Draft, a: str, b: str) -> str:
    """The constant that is the sum of two; "" where it would be too large, or no number."""
    first, second = draft.weights[a], draft.weights[b]
    shape = np.broadcast_shapes(first.shape, second.shape)
    size = int(np.prod(shape, dtype=np.int64))
    if size * 4 > MOST_BYTES or size > MOST_TIMES * (first.size + second.size):
        return ""
    with np.errstate(all="ignore"):
        total = (first.astype(np.float64) + second.astype(np.float64)).astype(np.float32)
        kept = np.isfinite(total) | ~np.isfinite(first) | ~np.isfinite(second)
    if not kept.all() or np.isnan(total).any() or size == 1 and loses(float(first.flat[0]), float(second.flat[0])):
        return ""
    return draft.constant(f"{a}_sum", total, draft.tensors[a].dtype)


def loses(a: float, b: float) -> bool:
    """Whether the sum of two numbers in fp32 has less than ten bits of the smaller."""
    return a != 0 and b != 0 and abs(float(np.float32(a + b)) - (a + b)) > 2.0**-10 * min(abs(a), abs(b))
