"""Translates operators that write where data say into reads: each place of the result finds the updates that name it.

All pairs of places and updates are compared at once. If several updates name one place, the last is taken, or their reduction. Work with
too many pairs is left to the host.
"""
from __future__ import annotations

from math import prod

import numpy as np

from aoec.frontend.rules.choice import PLACE, count_from_start, one, places
from aoec.frontend.rules.reduce import reduce_by_halves
from aoec.frontend.rules.rule import KNOWN, Rule
from aoec.frontend.translate.node import Node

MOST_PAIRS = 1 << 22  # of places and updates: 16 MB of numbers in GM for each step of the comparison
Sizes = tuple[int, int, int, int]  # p, n, k, q of data [p, n, q] and updates [p, k, q]
INDICES = ("int32", "int64")
REDUCTIONS = {"add": ("add", 0), "mul": ("mul", 1), "max": ("maximum", None), "min": ("minimum", None)}  # word, what changes nothing


def _scatter_elements(n: Node) -> bool:
    """Translate ScatterElements. Each element of the index gives the place of its update along the axis. Along other axes the index may be
    shorter than the data."""
    shape, own = n.shape_of(0), n.shape_of(1)
    if n.dtype_of(1) not in INDICES or not shape or not prod(own):
        return False
    axis = n.integer("axis", 0) % len(shape)
    part = tuple(shape[at] if at == axis else extent for at, extent in enumerate(own))
    zeros, ones = (0,) * len(shape), (1,) * len(shape)
    x = n.input(0) if part == shape else n.step("slice", [n.input(0)], {"starts": zeros, "sizes": part, "steps": ones})
    p, q, k = prod(own[:axis]), prod(own[axis + 1:]), own[axis]
    flat = [n.step("reshape", [t], {"shape": (p, extent, q)}) for t, extent in ((x, shape[axis]), (n.input(1), k), (n.input(2), k))]
    made = _scatter(n, (p, shape[axis], k, q), flat, q)
    if not made:
        return False
    y = n.step("reshape", [made], {"shape": part})
    for at in reversed(range(len(shape))):  # what lies behind the part, an axis after the other, whole along those that were done
        if part[at] < shape[at]:
            starts = tuple(part[at] if axis == at else 0 for axis in range(len(shape)))
            sizes = (*part[:at], shape[at] - part[at], *shape[at + 1:])
            y = n.step("concat", [y, n.step("slice", [n.input(0)], {"starts": starts, "sizes": sizes, "steps": ones})], {"axis": at})
    return n.emit("reshape", [y], {"shape": shape})


def _scatter_nd(n: Node) -> bool:
    """Translate ScatterND. The last axis of the index holds a place in each of the first axes of the data. These axes become one axis of
    rows here."""
    shape, own = n.shape_of(0), n.shape_of(1)
    if n.dtype_of(1) not in INDICES or not own or not prod(own) or not prod(shape):
        return False
    depth, kind, k = own[-1], n.dtype_of(1), prod(own[:-1])
    index = n.step("reshape", [n.input(1)], {"shape": (1, k, depth)})
    flat = ""
    for at in range(depth):
        place = n.step("mul", [count_from_start(n, n.piece(index, 2, at, 1), shape[at]), one(n, prod(shape[at + 1:depth]), kind)])
        flat = n.step("add", [flat, place]) if flat else place
    rows, q = prod(shape[:depth]), prod(shape[depth:])
    data, updates = (n.step("reshape", [n.input(at)], {"shape": (1, extent, q)}) for at, extent in ((0, rows), (2, k)))
    made = _scatter(n, (1, rows, k, q), [data, flat, updates], 1)
    return bool(made) and n.emit("reshape", [made], {"shape": shape})


