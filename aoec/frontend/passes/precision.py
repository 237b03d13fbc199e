"""Chooses the dtype of the reals: fp16 (rounded once, biases of cube operators stay fp32), or fp32.

A number beyond the range of fp16, in a constant or an attribute, becomes its largest: masks that hide words add the lowest number of fp32,
and where they hide a whole row, infinities would leave nothing of its softmax.
"""
from __future__ import annotations

from dataclasses import replace
from math import copysign, inf

import numpy as np

from aoec.ir.draft import Draft
from aoec.ir.graph import Attribute, OpNode

PRECISIONS = ("fp16", "fp32")
CUBE = ("conv2d", "matmul")
LARGEST_FP16 = 65504.0
OVERFLOW_FP16 = 65520.0  # half a step above the largest: from here on numbers round to infinity


def choose_precision(draft: Draft, precision: str) -> list[str]:
    """Notices for the user, after the draft's tensors and constants took the precision."""
    _split_bias(draft)
    if precision == "fp32":
        return []
    biases = {i for n in draft.nodes if n.op in CUBE for i in n.inputs[2:] if draft.is_constant(i)}
    lost = [name for name, t in draft.tensors.items() if t.dtype == "fp32" and name not in biases and _round(draft, name)]
    bounded = [_bounded(draft, n) for n in draft.nodes]
    lost += [n.name for n, new in zip(draft.nodes, bounded) if n is not new]
    draft.nodes = bounded
    return [f"{len(lost)} constant{'s' * (len(lost) > 1)} exceed the range of fp16 and became its largest number (first: {lost[0]}); "
            "--precision fp32 keeps them"] if lost else []


def _round(draft: Draft, name: str) -> bool:
    """True where the tensor, which is of fp16 from now on, is a constant with numbers beyond that."""
    draft.tensors[name] = replace(draft.tensors[name], dtype="fp16")
    wide = draft.weights.get(name)
    if wide is None:
        return False
    beyond = np.isfinite(wide) & (np.abs(wide) >= OVERFLOW_FP16)
    draft.weights[name] = np.where(beyond, np.copysign(LARGEST_FP16, wide), wide).astype(np.float16)
    return bool(beyond.any())


def _bounded(draft: Draft, node: OpNode) -> OpNode:
    """The node with its numbers in the range of fp16, if it gives that; the same node where they are."""
    def beyond(value: Attribute) -> bool:
        return isinstance(value, float) and OVERFLOW_FP16 <= abs(value) < inf

    t = draft.tensors.get(node.outputs[0])
    if t is None or t.dtype != "fp16" or not any(beyond(value) for _, value in node.attributes):
        return node
    return replace(node, attributes=tuple((k, copysign(LARGEST_FP16, v) if beyond(v) else v) for k, v in node.attributes))  # type: ignore[arg-type]


def _split_bias(draft: Draft) -> None:
    """Nothing; a bias that something else reads too got a copy of its own, which can stay fp32."""
    nodes, draft.nodes = draft.nodes, []
    others = {i for n in nodes for i in (n.inputs[:2] if n.op in CUBE else n.inputs)}
    copies: dict[str, str] = {}
    for node in nodes:
        if node.op in CUBE and len(node.inputs) > 2 and node.inputs[2] in others and draft.is_constant(node.inputs[2]):
            name = node.inputs[2]
            copies[name] = copies.get(name) or draft.constant(f"{name}_bias", draft.weights[name], "fp32")
            node = _with_bias(node, copies[name])
        draft.nodes.append(node)


def _with_bias(node: OpNode, bias: str) -> OpNode:
    return replace(node, inputs=(*node.inputs[:2], bias))
