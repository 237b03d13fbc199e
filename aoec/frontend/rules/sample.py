"""Translates GridSample: it reads an image, or a volume, where a grid says, at the nearest pixels, between neighbours, or on cubic curves
through four pixels.

For a cubic curve each pixel is clipped or reflected alone, as PyTorch and onnxruntime do (ONNX's reference clips the point).
"""
from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod

import numpy as np

from aoec.frontend.rules.choice import one
from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node

LINEAR, NEAREST, CUBIC = ("linear", "bilinear"), ("nearest",), ("cubic", "bicubic")
SLOPE = -0.75  # of a cubic curve
# of pixels -1, 0, 1, 2 from the one before a point: the weight, as coefficients of powers 3 to 0 of its distance from that
CURVE = ((SLOPE, -2 * SLOPE, SLOPE, 0.0), (SLOPE + 2, -SLOPE - 3, 0.0, 1.0), (-SLOPE - 2, 2 * SLOPE + 3, -SLOPE, 0.0),
         (-SLOPE, SLOPE, 0.0, 0.0))
PADDINGS = ("zeros", "border", "reflection")
PLACE = "int32"


def _grid_sample(n: Node) -> bool:
    """Translate GridSample. Each point reads rows of channels, of all pixels around it, with their weights. Cubic curves of volumes are
    left to the host."""
    shape, points = n.shape_of(0), n.shape_of(1)[:-1]
    sizes, mode, padding = shape[2:], n.text("mode", "linear"), n.text("padding_mode", "zeros")
    modes = LINEAR + NEAREST + (CUBIC if len(sizes) == 2 else ())
    if mode not in modes or padding not in PADDINGS or not sizes or not prod(shape) * prod(points):
        return False
    at = [_coordinate(n, len(sizes) - 1 - axis, size) for axis, size in enumerate(sizes)]
    ways = [_ways(n, x, size, mode, padding) for x, size in zip(at, sizes)]
    rank = len(shape)
    turned = n.step("transpose", [n.input(0)], {"perm": (0, *range(2, rank), 1)})
    rows = n.step("reshape", [turned], {"shape": (shape[0] * prod(sizes), shape[1])})
    start = n.constant("image", np.arange(shape[0]).repeat(prod(points[1:])) * prod(sizes), PLACE)
    parts = [_read(n, rows, start, sizes, corner, padding == "zeros") for corner in product(*ways)]
    total = reduce(lambda a, b: n.step("add", [a, b]), parts)
    apart = n.step("reshape", [total], {"shape": (*points, shape[1])})
    return n.emit("transpose", [apart], {"perm": (0, rank - 1, *range(1, rank - 1))})


def _coordinate(n: Node, column: int, size: int) -> str:
    """Return where each point is along an axis, in pixels. -1 and 1 of the grid are the centres of the outer pixels (`align_corners`), or
    their outer edges."""
    grid = n.piece(n.input(1), len(n.shape_of(1)) - 1, column, 1)
    x = n.step("adds", [n.step("reshape", [grid], {"shape": (prod(n.made_shape(grid)),)})], {"scalar": 1.0})
    if n.integer("align_corners", 0):
        return n.wide(n.step("muls", [x], {"scalar": (size - 1) / 2}))
    return n.wide(n.step("muls", [n.step("adds", [n.step("muls", [x], {"scalar": float(size)})], {"scalar": -1.0})], {"scalar": 0.5}))


def _ways(n: Node, x: str, size: int, mode: str, padding: str) -> list[tuple[str, str]]:
    """Return (place, weight) of the pixels along an axis that each point reads, "" for a weight of one."""
    if mode in CUBIC:
        low, share = _split_floor(n, x)
        places = [low if by == 0 else n.wide(n.step("adds", [low], {"scalar": float(by)})) for by in (-1, 0, 1, 2)]
        return [(_inside(n, place, size, padding), _polynomial(n, share, powers)) for place, powers in zip(places, CURVE)]
    x = _inside(n, x, size, padding)
    return [(n.wide(n.step("round", [x])), "")] if mode in NEAREST else _neighbours(n, x)


def _inside(n: Node, x: str, size: int, padding: str) -> str:
    """Return places thrown back into the image, or moved to its edge; of zeros beyond it they stay where they are."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflect(n, x, *((0.0, size - 1.0) if n.integer("align_corners", 0) else (-0.5, size - 0.5)))
    return n.wide(n.step("clip", [x], {"lo": 0.0, "hi": size - 1.0}))


def _polynomial(n: Node, x: str, powers: tuple[float, ...]) -> str:
    """Return a polynomial of x, by its coefficients, the highest first."""
    total = n.step("muls", [x], {"scalar": powers[0]})
    for at, c in enumerate(powers[1:], 1):
        total = n.step("adds", [total], {"scalar": c}) if c else total
        total = n.step("mul", [total, x]) if at < len(powers) - 1 else total
    return n.wide(total)


def _reflect(n: Node, x: str, low: float, high: float) -> str:
    """Reflect x at both ends, again and again: its distance from the middle of a period of twice the span."""
    span = high - low
    if not span:
        return n.step("muls", [x], {"scalar": 0.0})
    x = n.step("adds", [x], {"scalar": -low})
    periods = n.step("floor", [n.step("muls", [x], {"scalar": 1 / (2 * span)})])
    inside = n.step("sub", [x, n.step("muls", [periods], {"scalar": 2 * span})])
    away = n.step("abs", [n.step("adds", [inside], {"scalar": -span})])
    return n.step("adds", [n.step("muls", [away], {"scalar": -1.0})], {"scalar": high})


def _split_floor(n: Node, x: str) -> tuple[str, str]:
    """Return (the pixel before each point, the point's distance from it)."""
    low = n.wide(n.step("floor", [x]))
    return low, n.wide(n.step("sub", [x, low]))


def _neighbours(n: Node, x: str) -> list[tuple[str, str]]:
    """Return (place, weight) of the pixels at both sides."""
    low, share = _split_floor(n, x)
    rest = n.step("adds", [n.step("muls", [share], {"scalar": -1.0})], {"scalar": 1.0})
    return [(low, rest), (n.wide(n.step("adds", [low], {"scalar": 1.0})), share)]


def _read(n: Node, rows: str, start: str, sizes: tuple[int, ...], corner: tuple[tuple[str, str], ...], zeros: bool) -> str:
    """Return the channels at one place for each point, times its weight; zeros where it lies outside, if that is asked for."""
    index, inside, weight = start, "", ""
    for axis, (place, share) in enumerate(corner):
        held = n.wide(n.step("clip", [place], {"lo": 0.0, "hi": sizes[axis] - 1.0}))
        steps = n.step("mul", [n.step("cast", [held], dtype=PLACE), one(n, prod(sizes[axis + 1:]), PLACE)])
        index = n.step("add", [index, steps])
        within = n.step("equal", [held, place], dtype="bool")
        inside = n.step("both", [inside, within]) if inside else within
        weight = n.step("mul", [weight, share]) if weight and share else weight or share
    taken = n.step("gather", [rows, index], {"axis": 0})
    column = (*n.made_shape(index), 1)
    if zeros:
        taken = n.step("where", [n.step("reshape", [inside], {"shape": column}), taken, one(n, 0, "fp32")], dtype="fp32")
    return n.step("mul", [taken, n.step("reshape", [weight], {"shape": column})]) if weight else taken


RULES: dict[str, Rule] = {"GridSample": _grid_sample}