def _tensor_scatter(n: Node) -> bool:
    """Translate TensorScatter. It writes successive rows from a place on that each entry of the batch has, or from the start. In circular
    mode it continues at the start."""
    shape, axis = n.shape_of(0), n.integer("axis", -2) % len(n.shape_of(0))
    many, mode = n.shape_of(1)[axis], n.text("mode", "linear")
    if axis == 0 or not prod(shape) or not many or mode not in ("linear", "circular"):
        return False
    p, size, q = prod(shape[:axis]), shape[axis], prod(shape[axis + 1:])
    each = n.constant("each", np.arange(many).reshape(1, many, 1), "int64")
    index = n.constant("start", np.zeros((p, 1, 1)), "int64")
    if n.has(2):
        inner = prod(shape[1:axis])
        apart = n.step("reshape", [n.input(2)], {"shape": (shape[0], 1)})
        apart = n.step("expand", [apart], {"shape": (shape[0], inner)}) if inner > 1 else apart
        index = n.step("reshape", [apart], {"shape": (p, 1, 1)})
    index = n.step("add", [index, each])
    index = n.step("mod", [index, one(n, size, "int64")]) if mode == "circular" else index
    data, updates = (n.step("reshape", [n.input(at)], {"shape": (p, extent, q)}) for at, extent in ((0, size), (1, many)))
    made = _scatter(n, (p, size, many, q), [data, index, updates], 1)
    return bool(made) and n.emit("reshape", [made], {"shape": shape})


def _scatter(n: Node, sizes: Sizes, given: list[str], lanes: int) -> str:
    """Return [p, n, q] from data [p, n, q], an index [p, k, lanes] and updates [p, k, q]. An index of one lane names whole rows. Return ""
    where there would be too many pairs, or where the unit does not have the dtype."""
    p, extent, k, q = sizes
    data, index, updates = given
    reduction, kind = n.text("reduction", "none"), n.dtype()
    pairs = p * extent * k * (lanes if reduction == "none" else q)
    if pairs > MOST_PAIRS or kind not in KNOWN or reduction not in ("none", *REDUCTIONS) or kind == "bool" and reduction != "none":
        return ""
    index = count_from_start(n, index, extent)
    index = index if n.made_dtype(index) == PLACE else n.step("cast", [index], dtype=PLACE)
    apart = n.step("reshape", [index], {"shape": (p, 1, k, lanes)})
    hit = n.step("equal", [places(n, (1, extent, 1, 1), 1), apart], dtype="bool")
    if reduction == "none":
        return _last(n, sizes, (data, hit, updates), lanes)
    word, neutral = REDUCTIONS[reduction]
    beside = n.step("reshape", [updates], {"shape": (p, 1, k, q)})
    otherwise = n.step("reshape", [data], {"shape": (p, extent, 1, q)}) if neutral is None else one(n, neutral, kind)
    chosen = n.step("where", [hit, beside, otherwise], dtype=kind)
    return n.step(word, [data, n.step("reshape", [reduce_by_halves(n, word, chosen, 2)], {"shape": (p, extent, q)})])


def _last(n: Node, sizes: Sizes, given: tuple[str, str, str], lanes: int) -> str:
    """Return the data with the last update of each place that one speaks of."""
    p, extent, k, q = sizes
    data, hit, updates = given
    numbers = n.constant("numbers", np.arange(1, k + 1).reshape(1, 1, k, 1), PLACE)
    which = reduce_by_halves(n, "maximum", n.step("where", [hit, numbers, one(n, 0, PLACE)], dtype=PLACE), 2)
    which = n.step("reshape", [which], {"shape": (p, extent, lanes)})
    found = n.step("greater", [which, one(n, 0, PLACE)], dtype="bool")
    at = n.step("maximum", [n.step("sub", [which, one(n, 1, PLACE)]), one(n, 0, PLACE)])
    if lanes == q > 1:
        taken = n.step("gather_elements", [updates, at], {"axis": 1})
    else:
        at = n.step("add", [at, n.constant("before", np.arange(p).reshape(p, 1, 1) * k, PLACE)]) if p > 1 else at
        rows = n.step("reshape", [updates], {"shape": (p * k, q)})
        taken = n.step("gather", [rows, n.step("reshape", [at], {"shape": (p * extent,)})], {"axis": 0})
        taken = n.step("reshape", [taken], {"shape": (p, extent, q)})
    return n.step("where", [found, taken, data], dtype=n.made_dtype(data))


RULES: dict[str, Rule] = {
    "Scatter": _scatter_elements, "ScatterElements": _scatter_elements, "ScatterND": _scatter_nd, "TensorScatter": _tensor_scatter,
}
ANY_DTYPE = frozenset(RULES)
