"""Translates TopK. Of few elements, one extreme is taken after the other. Of more, it takes rounds over lists of some elements. In every
list each element is ranked by comparing it with all others, and the best of each list are kept in order. From these, half as many lists are
made, until one is left.

A round over lists of 2 k elements, n elements in all, takes 2 k n comparisons and leaves n / 2: 4 k n in all, whatever the order.

NaN is greater than all numbers, as NumPy and PyTorch sort it. It is the equal of infinity, except where the greatest are found in turn.
"""
from __future__ import annotations

from math import ceil, prod

import numpy as np

from aoec.frontend.rules.choice import PLACE, first_of, greatest, least, mark_nan, one, places
from aoec.frontend.rules.reduce import reduce_axes, reduce_by_halves
from aoec.frontend.rules.rule import WHOLE, Rule
from aoec.frontend.translate.node import Node

MOST_IN_TURN = 32  # that are found one after the other: each is a pass over all elements
MOST_PAIRS = 1 << 24  # of elements that are compared in one round
DIGIT = 128  # ranks are sums of so many truths, and places in a list two digits of this base: reals of any dtype hold both exactly


def _top(n: Node) -> bool:
    k, shape, kind = n.constant_integers(1), n.shape_of(0), n.dtype_of(0)
    if kind not in ("fp32", *WHOLE) or len(k) != 1 or not k[0] > 0 or not prod(shape):
        return False
    axis, largest = n.integer("axis", -1) % len(shape), bool(n.integer("largest", 1))
    return _in_turn(n, k[0], axis, largest) if k[0] <= MOST_IN_TURN else _in_rounds(n, k[0], axis, largest)


def _in_turn(n: Node, k: int, axis: int, largest: bool) -> bool:
    """Find one extreme after the other, each among the elements that are left. Of equal elements, the first is taken first. With a NaN
    among the elements, the greatest is NaN, and is found at its place. For the smallest elements, NaN comes last, and values are read at
    the places that were found."""
    shape, kind = n.shape_of(0), n.dtype_of(0)
    x, values, indices = n.input(0), list[str](), list[str]()
    done, numbers, beyond = "", places(n, shape, axis), one(n, least(kind) if largest else greatest(kind), kind)
    nan = mark_nan(n, x)
    x = x if largest else _keys(n, x)
    for _ in range(k):
        values.append(reduce_axes(n, "reduce_max" if largest else "reduce_min", x, [axis]))
        found = n.step("equal", [x, values[-1]], dtype="bool")
        found = n.step("either", [found, nan]) if nan and largest else found
        found = n.step("both", [found, n.step("invert", [done])]) if done else found
        indices.append(first_of(n, found, axis))
        now = n.step("equal", [numbers, indices[-1]], dtype="bool")
        now = now if n.draft.tensors[now].shape == shape else n.step("expand", [now], {"shape": shape})
        done = n.step("either", [done, now]) if done else now
        x = n.step("where", [now, beyond, x], dtype=kind)
    made = [parts[0] if len(parts) == 1 else n.step("concat", parts, {"axis": axis})
            for parts in (values, [n.step("cast", [i], dtype="int64") for i in indices])]
    if nan and not largest:
        made[0] = n.step("gather_elements", [n.input(0), made[1]], {"axis": axis})
    for at, whole in enumerate(made):
        if n.has_result(at):
            n.emit("reshape", [whole], {"shape": n.shape(at)}, at=at)
    return True


def _keys(n: Node, x: str) -> str:
    """Return what elements are compared by: infinity in place of NaN, which compares with nothing."""
    nan, kind = mark_nan(n, x), n.made_dtype(x)
    return n.step("where", [nan, one(n, greatest(kind), kind), x], dtype=kind) if nan else x


