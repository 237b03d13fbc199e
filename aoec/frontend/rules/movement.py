"""Operators that move elements or show them in another shape, whatever the elements mean."""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import isnan, prod

import numpy as np

from aoec.frontend.rules.rule import Rule, view
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute
from aoec.ir.index import DTYPES
from aoec.ops.run import REALS
from aoec.ops.words.movement import BY_PHASE

Attributes = dict[str, Attribute]
MOST_PIECES = 16  # of an axis that is put together of slices
SPREAD = 32  # elements of a row of one from which on products are faster than copies, on 310P3 and 910B3
MOST_ONES = 1 << 16  # of a constant that is multiplied with
FEW_TIMES = 8  # that an element is copied by itself at the end of an axis
FILLED_BYTES = (2, 4)  # of the elements that the vector unit writes many of


def _transpose(n: Node) -> bool:
    rank = len(n.shape_of(0))
    return n.emit("transpose", [n.input(0)], {"perm": tuple(n.integers("perm", tuple(range(rank))[::-1]))})


def _concat(n: Node) -> bool:
    """Translate Concat. Inputs without elements are left out."""
    kept = [i for i in n.inputs() if prod(n.draft.tensors[i].shape)]
    if len(kept) == 1:
        return n.emit("reshape", kept, {"shape": n.shape()})
    return len(kept) > 1 and n.emit("concat", kept, {"axis": n.integer("axis", 1) % len(n.shape())})


def part(n: Node, x: str, axis: int, start: int, size: int, by: int = 1) -> tuple[list[str], Attributes]:
    """Return (inputs, attributes) of a slice that takes part of one axis: `size` elements from `start` on, `by` apart."""
    shape = n.draft.tensors[x].shape
    starts, steps, sizes = [0] * len(shape), [1] * len(shape), list(shape)
    starts[axis], steps[axis], sizes[axis] = start, by, size
    return [x], {"starts": tuple(starts), "sizes": tuple(sizes), "steps": tuple(steps)}


def _slice(n: Node) -> bool:
    """Translate Slice: parts of axes at constant places, forward or backward. Before version 10 the places are attributes."""
    given = [n.integers(name, n.constant_integers(at)) for at, name in enumerate(("starts", "ends", "axes", "steps"), 1)]
    if not given[0] or any(n.has(at) and not n.is_constant(at) for at in range(1, 5)):
        return False
    shape, whole = n.shape_of(0), [0] * len(n.shape_of(0))
    axes = given[2] or tuple(range(len(given[0])))
    starts, steps = list(whole), [1] * len(shape)
    for axis, start, by in zip(axes, given[0], given[3] or (1,) * len(axes)):
        last = shape[axis] - (by < 0)  # where a start beyond the end is put
        starts[axis] = min(max(start + shape[axis] if start < 0 else start, 0), last)
        steps[axis] = by
    return n.emit("slice", [n.input(0)], {"starts": tuple(starts), "sizes": n.shape(), "steps": tuple(steps)})


def _split(n: Node) -> bool:
    """Translate Split: parts of an axis one after the other. A part that nobody reads is not made, and a part without elements is a
    constant."""
    if n.has(1) and not n.is_constant(1) or not all(n.proto.output):
        return False
    axis, starts = n.integer("axis", 0) % len(n.shape_of(0)), [0]
    sizes = [n.shape(at)[axis] for at in range(n.results())]
    starts += accumulate(sizes)
    return all(n.emit("slice", *part(n, n.input(0), axis, starts[at], size), at=at) if size else n.emit_constant(np.zeros(n.shape(at)), at)
               for at, size in enumerate(sizes))


def _expand(n: Node) -> bool:
    """Translate Expand. Rows of one element each become products with ones, which the vector unit spreads in registers. Copies would move
    one element at a time (2048 x 1024 on 310P3: 1,259 us modelled, against 8)."""
    own, shape = n.shape_of(0), n.shape()
    if own == shape:
        return view(n)
    own = (1,) * (len(shape) - len(own)) + own
    if n.dtype_of(0) not in REALS or 0 in shape or own[-1] != 1 or shape[-1] < SPREAD:
        return n.emit("expand", [n.input(0)], {"shape": shape})
    ones = tuple(whole if size == 1 else 1 for size, whole in zip(own, shape))
    if prod(ones) <= MOST_ONES:
        return n.emit("mul", [n.input(0), n.constant("ones", np.ones(ones))])
    rows = n.step("mul", [n.input(0), n.constant("ones", np.ones(shape[-1]))])
    return n.emit("expand", [rows], {"shape": shape})


