"""Operators that find elements or places by comparison, ArgMax, Hardmax, OneHot, Trilu, and what is made of reads and sums along an axis:
CumSum, CumProd, GatherND, ReverseSequence."""
from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod

import numpy as np

from aoec.frontend.rules.movement import fill, part
from aoec.frontend.rules.reduce import reduce_axes, reduce_by_halves
from aoec.frontend.rules.rule import KNOWN, Rule
from aoec.frontend.translate.node import Node
from aoec.ops.run import NUMPY, REALS

PLACE = "int32"  # of places along an axis
COUNTED = 1 << 24  # so far fp32 counts in whole numbers
LEAST_ROWS = 64  # rows whose columns are summed as rows: copies within a row begin at no block
TURNED = (*REALS, "int32")  # as the vector unit turns


def places(n: Node, shape: Sequence[int], axis: int, dtype: str = PLACE) -> str:
    """Return the constant 0, 1, 2, ... along an axis, with one element in all others."""
    return n.constant("places", np.arange(shape[axis]).reshape([-1 if at == axis else 1 for at in range(len(shape))]), dtype)


def one(n: Node, value: float, dtype: str) -> str:
    """Return a constant of one element."""
    return n.constant("one", np.array(value), dtype)


def least(dtype: str) -> float:
    return -inf if dtype in REALS else np.iinfo(NUMPY[dtype]).min


def greatest(dtype: str) -> float:
    return inf if dtype in REALS else np.iinfo(NUMPY[dtype]).max


def first_of(n: Node, found: str, axis: int, last: bool = False) -> str:
    """Return the first place (or the last) along an axis where `found` is true. The axis stays with one element. It takes a reduction of
    reals where these hold every place of the axis, else a reduction by halves of whole numbers."""
    shape = n.draft.tensors[found].shape
    kind = "fp32" if shape[axis] <= COUNTED else PLACE
    at = n.step("where", [found, places(n, shape, axis, kind), one(n, -1 if last else shape[axis], kind)], dtype=kind)
    if kind == PLACE:
        return reduce_by_halves(n, "maximum" if last else "minimum", at, axis)
    return n.step("cast", [n.wide(reduce_axes(n, "reduce_max" if last else "reduce_min", n.wide(at), [axis]))], dtype=PLACE)


def mark_nan(n: Node, x: str) -> str:
    """Return True where an element is NaN. Return "" for whole numbers, which have none."""
    return n.step("is_nan", [x], dtype="bool") if n.made_dtype(x) in REALS else ""


def extremes(n: Node, word: str, x: str, axis: int) -> str:
    """Return True where an element is the greatest or least one along an axis, or NaN. NumPy and PyTorch give the place of a NaN where
    there is one. So some element of every row is true, whatever the row holds."""
    found, nan = n.step("equal", [x, reduce_axes(n, word, x, [axis])], dtype="bool"), mark_nan(n, x)
    return n.step("either", [found, nan]) if nan else found


def _extreme(word: str) -> Rule:
    def rule(n: Node) -> bool:
        x, axis = n.input(0), n.integer("axis", 0) % len(n.shape_of(0))
        if n.dtype_of(0) not in KNOWN or not prod(n.shape_of(0)):
            return False
        found = extremes(n, word, x, axis)
        at = n.step("cast", [first_of(n, found, axis, bool(n.integer("select_last_index", 0)))], dtype="int64")
        return n.emit("reshape", [at], {"shape": n.shape()})
    return rule


def _hardmax(n: Node) -> bool:
    """Translate Hardmax: 1 at the first of the greatest elements of each row, else 0. Before version 13 all dimensions from `axis` on are
    one row."""
    shape, old = n.shape(), n.opset < 13
    axis = n.integer("axis", 1 if old else -1) % len(shape)
    rows = (prod(shape[:axis]), prod(shape[axis:])) if old else shape
    at = 1 if old else axis
    x = n.step("reshape", [n.input(0)], {"shape": rows})
    found = extremes(n, "reduce_max", x, at)
    hit = n.step("equal", [places(n, rows, at), first_of(n, found, at)], dtype="bool")
    return n.emit("reshape", [n.step("cast", [hit], dtype="fp32")], {"shape": shape})


def _one_hot(n: Node) -> bool:
    """Translate OneHot. `values` are the value elsewhere and the value at the index. A negative index counts from the end."""
    depth, out, kind = n.constant_integers(1), n.shape(), n.dtype_of(0)
    if len(depth) != 1 or kind not in KNOWN or n.dtype_of(2) not in KNOWN:
        return False
    axis = n.integer("axis", -1) % len(out)
    index = n.step("reshape", [n.input(0)], {"shape": tuple(1 if at == axis else d for at, d in enumerate(out))})
    index = count_from_start(n, index, depth[0])
    hit = n.step("equal", [index, places(n, out, axis, kind)], dtype="bool")
    off, on = (n.step("slice", *part(n, n.input(2), 0, at, 1)) for at in (0, 1))
    return n.emit("where", [hit, on, off])


def count_from_start(n: Node, index: str, extent: int) -> str:
    """Return an index from the start of its axis."""
    kind = n.draft.tensors[index].dtype
    below = n.step("less", [index, one(n, 0, kind)], dtype="bool")
    return n.step("where", [below, n.step("add", [index, one(n, extent, kind)]), index], dtype=kind)


def _trilu(n: Node) -> bool:
    """Translate Trilu: zeros on one side of a diagonal of each matrix."""
    shape, k = n.shape(), n.constant_integers(1) or (0,)
    if n.has(1) and not n.is_constant(1) or n.dtype() not in KNOWN:
        return False
    rows, columns = np.indices(shape[-2:])
    kept = columns - rows >= k[0] if n.integer("upper", 1) else columns - rows <= k[0]
    return n.emit("where", [n.constant("kept", kept, "bool"), n.input(0), one(n, 0, n.dtype())])


