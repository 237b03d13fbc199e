"""Resize and Upsample: an axis after the other, each by constant places (nearest) or by a constant matrix of weights (linear, cubic)."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from aoec.frontend.node import Node
from aoec.frontend.rules.movement import steps, taken
from aoec.frontend.rules.rule import Rule

ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda v: np.ceil(v - 0.5),
    "round_prefer_ceil": lambda v: np.floor(v + 0.5)}
MOST_WEIGHTS = 1 << 24  # elements of one axis's matrix
MOST_PIECES = 4  # of an axis: each is a launch or two, and reads of all its places together are one, or three


@dataclass(frozen=True)
class Axis:
    """One axis that is resized: its extents, the scale, and the region of interest for those who crop."""

    at: int
    size: int
    out: int
    scale: float
    roi: tuple[float, float]


def _resize(n: Node) -> bool:
    found = _axes(n)
    if found is None:
        return False
    if (scale := _whole_copies(n)) is not None:
        return n.emit("upsample", [n.input(0)], {"scale": scale})
    mode, x = n.text("mode", "nearest"), n.input(0)
    if mode == "nearest":
        for axis in found:
            x = _picked(n, x, axis)
    elif n.dtype() != "fp32" or any(axis.size * axis.out > MOST_WEIGHTS for axis in found):
        return False
    else:
        for axis in sorted(found, key=lambda a: (a.out / a.size, -a.at)):  # what grows least first, so that least lies between
            x = _weighted(n, x, axis, _weights(n, axis, "linear" if mode == "bilinear" else mode))
    if n.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" and any(outside(n, axis).any() for axis in found):
        return _with_outside(n, x, found)
    return n.emit("reshape", [x], {"shape": n.shape()})


def _axes(n: Node) -> list[Axis] | None:
    """The axes whose elements change; None where scales or sizes are not known."""
    shape, out, old = n.shape_of(0), n.shape(), n.opset < 11 or n.proto.op_type == "Upsample"
    places = (None, 1, None) if old else (1, 2, 3)
    if any(at and n.has(at) and not n.is_constant(at) for at in places):
        return None
    axes = [a % len(shape) for a in n.integers("axes", tuple(range(len(shape))))]
    roi, scales, sizes = (_numbers(n, at) for at in places)
    scales = scales or list(n.reals("scales", ()))
    if not scales:
        scales = [size / shape[axis] for size, axis in zip(sizes, axes)]
        policy = n.text("keep_aspect_ratio_policy", "stretch")
        scales = scales if policy == "stretch" else [min(scales) if policy == "not_larger" else max(scales)] * len(scales)
    roi = roi or [0.0] * len(axes) + [1.0] * len(axes)
    whole = [Axis(axis, shape[axis], out[axis], scale, (roi[i], roi[i + len(axes)])) for i, (axis, scale) in enumerate(zip(axes, scales))]
    return [a for a in whole if (a.size, a.scale, a.roi) != (a.out, 1.0, (0.0, 1.0))]


def _numbers(n: Node, at: int | None) -> list[float]:
    value = n.draft.weights.get(n.input(at)) if at is not None and n.has(at) else None
    return [] if value is None else [float(v) for v in value.ravel()]


def _whole_copies(n: Node) -> tuple[int, int] | None:
    """How often each pixel of an image stands down and across, where it is the nearest one in whole ratios by any rule that puts the copies
    side by side: such work stays in blocks of channels."""
    rank, shape, out = len(n.shape_of(0)), n.shape_of(0), n.shape()
    if n.text("mode", "nearest") != "nearest" or rank != 4 or shape[:2] != out[:2] or any(b % a for a, b in zip(shape, out)):
        return None
    scale = (out[2] // shape[2], out[3] // shape[3])
    rule, rounding = _rules(n)
    centred = rule in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    same = centred or rule == "asymmetric" and (rounding == "floor" or rounding == "round_prefer_floor" and max(scale) <= 2)
    return scale if same and n.text("keep_aspect_ratio_policy", "stretch") == "stretch" and n.dtype() == "fp32" else None


def _rules(n: Node) -> tuple[str, str]:
    """(how coordinates follow from places, how they are rounded)."""
    if n.proto.op_type == "Upsample" or n.opset < 11:
        return "asymmetric", "floor"
    return n.text("coordinate_transformation_mode", "half_pixel"), n.text("nearest_mode", "round_prefer_floor")


def coordinates(n: Node, axis: Axis) -> np.ndarray:
    """float64[out]: where in the input each place of the output lies, as ONNX defines it."""
    y, rule, width = np.arange(axis.out, dtype=np.float64), _rules(n)[0], axis.scale * axis.size
    if rule == "align_corners":
        return y * 0.0 if width == 1 else y * (axis.size - 1) / (width - 1)
    if rule == "asymmetric":
        return y / axis.scale
    if rule == "tf_crop_and_resize":
        first, last = axis.roi
        steps = np.full(axis.out, 0.5) if width == 1 else y / (width - 1)
        return (steps * (last - first) + first) * (axis.size - 1)
    if rule == "pytorch_half_pixel" and width == 1:
        return np.full(axis.out, -0.5)
    offset = axis.size / 2 * (1 - axis.out / width) if rule == "half_pixel_symmetric" else 0.0
    return offset + (y + 0.5) / axis.scale - 0.5


def outside(n: Node, axis: Axis) -> np.ndarray:
    """bool[out]: places beyond the input's first or last element."""
    x = coordinates(n, axis)
    return (x < 0) | (x > axis.size - 1)


