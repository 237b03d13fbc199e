"""Uses the operators that take a scalar for arithmetic with a single constant number; the vector unit has instructions for them.

Constants that change nothing are treated the same way. These are zeros of any shape that are added, such as exporters' masks where nothing
is hidden, and ones that are multiplied.
"""
from __future__ import annotations

from math import inf

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ops.run import REALS

MOST = 1 << 53  # whole numbers that fp64 holds
NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}  # the second argument that changes nothing
Steps = list[tuple[str, dict[str, Attribute]]]


def use_scalars(draft: Draft) -> None:
    """Replace x + 2, 2 - x, x / 2, max(x, 2) and the like by chains of `adds`, `muls`, `reciprocal`, `clip`."""
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        side = _constant_side(draft, node)
        steps = None if side is None else _steps(node.op, float(draft.weights[node.inputs[side]].flat[0]), side)
        if side is None or steps is None:
            draft.nodes.append(node)
        else:
            _chain(draft, node, node.inputs[1 - side], steps)


def _constant_side(draft: Draft, node: OpNode) -> int | None:
    """Return which of two arguments, 0 or 1, is a single number, where the other has the result's shape. Return None where neither is."""
    out = draft.tensors[node.outputs[0]]
    if len(node.inputs) != 2 or out.dtype not in REALS and not _exact(draft, node):
        return None
    for side in (1, 0):
        value = draft.weights.get(node.inputs[side])
        if value is not None and draft.tensors[node.inputs[1 - side]].shape == out.shape and _is_number(node.op, value, side):
            return side
    return None


def _is_number(op: str, value: np.ndarray, side: int) -> bool:
    """Return True for one number, and for many that change nothing: they do what one does."""
    neutral = op in NEUTRAL and (side == 1 or op in ("add", "mul"))
    return value.size == 1 or neutral and value.size > 0 and bool((value == NEUTRAL[op]).all())


def _exact(draft: Draft, node: OpNode) -> bool:
    """Return True for sums and products of signed whole numbers whose constants a real scalar holds exactly."""
    constants = [draft.weights[i] for i in node.inputs if i in draft.weights]
    signed = all(draft.tensors[i].dtype in ("int32", "int64") for i in node.inputs)
    return signed and node.op in ("add", "sub", "mul") and all(c.size != 1 or abs(int(c.reshape(()))) <= MOST for c in constants)


def _steps(op: str, c: float, side: int) -> Steps | None:
    """Return the chain that computes `x op c` (side 1) or `c op x` (side 0). Return None where there is none."""
    if op in ("add", "mul"):
        return [(f"{op}s", {"scalar": c})]
    if op == "sub":
        return [("adds", {"scalar": -c})] if side else [("muls", {"scalar": -1.0}), ("adds", {"scalar": c})]
    if op == "div" and side:
        single = np.finfo(np.float32)
        inverse = 1.0 / c if c else 0.0
        return [("muls", {"scalar": inverse})] if float(single.tiny) <= abs(inverse) <= float(single.max) else None
    if op == "div":
        return [("reciprocal", {}), ("muls", {"scalar": c})]
    bounds: dict[str, dict[str, Attribute]] = {"maximum": {"lo": c, "hi": inf}, "minimum": {"lo": -inf, "hi": c}}
    return [("clip", bounds[op])] if op in bounds else None


def _chain(draft: Draft, node: OpNode, source: str, steps: Steps) -> None:
    """Add nodes for the steps, the last of which gives the node's result."""
    result = draft.tensors[node.outputs[0]]
    for op, attributes in steps[:-1]:
        out = draft.tensor(f"{result.name}_{op}", result.dtype, result.shape)
        draft.nodes.append(draft.node(op, [source], out, attributes, node.name))
        source = out
    op, attributes = steps[-1]
    draft.nodes.append(OpNode(node.name, op, (source,), node.outputs, tuple(attributes.items())))
