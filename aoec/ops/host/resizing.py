"""Computes where the elements of a resized axis come from: places and weights, by the rules of Resize and Upsample.

ONNX's text, its reference and onnxruntime disagree in places, which aoec/frontend/differences.py lists. We compute what onnxruntime
computes and, where PyTorch has the operator, what PyTorch computes. Coordinates are in fp32. They follow from the whole number of elements
that the result has, not from the product of scale and size.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
SIMPLE = "simple"  # how Upsample, and Resize of operator set 10, round: to the next element where there are fewer, else to the last
ROUND: dict[str, Callable[[Array], Array]] = {
    "floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda v: np.ceil(v - 0.5), "round_prefer_ceil": lambda v: np.floor(v + 0.5)}


@dataclass(frozen=True)
class Axis:
    """One axis that is resized: its extents, the scale, and the region of interest for those who crop."""

    at: int
    size: int
    out: int
    scale: float
    roi: tuple[float, float]


@dataclass(frozen=True)
class Rule:
    """How coordinates follow from places, and how they are made elements: `mode` is nearest, linear or cubic, `rounding` that of nearest
    ones, `a` the cubic's parameter, `exclude` leaves out what lies outside, `antialias` widens the weights where there are fewer."""

    coordinates: str
    mode: str
    rounding: str = "round_prefer_floor"
    a: float = -0.75
    exclude: bool = False
    antialias: bool = False


def axes(shape: Sequence[int], out: Sequence[int], stated: Sequence[int], scales: Sequence[float], sizes: Sequence[int], policy: str,
         roi: Sequence[float]) -> list[Axis]:
    """Return the axes whose elements change. `stated`: the axes that scales or sizes, and the region, speak of."""
    if not scales:
        scales = [size / shape[axis] for size, axis in zip(sizes, stated)]
        scales = scales if policy == "stretch" else [min(scales) if policy == "not_larger" else max(scales)] * len(scales)
    roi = roi or [0.0] * len(stated) + [1.0] * len(stated)
    found = [Axis(axis, shape[axis], out[axis], float(scale), (roi[i], roi[i + len(stated)]))
             for i, (axis, scale) in enumerate(zip(stated, scales))]
    return [a for a in found if (a.size, a.scale, a.roi) != (a.out, 1.0, (0.0, 1.0))]


def coordinates(rule: str, axis: Axis) -> Array:
    """Return float64[out]: where in the input each place of the output lies, as fp32 holds it."""
    f = np.float32
    y, scale, size, out = np.arange(axis.out, dtype=f), f(axis.scale), f(axis.size), f(axis.out)
    if rule == "align_corners":
        x = y * f(0) if axis.out == 1 else y * (size - f(1)) / (out - f(1))
    elif rule == "asymmetric":
        x = y / scale
    elif rule == "tf_crop_and_resize":
        first, last = f(axis.roi[0]), f(axis.roi[1])
        middle = f(0.5) * (first + last) * (size - f(1))
        x = np.full(1, middle) if axis.out == 1 else first * (size - f(1)) + y * (last - first) * (size - f(1)) / (out - f(1))
    elif rule == "tf_half_pixel_for_nn":
        x = (y + f(0.5)) / scale
    elif rule == "pytorch_half_pixel" and axis.out == 1:
        x = y * f(0)
    else:
        offset = size / f(2) * (f(1) - out / (scale * size)) if rule == "half_pixel_symmetric" else f(0)
        x = offset + (y + f(0.5)) / scale - f(0.5)
    return x.astype(np.float64)


def outside(rule: Rule, axis: Axis) -> Array:
    """Return bool[out]: places beyond the input's first or last element."""
    x = coordinates(rule.coordinates, axis)
    return (x < 0) | (x > axis.size - 1)


def places(rule: Rule, axis: Axis) -> Array:
    """Return int64[out]: the nearest element of each place."""
    x = coordinates(rule.coordinates, axis)
    rounding = rule.rounding if rule.rounding != SIMPLE else "ceil" if axis.scale < 1 else "floor"
    return np.asarray(np.clip(ROUND[rounding](x), 0, axis.size - 1).astype(np.int64))


def weights(rule: Rule, axis: Axis) -> Array:
    """Return float64[out, size]: how much of each element is in each place; beyond the ends the last element stands again, or nothing."""
    x, reach = coordinates(rule.coordinates, axis), 1.0 if rule.mode == "linear" else 2.0
    narrow = min(axis.scale, 1.0) if rule.antialias else 1.0
    taps = np.arange(-int(np.ceil(reach / narrow)), int(np.ceil(reach / narrow)) + 2)
    at = np.floor(x)[:, None].astype(np.int64) + taps[None, :]
    shares = kernel((at - x[:, None]) * narrow, rule.mode, rule.a)
    if rule.antialias:
        shares /= shares.sum(axis=1, keepdims=True)
    if rule.exclude:
        shares = np.where((at >= 0) & (at < axis.size), shares, 0.0)
        shares /= shares.sum(axis=1, keepdims=True)
    out = np.zeros((axis.out, axis.size))
    np.add.at(out, (np.arange(axis.out)[:, None], np.clip(at, 0, axis.size - 1)), shares)
    return out


def kernel(t: Array, mode: str, a: float) -> Array:
    """Return the weight of an element at distance t: a triangle, or Keys' cubic of parameter a."""
    t = np.abs(t)
    if mode == "linear":
        return np.maximum(1.0 - t, 0.0)
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0.0))