def _picked(n: Node, x: str, axis: Axis) -> str:
    """The nearest elements along an axis: slices where they are few, else reads by a constant index."""
    at, rounding = coordinates(n, axis), _rules(n)[1]
    places = np.clip(ROUND[rounding](at), 0, axis.size - 1).astype(np.int64)
    if len(steps(places.tolist())) <= MOST_PIECES:
        return taken(n, x, axis.at, places.tolist())
    return n.step("gather", [x, n.constant("places", places, "int64")], {"axis": axis.at})


def _weighted(n: Node, x: str, axis: Axis, weights: np.ndarray) -> str:
    """The sums along an axis with weights [out, size]; the axis is one of the last two, as an image's are, or brought there."""
    shape, matrix = n.draft.tensors[x].shape, n.constant("weights", weights)
    if axis.at >= len(shape) - 2:
        return n.step("interpolate", [x, matrix], {"axis": axis.at})
    planes = n.step("reshape", [x], {"shape": (prod(shape[:axis.at]), axis.size, prod(shape[axis.at + 1:]))})
    y = n.step("interpolate", [planes, matrix], {"axis": 1})
    return n.step("reshape", [y], {"shape": (*shape[:axis.at], axis.out, *shape[axis.at + 1:])})


def _weights(n: Node, axis: Axis, mode: str) -> np.ndarray:
    """float64[out, size]: how much of each element is in each place; beyond the ends the last element stands again, or nothing."""
    x, reach = coordinates(n, axis), 1.0 if mode == "linear" else 2.0
    narrow = min(axis.scale, 1.0) if n.integer("antialias", 0) else 1.0
    a = n.real("cubic_coeff_a", -0.75)
    taps = np.arange(-int(np.ceil(reach / narrow)), int(np.ceil(reach / narrow)) + 2)
    places = np.floor(x)[:, None].astype(np.int64) + taps[None, :]
    shares = kernel((places - x[:, None]) * narrow, mode, a)
    if n.integer("antialias", 0):
        shares /= shares.sum(axis=1, keepdims=True)
    if n.integer("exclude_outside", 0):
        shares = np.where((places >= 0) & (places < axis.size), shares, 0.0)
        shares /= shares.sum(axis=1, keepdims=True)
    out = np.zeros((axis.out, axis.size))
    np.add.at(out, (np.arange(axis.out)[:, None], np.clip(places, 0, axis.size - 1)), shares)
    return out


def kernel(t: np.ndarray, mode: str, a: float) -> np.ndarray:
    """The weight of an element at distance t: a triangle, or Keys' cubic of parameter a."""
    t = np.abs(t)
    if mode == "linear":
        return np.maximum(1.0 - t, 0.0)
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))


def _with_outside(n: Node, x: str, found: list[Axis]) -> bool:
    """What lies outside of the input in any axis is one value."""
    out, rank = n.shape(), len(n.shape())
    beyond = np.zeros(out, bool)
    for axis in found:
        beyond |= outside(n, axis).reshape([-1 if at == axis.at else 1 for at in range(rank)])
    inside = n.step("mul", [x, n.constant("inside", ~beyond)])
    return n.emit("add", [inside, n.constant("outside", beyond * n.real("extrapolation_value", 0.0))])


RULES: dict[str, Rule] = {"Resize": _resize, "Upsample": _resize}
ANY_DTYPE = frozenset(RULES)
