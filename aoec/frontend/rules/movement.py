"""Operators that move elements or show them in another shape."""
from __future__ import annotations

from aoec.frontend.node import Node
from aoec.frontend.rules.rule import Rule, view
from aoec.ir.graph import Attribute


def _transpose(n: Node) -> bool:
    rank = len(n.shape_of(0))
    return n.emit("transpose", [n.input(0)], {"perm": tuple(n.integers("perm", tuple(range(rank))[::-1]))})


def _concat(n: Node) -> bool:
    return n.emit("concat", n.inputs(), {"axis": n.integer("axis", 1) % len(n.shape())})


def _slice(n: Node) -> bool:
    """Parts of axes at constant places, forwards; before version 10 the places are attributes."""
    given = [n.integers(name, n.constant_integers(at)) for at, name in enumerate(("starts", "ends", "axes", "steps"), 1)]
    if not given[0] or any(n.has(at) and not n.is_constant(at) for at in range(1, 5)):
        return False
    shape, whole = n.shape_of(0), [0] * len(n.shape_of(0))
    axes = given[2] or tuple(range(len(given[0])))
    starts, steps = list(whole), [1] * len(shape)
    for axis, start, by in zip(axes, given[0], given[3] or (1,) * len(axes)):
        starts[axis] = min(max(start + shape[axis] if start < 0 else start, 0), shape[axis])
        steps[axis] = by
    attributes: dict[str, Attribute] = {"starts": tuple(starts), "sizes": n.shape(), "steps": tuple(steps)}
    return min(steps) > 0 and min(n.shape()) > 0 and n.emit("slice", [n.input(0)], attributes)


def _split(n: Node) -> bool:
    """Parts of an axis one after the other; what nobody reads is not made."""
    if n.has(1) and not n.is_constant(1) or not all(n.proto.output) or any(0 in n.shape(at) for at in range(n.results())):
        return False
    rank, start = len(n.shape_of(0)), 0
    axis = n.integer("axis", 0) % rank
    for at in range(n.results()):
        sizes = n.shape(at)
        starts = tuple(start if i == axis else 0 for i in range(rank))
        n.emit("slice", [n.input(0)], {"starts": starts, "sizes": sizes, "steps": (1,) * rank}, at=at)
        start += sizes[axis]
    return True


def _resize(n: Node) -> bool:
    """Every pixel so many times: the nearest one in whole ratios, by any rule that puts the copies side by side."""
    rank, shape, out = len(n.shape_of(0)), n.shape_of(0), n.shape()
    if n.text("mode", "nearest") != "nearest" or rank != 4 or shape[:2] != out[:2] or any(b % a for a, b in zip(shape, out)):
        return False
    scale = (out[2] // shape[2], out[3] // shape[3])
    old = n.proto.op_type == "Upsample" or n.opset < 11
    rule = "asymmetric" if old else n.text("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else n.text("nearest_mode", "round_prefer_floor")
    centred = rule in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    same = centred or rule == "asymmetric" and (rounding == "floor" or rounding == "round_prefer_floor" and max(scale) <= 2)
    return same and n.emit("upsample", [n.input(0)], {"scale": scale})


RULES: dict[str, Rule] = {
    "Concat": _concat, "Dropout": view, "Flatten": view, "Identity": view, "Reshape": view, "Resize": _resize, "Slice": _slice,
    "Split": _split, "Squeeze": view, "Transpose": _transpose, "Unsqueeze": view, "Upsample": _resize,
}
