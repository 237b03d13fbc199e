"""Resize and Upsample: an axis after the other, each by constant places (nearest) or by a constant matrix of weights (linear, cubic)."""
from __future__ import annotations

from math import prod

import numpy as np

from aoec.frontend.rules import rule as rules
from aoec.frontend.rules.movement import steps, take
from aoec.frontend.translate.node import Node
from aoec.ops.host import resizing
from aoec.ops.host.resizing import Axis, Rule

MOST_WEIGHTS = 1 << 24  # elements of one axis's matrix
MOST_PIECES = 4  # of an axis: each is a launch or two, and reads of all its places together are one, or three


def _resize(n: Node) -> bool:
    found = _axes(n)
    if found is None:
        return False
    if (scale := _whole_copies(n, found)) is not None:
        return n.emit("upsample", [n.input(0)], {"scale": scale})
    rule, x = _rule(n), n.input(0)
    if rule.mode == "nearest":
        for axis in found:
            x = _pick_nearest(n, x, rule, axis)
    elif n.dtype() != "fp32" or any(axis.size * axis.out > MOST_WEIGHTS for axis in found):
        return False
    else:
        for axis in sorted(found, key=lambda a: (a.out / a.size, -a.at)):  # what grows least first, so that least lies between
            x = _interpolate(n, x, axis, resizing.weights(rule, axis))
    if rule.coordinates == "tf_crop_and_resize" and any(resizing.outside(rule, axis).any() for axis in found):
        return _with_outside(n, x, rule, found)
    return n.emit("reshape", [x], {"shape": n.shape()})


def _axes(n: Node) -> list[Axis] | None:
    """Return the axes whose elements change. Return None where scales or sizes are not known."""
    shape, out, old = n.shape_of(0), n.shape(), n.opset < 11 or n.proto.op_type == "Upsample"
    places = (None, 1, None) if old else (1, 2, 3)
    if any(at and n.has(at) and not n.is_constant(at) for at in places):
        return None
    axes = [a % len(shape) for a in n.integers("axes", tuple(range(len(shape))))]
    roi, scales, sizes = (_numbers(n, at) for at in places)
    return resizing.axes(shape, out, axes, scales or list(n.numbers("scales", ())), [int(v) for v in sizes],
                         n.text("keep_aspect_ratio_policy", "stretch"), roi)


def _numbers(n: Node, at: int | None) -> list[float]:
    value = n.draft.weights.get(n.input(at)) if at is not None and n.has(at) else None
    return [] if value is None else [float(v) for v in value.ravel()]


def _whole_copies(n: Node, found: list[Axis]) -> tuple[int, int] | None:
    """Return how often each pixel of an image stands down and across, where it is the nearest one in whole ratios by any rule that puts the
    copies side by side: such work stays in blocks of channels. A scale that is not the ratio moves the copies."""
    rank, shape, out = len(n.shape_of(0)), n.shape_of(0), n.shape()
    if n.text("mode", "nearest") != "nearest" or rank != 4 or shape[:2] != out[:2] or any(b % a for a, b in zip(shape, out)):
        return None
    if any(a.scale != a.out / a.size and a.size > 1 for a in found):
        return None
    scale = (out[2] // shape[2], out[3] // shape[3])
    rule = _rule(n)
    centred = rule.coordinates in ("half_pixel", "pytorch_half_pixel") and rule.rounding.startswith("round")
    same = centred or rule.coordinates == "asymmetric" and (
        rule.rounding in ("floor", resizing.SIMPLE) or rule.rounding == "round_prefer_floor" and max(scale) <= 2)
    return scale if same and n.text("keep_aspect_ratio_policy", "stretch") == "stretch" and n.dtype() == "fp32" else None


def _rule(n: Node) -> Rule:
    mode = n.text("mode", "nearest")
    mode = {"bilinear": "linear"}.get(mode, mode)
    if n.proto.op_type == "Upsample" or n.opset < 11:
        return Rule("asymmetric", mode, resizing.SIMPLE)
    return Rule(n.text("coordinate_transformation_mode", "half_pixel"), mode, n.text("nearest_mode", "round_prefer_floor"),
                n.number("cubic_coeff_a", -0.75), bool(n.integer("exclude_outside", 0)), bool(n.integer("antialias", 0)))


def _pick_nearest(n: Node, x: str, rule: Rule, axis: Axis) -> str:
    """Take the nearest elements along an axis: by slices where they are few, else by a constant index."""
    places = resizing.places(rule, axis)
    if len(steps(places.tolist())) <= MOST_PIECES:
        return take(n, x, axis.at, places.tolist())
    return n.step("gather", [x, n.constant("places", places, "int64")], {"axis": axis.at})


def _interpolate(n: Node, x: str, axis: Axis, weights: np.ndarray) -> str:
    """Sum along an axis with weights [out, size]. The axis is one of the last two, as an image's are, or is brought there."""
    shape, matrix = n.draft.tensors[x].shape, n.constant("weights", weights)
    if axis.at >= len(shape) - 2:
        return n.step("interpolate", [x, matrix], {"axis": axis.at})
    planes = n.step("reshape", [x], {"shape": (prod(shape[:axis.at]), axis.size, prod(shape[axis.at + 1:]))})
    y = n.step("interpolate", [planes, matrix], {"axis": 1})
    return n.step("reshape", [y], {"shape": (*shape[:axis.at], axis.out, *shape[axis.at + 1:])})


def _with_outside(n: Node, x: str, rule: Rule, found: list[Axis]) -> bool:
    """Replace what is outside of the input in any axis by one value."""
    out, rank = n.shape(), len(n.shape())
    beyond = np.zeros(out, bool)
    for axis in found:
        beyond |= resizing.outside(rule, axis).reshape([-1 if at == axis.at else 1 for at in range(rank)])
    value = n.constant("outside", np.array(n.number("extrapolation_value", 0.0)), n.dtype())
    return n.emit("where", [n.constant("beyond", beyond, "bool"), value, x])


RULES: dict[str, rules.Rule] = {"Resize": _resize, "Upsample": _resize}
ANY_DTYPE = frozenset(RULES)
