"""Folds padding of images into the convolution or pooling that reads it: zeros for products and averages, -inf for a maximum.

Exporters write it as a node of its own where pads differ from side to side, as models from TensorFlow do. A window's own pads must be
shorter than the span of its kernel, and those of a convolution must fit load3d. Wider padding stays. An average multiplies its sum by its
own counts, which zeros do not change.
"""
from __future__ import annotations

from dataclasses import replace
from math import inf

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.target.isa.instructions import INSTRUCTIONS

LONGEST = next(field.high for field in INSTRUCTIONS["load3d"].numbers if field.name == "pad_top")  # of any side, in pixels
NEUTRAL = {"conv2d": 0.0, "avg_pool": 0.0, "max_pool": -inf}  # what the padding of a window itself is read as


def fold_pads(draft: Draft) -> None:
    """Fold pads into the windows that read them: the windows read the unpadded tensor and pad it themselves."""
    find = Finder.of(draft)
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        line = find.unary(node.inputs[0], "reshape") if node.op in NEUTRAL else None
        padding = find.producer(node.inputs[0] if line is None else line, "pad") if node.op in NEUTRAL else None
        ends = None if padding is None else _ends(draft, node, padding)
        if padding is not None and ends is not None:
            node = _merge_pad(draft, node, padding.inputs[0], ends)
        draft.nodes.append(node)


def _ends(draft: Draft, node: OpNode, padding: OpNode) -> tuple[int, ...] | None:
    """Return the window's pads with the padding added, above, left, below and right. Return None where it cannot do all of that itself."""
    if padding.attribute("value") != NEUTRAL[node.op]:
        return None
    before, after = _numbers(padding, "before"), _numbers(padding, "after")
    image, own = draft.tensors[node.inputs[0]].shape, draft.tensors[padding.outputs[0]].shape
    if len(own) == 3 and image == (*own[:2], 1, own[2]):  # a line, as an image of one row
        before, after = ((*p[:2], 0, p[2]) for p in (before, after))
    elif image != own:
        return None
    ends = tuple(map(sum, zip(_numbers(node, "pad"), (*before[2:], *after[2:]))))
    kernel = draft.tensors[node.inputs[1]].shape[2:] if node.op == "conv2d" else _numbers(node, "kernel")
    limit = LONGEST if node.op == "conv2d" else inf
    reach = 2 * tuple(min(d * (k - 1), limit) for d, k in zip(_numbers(node, "dilation"), kernel))
    return None if any((*before[:2], *after[:2])) or any(e > most for e, most in zip(ends, reach)) else ends


def _merge_pad(draft: Draft, node: OpNode, source: str, ends: tuple[int, ...]) -> OpNode:
    """Return the window with these pads, on the tensor before padding. A line becomes an image first."""
    t = draft.tensors[source]
    if len(t.shape) == 3:
        image = draft.tensor(f"{source}_image", t.dtype, (*t.shape[:2], 1, t.shape[2]))
        draft.nodes.append(draft.node("reshape", [source], image, {"shape": draft.tensors[image].shape}))
        source = image
    attributes = tuple((name, ends if name == "pad" else value) for name, value in node.attributes)
    return replace(node, inputs=(source, *node.inputs[1:]), attributes=attributes)


def _numbers(node: OpNode, name: str) -> tuple[int, ...]:
    """Return an attribute that is a list of whole numbers."""
    value = node.attribute(name)
    assert isinstance(value, tuple)
    return tuple(int(n) for n in value)
