"""Gradients of operators that move elements: other moves, and sums of what was read more than once."""
from __future__ import annotations

from itertools import accumulate
from math import prod

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.frontend.rules.choice import count_from_start
from aoec.frontend.rules.scatter import RULES as SCATTERS
from aoec.frontend.training.gradient_site import Rule, Site, inverse
from aoec.ops.words.movement import spelt_out


def _reshape(s: Site, at: int) -> str:
    return s.reshape(s.dy, s.shape(0))


def _transpose(s: Site, at: int) -> str:
    return s.transpose(s.dy, inverse(s.list("perm")))


def _expand(s: Site, at: int) -> str:
    return s.dy


def _cast(s: Site, at: int) -> str:
    return s.dy if s.is_real(s.y) else ""


def _concat(s: Site, at: int) -> str:
    axis = s.whole("axis") % len(s.out)
    starts = [0, *accumulate(s.shape(k)[axis] for k in range(len(s.node.inputs)))]
    return s.n.piece(s.dy, axis, starts[at], s.shape(at)[axis])


def _slice(s: Site, at: int) -> str:
    """What was not read has zeros."""
    starts, steps, whole, dx = s.list("starts"), s.list("steps"), s.shape(0), s.dy
    before, after = [], []
    for axis, (start, step, extent) in enumerate(zip(starts, steps, whole)):
        if step < 0:
            dx, start = s.flip(dx, axis), start + (s.out[axis] - 1) * step
        dx = s.spread(dx, axis, abs(step))
        before.append(start)
        after.append(extent - start - s.n.made_shape(dx)[axis])
    if not any((*before, *after)):
        return dx
    return s.step("pad", [dx], before=tuple(before), after=tuple(after), value=0.0)


def _pad(s: Site, at: int) -> str:
    return s.step("slice", [s.dy], starts=s.list("before"), sizes=s.shape(0), steps=(1,) * len(s.out))


def _upsample(s: Site, at: int) -> str:
    """The sum of the copies of each pixel."""
    scale = s.list("scale")
    mean = s.step("avg_pool", [s.dy], kernel=scale, stride=scale, pad=(0, 0, 0, 0), dilation=(1, 1))
    return s.scaled(mean, float(prod(scale)))


def _depth_to_space(s: Site, at: int) -> str:
    apart, perm, _ = spelt_out(s.shape(0), s.list("scale"))
    dx = s.reshape(s.dy, [apart[axis] for axis in perm])
    return s.reshape(s.transpose(dx, inverse(perm)), s.shape(0))


# ---------------------------------------------------------------- where data say

def _gather(s: Site, at: int) -> str:
    """Each row of dY is added to the row of X that it came from: a product with which row that is, where that is not too much."""
    axis, shape, index = s.whole("axis"), s.shape(0), s.x(1)
    places, rows = prod(s.shape(1)), shape[axis]
    before, behind = prod(shape[:axis]), prod(shape[axis + 1:])
    flat = s.reshape(s.dy, (before, places, behind))
    hot = _one_hot(s, s.reshape(index, (places, 1)), rows)
    made = s.step("matmul", [hot, flat if before > 1 else s.reshape(flat, (places, behind))], trans_a=1)
    return s.reshape(made, shape)


def _one_hot(s: Site, index: str, rows: int) -> str:
    """[places, rows] of an index [places, 1]: 1 where the row is the one that the index says, counted from the end where it is negative."""
    kind = s.n.made_dtype(index)
    each = s.constant("rows", np.arange(rows).reshape(1, rows), kind)
    index = count_from_start(s.n, index, rows)
    return s.step("cast", [s.step("equal", [each, index], "bool")], "fp32")


def _gather_elements(s: Site, at: int) -> str:
    """Each element of dY is added to that of X that it came from."""
    shape = s.shape(0)
    zeros = s.constant("zeros", np.zeros(shape))
    n, made = s.as_onnx("ScatterElements", [zeros, s.x(1), s.dy], shape, axis=s.whole("axis"), reduction="add")
    if not SCATTERS["ScatterElements"](n):
        raise UnsupportedError("its gradient adds at too many places that data say")
    return made


RULES: dict[str, Rule] = {
    "reshape": _reshape, "transpose": _transpose, "expand": _expand, "cast": _cast, "concat": _concat, "slice": _slice, "pad": _pad,
    "upsample": _upsample, "depth_to_space": _depth_to_space, "gather": _gather, "gather_elements": _gather_elements,
}