def _tile(n: Node) -> bool:
    """Translate Tile: repeat each axis by reading it again along an axis of its own before it."""
    own, times = n.shape_of(0), [a // b for a, b in zip(n.shape(), n.shape_of(0))]
    return n.emit("reshape", [repeat(n, n.input(0), own, times)], {"shape": n.shape()})


def repeat(n: Node, x: str, own: Sequence[int], times: Sequence[int], each: bool = False) -> str:
    """Return the tensor of shape [times[0], own[0], times[1], ...]; with `each` [own[0], times[0], ...], every element so many times."""
    pairs = [(size, count) if each else (count, size) for size, count in zip(own, times)]
    ones = [(size, 1) if each else (1, size) for size in own]
    apart = n.step("reshape", [x], {"shape": tuple(d for pair in ones for d in pair)})
    return n.step("expand", [apart], {"shape": tuple(d for pair in pairs for d in pair)})


# ---------------------------------------------------------------- padding

def _pad(n: Node) -> bool:
    """Negative pads cut first; then a constant all around, or what each axis itself has, axis after axis."""
    stated = n.integers("pads", n.constant_integers(1))
    if any(n.has(at) and not n.is_constant(at) for at in (1, 3)) or not stated:
        return False
    rank = len(n.shape_of(0))
    axes = [a % rank for a in n.constant_integers(3)] or list(range(rank))
    before, after = [0] * rank, [0] * rank
    for at, axis in enumerate(axes):
        before[axis], after[axis] = stated[at], stated[at + len(axes)]
    x = _crop(n, before, after)
    before, after = ([max(p, 0) for p in pads] for pads in (before, after))
    mode = n.text("mode", "constant")
    if mode == "constant":
        return _pad_constant(n, x, before, after)
    for axis, (b, a) in enumerate(zip(before, after)):
        size = n.draft.tensors[x].shape[axis]
        places = np.pad(np.arange(size), (b, a), mode=mode)  # type: ignore[call-overload]
        ends = [_end(n, x, axis, end.tolist()) for end in (places[:b], places[b + size:])]
        x = n.step("concat", [*ends[0], x, *ends[1]], {"axis": axis}) if b + a else x
    return n.emit("reshape", [x], {"shape": n.shape()})


def _end(n: Node, x: str, axis: int, places: list[int]) -> list[str]:
    """Return the slices of its own elements that an axis is padded with. If the pad is one element a few times, each is the same slice of
    one element, for which images keep their layout."""
    if len(set(places)) == 1 and len(places) <= FEW_TIMES:
        return [take(n, x, axis, places[:1])] * len(places)
    return [take(n, x, axis, places)] if places else []


def _crop(n: Node, before: Sequence[int], after: Sequence[int]) -> str:
    """Return the input without what negative pads take away."""
    shape, x = n.shape_of(0), n.input(0)
    starts = tuple(max(-b, 0) for b in before)
    sizes = tuple(size - start - max(-a, 0) for size, start, a in zip(shape, starts, after))
    return x if sizes == shape else n.step("slice", [x], {"starts": starts, "sizes": sizes, "steps": (1,) * len(shape)})


def _pad_constant(n: Node, x: str, before: Sequence[int], after: Sequence[int]) -> bool:
    """Pad with a constant, by one operator where the vector unit writes such elements. Else join the repeated element to both ends of each
    axis."""
    value, real = n.scalar(2, n.number("value", 0.0)), n.dtype() == "fp32"
    if value is not None and DTYPES[n.dtype()] in FILLED_BYTES and not isnan(value):
        return n.emit("pad", [x], {"before": tuple(before), "after": tuple(after), "value": value if real else int(value)})
    one = n.input(2) if n.has(2) else n.constant("pad", np.array(value), n.dtype())
    for axis, ends in enumerate(zip(before, after)):
        first, last = (fill(n, x, axis, size, one) for size in ends)
        x = n.step("concat", [*first, x, *last], {"axis": axis}) if any(ends) else x
    return n.emit("reshape", [x], {"shape": n.shape()})


def fill(n: Node, x: str, axis: int, size: int, one: str) -> list[str]:
    """Return a tensor like `x` except for its extent along an axis, filled with the element of `one`. Return none for extent 0."""
    shape = tuple(size if at == axis else d for at, d in enumerate(n.draft.tensors[x].shape))
    return [n.step("expand", [n.step("reshape", [one], {"shape": (1,) * len(shape)})], {"shape": shape})] if size else []


def take(n: Node, x: str, axis: int, places: Sequence[int]) -> str:
    """Take the elements of an axis at constant places: slices in equal steps, joined. One element many times is an expansion."""
    pieces = []
    for start, size, by in steps(places):
        if by:
            pieces.append(n.step("slice", *part(n, x, axis, start, size, by)))
            continue
        one = n.step("slice", *part(n, x, axis, start, 1))
        shape = tuple(size if at == axis else d for at, d in enumerate(n.draft.tensors[x].shape))
        pieces.append(n.step("expand", [one], {"shape": shape}))
    return pieces[0] if len(pieces) == 1 else n.step("concat", pieces, {"axis": axis})


def steps(places: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (first place, how many, step) of runs in equal steps, from the left, each as long as can be; a run of one has step 1."""
    out: list[tuple[int, int, int]] = []
    at = 0
    while at < len(places):
        by = places[at + 1] - places[at] if at + 1 < len(places) else 1
        end = at + 1
        while end < len(places) and places[end] - places[end - 1] == by:
            end += 1
        out.append((places[at], end - at, by))
        at = end
    return out


# ---------------------------------------------------------------- indices

def _gather(word: str) -> Rule:
    """Return the rule of a gather by an index of whole numbers, constant or not. A constant index of one place, or of places at equal
    steps, becomes a slice. Single rows, such as queries, keys and values side by side, mostly become views then."""
    def rule(n: Node) -> bool:
        axis = n.integer("axis", 0) % len(n.shape_of(0))
        if word == "gather" and n.is_constant(1) and (run := _run(n.constant_integers(1), n.shape_of(0)[axis])) is not None:
            return n.emit("reshape", [take(n, n.input(0), axis, run)], {"shape": n.shape()})
        return n.dtype_of(1) in ("int32", "int64") and n.emit(word, n.inputs(), {"axis": axis})
    return rule


def _run(places: Sequence[int], extent: int) -> list[int] | None:
    """Return the places, from 0 on, where they follow each other at equal steps and lie within the extent; else None."""
    found = [at + extent if at < 0 else at for at in places]
    runs = steps(found)
    return found if len(runs) == 1 and runs[0][2] and 0 <= min(found) <= max(found) < extent else None


# ---------------------------------------------------------------- blocks of pixels

def _depth_to_space(n: Node) -> bool:
    b, c, h, w = n.shape_of(0)
    size = n.integer("blocksize", 1)
    rows = n.text("mode", "DCR") == "DCR"
    apart = (b, size, size, c // size ** 2, h, w) if rows else (b, c // size ** 2, size, size, h, w)
    perm = BY_PHASE if rows else (0, 1, 4, 2, 5, 3)
    return _rearrange(n, apart, perm)


def _space_to_depth(n: Node) -> bool:
    b, c, h, w = n.shape_of(0)
    size = n.integer("blocksize", 1)
    perm = (0, 3, 5, 1, 2, 4) if n.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return _rearrange(n, (b, c, h // size, size, w // size, size), perm)


def _rearrange(n: Node, apart: tuple[int, ...], perm: tuple[int, ...]) -> bool:
    turned = n.step("transpose", [n.step("reshape", [n.input(0)], {"shape": apart})], {"perm": perm})
    return n.emit("reshape", [turned], {"shape": n.shape()})


def _dropout(n: Node) -> bool:
    """Return a view, where it is not training, and a mask that hides nothing."""
    training = n.has(2) and n.constant_integers(2) != (0,)
    masked = n.has_second_result() and n.shapes.get(n.proto.output[1]) == n.shape_of(0)
    if training or n.has_second_result() and not masked:
        return False
    if masked:
        n.emit_constant(np.ones(n.shape_of(0), np.bool_), at=1)
    return n.emit("reshape", [n.input(0)], {"shape": n.shape()})


RULES: dict[str, Rule] = {
    "Concat": _concat, "DepthToSpace": _depth_to_space, "Dropout": _dropout, "Expand": _expand, "Flatten": view,
    "Gather": _gather("gather"), "GatherElements": _gather("gather_elements"), "Identity": view, "Pad": _pad,
    "Reshape": view, "Slice": _slice, "SpaceToDepth": _space_to_depth, "Split": _split, "Squeeze": view, "Tile": _tile,
    "Transpose": _transpose, "Unsqueeze": view,
}

ANY_DTYPE = frozenset(RULES)
MOVES = ANY_DTYPE - {"Dropout", "Pad"}  # those that bring nothing of their own