def _cumulative(word: str, neutral: int) -> Rule:
    return lambda n: len(n.constant_integers(1)) == 1 and n.dtype() in KNOWN and _all_before(n, word, neutral)


def _all_before(n: Node, word: str, neutral: int) -> bool:
    """Combine each element with the one 1, 2, 4, ... before it, so that after log2 steps it holds all elements before it. Transpose many
    rows along their last axis first, so that parts of the axis are contiguous."""
    axes, x, shape = n.constant_integers(1), n.input(0), n.shape()
    axis = axes[0] % len(shape)
    extent, rows = shape[axis], prod(shape[:-1])
    across = axis == len(shape) - 1 and rows >= LEAST_ROWS and extent > 1 and n.dtype() in TURNED
    if across:
        x = n.step("transpose", [n.step("reshape", [x], {"shape": (rows, extent)})], {"perm": (1, 0)})
        axis = 0
    nothing, turned = one(n, neutral, n.dtype()), bool(n.integer("reverse", 0)) and extent > 1

    def back(x: str) -> str:
        return n.step("slice", *part(n, x, axis, extent - 1, extent, -1)) if turned else x

    def behind(x: str, by: int) -> str:
        kept = [n.step("slice", *part(n, x, axis, 0, extent - by))] if extent > by else []
        if kept and axis == 0 and n.dtype() in TURNED:  # the slice is a view
            wide, value = (0,) * (len(n.made_shape(x)) - 1), float(neutral) if n.dtype() in REALS else neutral
            return n.step("pad", kept, {"before": (by, *wide), "after": (0, *wide), "value": value})
        return n.step("concat", [*fill(n, x, axis, by, nothing), *kept], {"axis": axis}) if kept else fill(n, x, axis, by, nothing)[0]
    x = back(x)
    x = behind(x, 1) if n.integer("exclusive", 0) else x
    by = 1
    while by < extent:
        x, by = n.step(word, [x, behind(x, by)]), 2 * by
    x = back(x)
    return n.emit("reshape", [n.step("transpose", [x], {"perm": (1, 0)}) if across else x], {"shape": shape})


def _gather_nd(n: Node) -> bool:
    """Return the last axis of the index holds a place in each of some axes, which are one axis here."""
    shape, own, batch = n.shape_of(0), n.shape_of(1), n.integer("batch_dims", 0)
    if n.dtype_of(1) not in ("int32", "int64") or not own or not prod(own):
        return False
    depth, kind = own[-1], n.dtype_of(1)
    flat: str = ""
    for at in range(depth):
        place = count_from_start(n, n.step("slice", *part(n, n.input(1), len(own) - 1, at, 1)), shape[batch + at])
        place = n.step("mul", [place, one(n, prod(shape[batch + at + 1:batch + depth]), kind)])
        flat = n.step("add", [flat, place]) if flat else place
    if batch:
        start = np.arange(prod(shape[:batch])).reshape(*shape[:batch], *[1] * (len(own) - batch)) * prod(shape[batch:batch + depth])
        flat = n.step("add", [flat, n.constant("start", start, kind)])
    rows = n.step("reshape", [n.input(0)], {"shape": (prod(shape[:batch + depth]), *shape[batch + depth:])})
    found = n.step("gather", [rows, n.step("reshape", [flat], {"shape": own[:-1]})], {"axis": 0})
    return n.emit("reshape", [found], {"shape": n.shape()})


def _reverse_sequence(n: Node) -> bool:
    """Translate ReverseSequence: read rows at places that follow from each sequence's length, which is data."""
    shape, time = n.shape(), n.integer("time_axis", 0)
    if n.dtype_of(1) != "int64" or (time, n.integer("batch_axis", 1)) not in ((0, 1), (1, 0)):
        return False
    batch = 1 - time
    lengths = n.step("reshape", [n.input(1)], {"shape": tuple(1 if at == time else shape[at] for at in (0, 1))})
    now, own = (places(n, shape[:2], at, "int64") for at in (time, batch))
    last = n.step("sub", [lengths, n.step("add", [now, one(n, 1, "int64")])])
    at = n.step("where", [n.step("less", [now, lengths], dtype="bool"), last, now], dtype="int64")
    steps = [one(n, shape[1] if axis == 0 else 1, "int64") for axis in (time, batch)]
    flat = n.step("add", [n.step("mul", [at, steps[0]]), n.step("mul", [own, steps[1]])])
    rows = n.step("reshape", [n.input(0)], {"shape": (shape[0] * shape[1], *shape[2:])})
    found = n.step("gather", [rows, n.step("reshape", [flat], {"shape": (shape[0] * shape[1],)})], {"axis": 0})
    return n.emit("reshape", [found], {"shape": shape})


def _eye(n: Node) -> bool:
    rows, columns = n.shape_of(0)
    return n.emit_constant(np.eye(rows, columns, n.integer("k", 0)))


def _size(n: Node) -> bool:
    return n.emit_constant(np.array(prod(n.shape_of(0))))


RULES: dict[str, Rule] = {
    "ArgMax": _extreme("reduce_max"), "ArgMin": _extreme("reduce_min"), "CumProd": _cumulative("mul", 1), "CumSum": _cumulative("add", 0),
    "EyeLike": _eye, "GatherND": _gather_nd, "Hardmax": _hardmax, "OneHot": _one_hot, "ReverseSequence": _reverse_sequence, "Size": _size,
    "Trilu": _trilu,
}
ANY_DTYPE = frozenset(RULES) - {"Hardmax"}
