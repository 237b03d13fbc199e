"""Scores with rows padded to whole blocks. A softmax over rows of 197 halves stores them at 2 bytes a cycle, over rows of 208 in bursts.

Keys and values get rows of zeros, so that the products around a softmax are whole fractals wide. Elements behind the last score are -inf
when the softmax reads them, so that their share is 0. Only tensors between the two products become wider, and no other node reads them.
"""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import FRACTAL_ROWS

EACH = ("muls", "adds", "add", "sub", "mul")  # what may be done to scores: zeros and numbers stay numbers
SHORT = ("fp16", "bf16")


@dataclass(frozen=True)
class Scores:
    """The nodes from the product that makes scores to the one that shares are multiplied in; `every`: the scores of a row."""

    product: OpNode
    between: tuple[OpNode, ...]
    softmax: OpNode
    last: OpNode
    every: int

    @property
    def nodes(self) -> tuple[OpNode, ...]:
        """Return all of them in order."""
        return (self.product, *self.between, self.softmax, self.last)


def ragged_scores(draft: Draft) -> list[Scores]:
    """Return scores in rows of 16-bit elements that are no whole fractals, between two products that nobody else looks into."""
    made, users = draft.producers(), draft.users()
    found = [_scores(draft, n, made, users) for n in draft.nodes if n.op == "softmax"]
    return [s for s in found if s is not None]


def _scores(draft: Draft, softmax: OpNode, made: dict[str, OpNode], users: dict[str, list[OpNode]]) -> Scores | None:
    shape, dtype = draft.tensors[softmax.outputs[0]].shape, draft.tensors[softmax.outputs[0]].dtype
    last = draft.only_user(softmax.outputs[0], users)
    if softmax.attribute("axis") not in (-1, len(shape) - 1) or dtype not in SHORT or shape[-1] % FRACTAL_ROWS == 0 or last is None:
        return None
    between: list[OpNode] = []
    name, reader = softmax.inputs[0], softmax
    while draft.only_user(name, users) is reader and name in made and made[name].op in EACH and draft.tensors[name].shape == shape:
        reader = made[name]
        between.insert(0, reader)
        whole = [i for i in reader.inputs if i in made and _leads(draft, i, made, users, reader)]
        if len(whole) != 1:
            return None
        name = whole[0]
    product = made.get(name)
    if product is None or draft.only_user(name, users) is not reader or not _products(draft, product, last, softmax.outputs[0], shape[-1]):
        return None
    same = all(draft.tensors[o].dtype == dtype and draft.tensors[o].layout == "ND" for n in (product, *between) for o in n.outputs)
    return Scores(product, tuple(between), softmax, last, shape[-1]) if same else None


def _leads(draft: Draft, name: str, made: dict[str, OpNode], users: dict[str, list[OpNode]], reader: OpNode) -> bool:
    """Return whether a tensor is the scores, and not what is done to them."""
    alike = draft.tensors[name].shape == draft.tensors[reader.outputs[0]].shape
    return alike and draft.only_user(name, users) is reader and made[name].op in (*EACH, "matmul")


def _products(draft: Draft, product: OpNode, last: OpNode, shares: str, every: int) -> bool:
    """Return whether two products are plain ones of keys and of values, no constants."""
    plain = all(n.op == "matmul" and len([i for i in n.inputs if i]) == 2 and not n.attribute("trans_a", 0) for n in (product, last))
    if not plain or last.inputs[0] != shares or last.attribute("trans_b", 0) or last.inputs[1] == shares:
        return False
    keys, values = (draft.tensors[n.inputs[1]] for n in (product, last))
    along = -2 if product.attribute("trans_b", 0) else -1
    return keys.shape[along] == every == values.shape[-2] and not any(t.data or t.layout != "ND" for t in (keys, values))


def pad_rows(draft: Draft, named: Collection[str]) -> None:
    """Pad the scores of the named softmax nodes to whole fractals."""
    for s in ragged_scores(draft) if named else []:
        if s.softmax.name in named:
            _pad(draft, s)


def _pad(draft: Draft, s: Scores) -> None:
    wide = -(-s.every // FRACTAL_ROWS) * FRACTAL_ROWS
    for n in s.nodes[:-1]:
        t = draft.tensors[n.outputs[0]]
        draft.tensors[t.name] = replace(t, shape=(*t.shape[:-1], wide))
    nodes, draft.nodes = draft.nodes, []
    for n in nodes:
        if n is s.product:
            n = _pad_input(draft, n, 1, -2 if n.attribute("trans_b", 0) else -1, wide, 0.0)
        elif n in s.between:
            masks = n is s.between[-1] and n.op == "add"
            for at, name in enumerate(n.inputs):
                shape = draft.tensors[name].shape
                if shape and shape[-1] == s.every:
                    n = _pad_input(draft, n, at, -1, wide, -inf if masks else 0.0)
        elif n is s.last:
            n = _pad_input(draft, n, 1, -2, wide, 0.0)
        if n.name == s.softmax.name and not _has_mask(draft, s):
            n = _behind(draft, n, s.every, wide)
        draft.nodes.append(n)


def _has_mask(draft: Draft, s: Scores) -> bool:
    """Return whether what is added last has a number for each score, so that it can say which scores are behind the last key."""
    last = s.between[-1] if s.between else s.product
    other = [i for i in last.inputs if i not in {o for n in s.nodes for o in n.outputs}]
    return last.op == "add" and draft.tensors[other[0]].shape[-1:] == (s.every,)


def _pad_input(draft: Draft, node: OpNode, at: int, axis: int, wide: int, value: float) -> OpNode:
    """Return the node with an input padded to this width along an axis: a constant at once, else by a node."""
    t = draft.tensors[node.inputs[at]]
    axis %= len(t.shape)
    after = tuple(wide - d if i == axis else 0 for i, d in enumerate(t.shape))
    if draft.is_constant(t.name):
        data = np.pad(draft.weights[t.name], [(0, a) for a in after], constant_values=value)
        name = draft.constant(f"{t.name}_whole", data, t.dtype)
    else:
        name = draft.tensor(f"{t.name}_whole", t.dtype, [d + a for d, a in zip(t.shape, after)])
        given: dict[str, Attribute] = {"before": (0,) * len(after), "after": after, "value": value}
        draft.nodes.append(draft.node("pad", [t.name], name, given))
    return replace(node, inputs=(*node.inputs[:at], name, *node.inputs[at + 1:]))


def _behind(draft: Draft, softmax: OpNode, every: int, wide: int) -> OpNode:
    """Return the softmax of scores that are -inf behind the last of them."""
    scores = draft.tensors[softmax.inputs[0]]
    row = np.where(np.arange(wide) < every, 0.0, -inf)
    mask = draft.constant("behind", row.astype(NUMPY[scores.dtype]), scores.dtype)
    name = draft.tensor(f"{scores.name}_masked", scores.dtype, scores.shape)
    draft.nodes.append(draft.node("add", [scores.name, mask], name))
    return replace(softmax, inputs=(name,))
