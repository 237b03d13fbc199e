"""Gradients of operators that move elements: other moves, and sums of what was read more than once."""
from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.frontend.rules.choice import count_from_start
from aoec.frontend.rules.scatter import RULES as SCATTERS
from aoec.frontend.training.gradients.gradient_site import Rule, Site, inverse
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import OpNode
from aoec.ops.words.movement import spelt_out

MOST_PAIRS = 1 << 26  # of rows of a table and places that read it: 128 MB of ones and zeros in fp16
MOST_BACK = 4096  # nodes, from the last one back, among which the parts of a gradient are looked for


def _reshape(s: Site, at: int) -> str:
    return s.reshape(s.dy, s.shape(0))


def _transpose(s: Site, at: int) -> str:
    return s.transpose(s.dy, inverse(s.list("perm")))


def _expand(s: Site, at: int) -> str:
    return s.dy


def _cast(s: Site, at: int) -> str:
    return s.dy if s.is_real(s.y) else ""


def _concat(s: Site, at: int) -> str:
    axis = s.integer("axis") % len(s.out)
    starts = [0, *accumulate(s.shape(k)[axis] for k in range(len(s.node.inputs)))]
    return s.n.piece(s.dy, axis, starts[at], s.shape(at)[axis])


def _slice(s: Site, at: int) -> str:
    """Return what was not read has zeros."""
    starts, steps, whole, dx = s.list("starts"), s.list("steps"), s.shape(0), s.dy
    before, after = [], []
    for axis, (start, step, extent) in enumerate(zip(starts, steps, whole)):
        if step < 0:
            dx, start = s.flip(dx, axis), start + (s.out[axis] - 1) * step
        dx = s.insert_zeros(dx, axis, abs(step))
        before.append(start)
        after.append(extent - start - s.n.made_shape(dx)[axis])
    if not any((*before, *after)):
        return dx
    return s.step("pad", [dx], before=tuple(before), after=tuple(after), value=0.0)


def join_slices(n: Node, parts: list[str]) -> list[str]:
    """Return the parts of a gradient; where they are all zeros but for a slice each, and these lie side by side, the slices joined."""
    made = {node.outputs[0]: node for node in n.draft.nodes[-MOST_BACK:] if node.op == "pad"}
    if not all(p in made for p in parts) or len(set(parts)) < len(parts):
        return parts
    shape, slices = n.made_shape(parts[0]), [(*_place(made[p]), made[p].inputs[0]) for p in parts]
    axes = {axis for found, *_ in slices for axis in found}
    if len(axes) != 1:
        return parts
    axis, = axes
    ordered = sorted((before[axis], n.made_shape(x)[axis], x) for _, before, x in slices)
    ends = [start + size for start, size, _ in ordered]
    if [start for start, *_ in ordered] != [0, *ends[:-1]] or ends[-1] != shape[axis]:
        return parts
    n.draft.nodes = [node for node in n.draft.nodes if not set(node.outputs) & set(parts)]
    return [n.step("concat", [x for *_, x in ordered], {"axis": axis})]


def _place(node: OpNode) -> tuple[list[int], tuple[int, ...]]:
    """Return (the axes along which a node pads, how much before the tensor)."""
    before, after = node.attribute("before"), node.attribute("after")
    assert isinstance(before, tuple) and isinstance(after, tuple)
    return [axis for axis, ends in enumerate(zip(before, after)) if any(ends)], tuple(int(b) for b in before)


def _pad(s: Site, at: int) -> str:
    return s.step("slice", [s.dy], starts=s.list("before"), sizes=s.shape(0), steps=(1,) * len(s.out))


def _upsample(s: Site, at: int) -> str:
    """Return the gradient of the image: the sum of the copies of each pixel."""
    scale = s.list("scale")
    mean = s.step("avg_pool", [s.dy], kernel=scale, stride=scale, pad=(0, 0, 0, 0), dilation=(1, 1))
    return s.scale(mean, float(prod(scale)))


def _depth_to_space(s: Site, at: int) -> str:
    apart, perm, _ = spelt_out(s.shape(0), s.list("scale"))
    dx = s.reshape(s.dy, [apart[axis] for axis in perm])
    return s.reshape(s.transpose(dx, inverse(perm)), s.shape(0))


# ---------------------------------------------------------------- where data say

def _gather(s: Site, at: int) -> str:
    """Return the gradient of a gather's data. Each row of dY is added to the row of X that it came from. This is a product on the cube with
    a matrix that tells which row that is. For a large table, the rows are made some at a time, so that little memory is needed in
    between."""
    axis, shape, index = s.integer("axis"), s.shape(0), s.x(1)
    places, rows = prod(s.shape(1)), shape[axis]
    before, behind = prod(shape[:axis]), prod(shape[axis + 1:])
    flat = s.reshape(s.dy, (before, places, behind) if before > 1 else (places, behind))
    index = count_from_start(s.n, s.reshape(index, (places, 1)), rows)
    each = min(rows, max(1, MOST_PAIRS // max(1, places)))
    parts = [s.step("matmul", [_which_row(s, index, range(start, min(rows, start + each))), flat], trans_a=1)
             for start in range(0, rows, each)]
    return s.reshape(s.step("concat", parts, axis=int(before > 1)) if len(parts) > 1 else parts[0], shape)


def _which_row(s: Site, index: str, rows: range) -> str:
    """Return [places, rows] from an index [places, 1]: 1 where the row is the one that the index names, else 0."""
    each = s.constant("rows", np.array(rows).reshape(1, -1), s.n.made_dtype(index))
    return s.step("cast", [s.step("equal", [each, index], "bool")], "fp32")


def _gather_elements(s: Site, at: int) -> str:
    """Return the gradient of the data. Each element of dY is added to the element of X that it came from."""
    shape = s.shape(0)
    zeros = s.constant("zeros", np.zeros(shape))
    n, made = s.as_onnx("ScatterElements", [zeros, s.x(1), s.dy], shape, axis=s.integer("axis"), reduction="add")
    if not SCATTERS["ScatterElements"](n):
        raise UnsupportedError("its gradient adds at too many places that data say")
    return made


RULES: dict[str, Rule] = {
    "reshape": _reshape, "transpose": _transpose, "expand": _expand, "cast": _cast, "concat": _concat, "slice": _slice, "pad": _pad,
    "upsample": _upsample, "depth_to_space": _depth_to_space, "gather": _gather, "gather_elements": _gather_elements,
}
