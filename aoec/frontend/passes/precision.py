"""Chooses the dtype of the reals: fp16 (rounded once, biases of cube operators stay fp32), or fp32."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from aoec.ir.draft import Draft
from aoec.ir.graph import OpNode

PRECISIONS = ("fp16", "fp32")
CUBE = ("conv2d", "matmul")
OVERFLOW_FP16 = 65520.0  # half a step above the largest: from here on numbers round to infinity


def choose_precision(draft: Draft, precision: str) -> list[str]:
    """Notices for the user, after the draft's tensors and constants took the precision."""
    _split_bias(draft)
    if precision == "fp32":
        return []
    biases = {i for n in draft.nodes if n.op in CUBE for i in n.inputs[2:] if draft.is_constant(i)}
    overflowing = [_round(draft, name) for name, t in draft.tensors.items() if t.dtype == "fp32" and name not in biases]
    lost = [name for name in overflowing if name]
    return [f"{len(lost)} constant{'s' * (len(lost) > 1)} exceed the range of fp16 and became infinite (first: {lost[0]}); "
            "--precision fp32 keeps them"] if lost else []


def _round(draft: Draft, name: str) -> str:
    """The name where values of the constant overflowed, else ""."""
    draft.tensors[name] = replace(draft.tensors[name], dtype="fp16")
    if name not in draft.weights:
        return ""
    wide = draft.weights[name]
    with np.errstate(over="ignore"):
        draft.weights[name] = wide.astype(np.float16)
    largest = max(float(wide.max()), -float(wide.min())) if wide.size else 0.0
    return name if OVERFLOW_FP16 <= largest < np.inf else ""


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