def _in_rounds(n: Node, k: int, axis: int, largest: bool) -> bool:
    """Sort lists of at least twice as many elements as are kept, whose lengths are whole digits. Equal elements keep their order in every
    list."""
    shape = n.shape_of(0)
    extent, rows = shape[axis], prod(shape) // shape[axis]
    length = _round_up(min(2 * k, extent))
    if rows * _round_up(extent, length) * length > MOST_PAIRS:
        return False
    order = (*(at for at in range(len(shape)) if at != axis), axis)
    x = n.step("transpose", [n.input(0)], {"perm": order}) if order != tuple(range(len(shape))) else n.input(0)
    x, size, lists = n.step("reshape", [x], {"shape": (rows, extent)}), extent, 0
    at = n.step("expand", [n.constant("places", np.arange(extent)[None], PLACE)], {"shape": (rows, extent)})
    while lists != 1:
        lists = ceil(size / length)
        x, at = _pad_rows(n, x, lists * length, largest), n.pad(at, 1, 0, lists * length - size)
        kept = k if lists == 1 else length // 2
        x, at = (n.step("reshape", [t], {"shape": (rows * lists, length)}) for t in (x, at))
        size = lists * kept
        x, at = (n.step("reshape", [t], {"shape": (rows, size)}) for t in _round(n, x, at, kept, largest))
    back = (*range(axis), len(shape) - 1, *range(axis, len(shape) - 1))
    for result, made in enumerate((x, n.step("cast", [at], dtype="int64"))):
        if n.has_result(result):
            made = n.step("reshape", [made], {"shape": (*(shape[a] for a in order[:-1]), k)})
            n.emit("transpose", [made], {"perm": back}, at=result)
    return True


def _round(n: Node, x: str, at: str, kept: int, largest: bool) -> tuple[str, str]:
    """Return (the best of each list in order, their places in all) of lists and the places of their elements."""
    lists, length = n.made_shape(x)
    keys = _keys(n, x)
    own, other = (n.step("reshape", [keys], {"shape": shape}) for shape in ((lists, length, 1), (lists, 1, length)))
    better, equal = (n.step(word, [other, own], dtype="bool") for word in ("greater" if largest else "less", "equal"))
    earlier = n.constant("earlier", np.tri(length, k=-1)[None], "bool")
    before = n.step("either", [better, n.step("both", [equal, earlier])])
    counted = n.step("reshape", [n.step("cast", [before], dtype="fp32")], {"shape": (lists * length, length // DIGIT, DIGIT)})
    counted = n.step("cast", [reduce_axes(n, "reduce_sum", counted, [2])], dtype=PLACE)
    rank = n.step("reshape", [reduce_by_halves(n, "add", counted, 1)], {"shape": (lists, 1, length)})
    here = n.step("equal", [rank, n.constant("rank", np.arange(kept)[None, :, None], PLACE)], dtype="bool")
    here = n.step("reshape", [n.step("cast", [here], dtype="fp32")], {"shape": (lists * kept, length)})
    found = n.step("reshape", [_number(n, here)], {"shape": (lists, kept)})
    best, places_ = (n.step("gather_elements", [t, found], {"axis": 1}) for t in (x, at))
    return best, places_


def _number(n: Node, here: str) -> str:
    """Return where in each row the one that is not 0 stands: a product, of digits."""
    length = n.made_shape(here)[1]
    digits = n.constant("digits", np.stack([np.arange(length) % DIGIT, np.arange(length) // DIGIT], 1))
    found = n.step("cast", [n.step("matmul", [here, digits])], dtype=PLACE)
    low, high = (n.piece(found, 1, digit, 1) for digit in (0, 1))
    return n.step("add", [n.step("mul", [high, one(n, DIGIT, PLACE)]), low])


def _pad_rows(n: Node, x: str, size: int, largest: bool) -> str:
    """Pad rows with the worst of all values, which come last of their equals."""
    rows, extent = n.made_shape(x)
    if size == extent:
        return x
    kind = n.made_dtype(x)
    worst = one(n, least(kind) if largest else greatest(kind), kind)
    return n.step("concat", [x, n.step("expand", [worst], {"shape": (rows, size - extent)})], {"axis": 1})


def _round_up(size: int, of: int = DIGIT) -> int:
    """Round a size up to whole parts."""
    return ceil(size / of) * of


RULES: dict[str, Rule] = {"TopK": _top}
ANY_DTYPE = frozenset(RULES)
