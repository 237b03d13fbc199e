"""Translates operators of windows: convolution and pooling over one to three dimensions.

Our words have windows over two dimensions. One dimension is treated as the width of an image of one row. For a convolution over three, the
depth becomes channels: those of the kernel's planes are put side by side, so that one product is enough. Pooling over three can be done
axis by axis, so it takes rows and columns first.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.frontend.rules.rule import Rule
from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute
from aoec.ops.words.layout import BLOCK_BYTES

Sizes = tuple[int, ...]
MOST_BYTES = 64 << 10  # that a window over one block of channels may see: a third of UB, which holds each slot of it and sums
MOST_SPAN = 1 << 24  # elements along an axis that a window may cover, move by or have beside the tensor
MOST_TAPS = 64  # of a kernel that is walked tap by tap
EXACT = 1 << 24  # whole numbers that fp32 holds


@dataclass(frozen=True)
class Window:
    """How a kernel slides over the dimensions behind the channels, a number each; `before` and `after` are pads."""

    kernel: Sizes
    stride: Sizes
    dilation: Sizes
    before: Sizes
    after: Sizes

    @property
    def span(self) -> Sizes:
        """Return what the kernel covers of each dimension."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation))

    @property
    def rank(self) -> int:
        return len(self.kernel)

    def of(self, axes: Sequence[int]) -> Window:
        """Return the window over some of the dimensions; -1: one of extent 1."""
        def pick(values: Sizes, neutral: int) -> Sizes:
            return tuple(values[a] if a >= 0 else neutral for a in axes)
        return Window(pick(self.kernel, 1), pick(self.stride, 1), pick(self.dilation, 1), pick(self.before, 0), pick(self.after, 0))

    def attributes(self) -> dict[str, Attribute]:
        """Return the attributes of a word for a window over two dimensions, but for its kernel."""
        return {"stride": self.stride, "pad": (*self.before, *self.after), "dilation": self.dilation}


def window(n: Node, kernel: Sizes) -> Window | None:
    """Return the window that a node states. Return None where its rank is not one to three or does not fit its argument, or where nothing
    is there."""
    size, rank = n.shape_of(0)[2:], len(kernel)
    if not 1 <= rank <= 3 or len(size) != rank or 0 in (*n.shape_of(0), *kernel):
        return None
    ones = (1,) * rank
    found = Window(kernel, n.integers("strides", ones), n.integers("dilations", ones), (0,) * rank, (0,) * rank)
    auto, pads = n.text("auto_pad", "NOTSET"), n.integers("pads", (0,) * (2 * rank))
    if (most := max(map(abs, (*found.span, *found.stride, *found.dilation, *pads)))) > MOST_SPAN:
        raise UnsupportedError(f"node {n.title()}: its window covers, moves by or is padded by {most:,} elements, and at most "
                               f"{MOST_SPAN:,} are taken")
    if auto in ("NOTSET", ""):
        return replace(found, before=pads[:rank], after=pads[rank:])
    if auto == "VALID":
        return found
    total = [max(0, (ceil(i / s) - 1) * s + span - i) for i, s, span in zip(size, found.stride, found.span)]
    less = tuple(t // 2 for t in total)
    more = tuple(t - half for t, half in zip(total, less))
    return replace(found, before=less, after=more) if auto == "SAME_UPPER" else replace(found, before=more, after=less)


def crop(n: Node, x: str, w: Window) -> tuple[str, Window]:
    """Return (the tensor, the window). The tensor loses what negative pads take away, and gains pads beyond the kernel's reach.
    The window keeps the pads in between."""
    before, after = ([min(max(0, p), span - 1) for p, span in zip(pads, w.span)] for pads in (w.before, w.after))
    for at in range(w.rank):
        low, high = w.before[at] - before[at], w.after[at] - after[at]
        x = n.piece(x, at + 2, max(0, -low), n.made_shape(x)[at + 2] + min(0, low) + min(0, high))
        x = n.pad(x, at + 2, max(0, low), max(0, high))
    return x, replace(w, before=tuple(before), after=tuple(after))


# ---------------------------------------------------------------- convolution

def convolve(n: Node, inputs: Sequence[str], w: Window, group: int) -> str:
    """Return the convolution of [image, kernel, perhaps bias] over one to three dimensions; of int8 in int32."""
    x, kernel, *bias = inputs
    sums = "int32" if n.draft.tensors[x].dtype == "int8" else ""
    if w.rank == 2:
        return n.step("conv2d", inputs, {**w.attributes(), "group": group}, sums)
    if w.rank == 1:
        x, kernel = (n.step("reshape", [t], {"shape": (*n.made_shape(t)[:2], 1, n.made_shape(t)[2])}) for t in (x, kernel))
        y = n.step("conv2d", [x, kernel, *bias], {**w.of((-1, 0)).attributes(), "group": group}, sums)
        batch, channels, _, width = n.made_shape(y)
        return n.step("reshape", [y], {"shape": (batch, channels, width)})
    batch, depth = n.made_shape(x)[0], (n.made_shape(x)[2] + w.before[0] + w.after[0] - w.span[0]) // w.stride[0] + 1
    x, kernel = _planes_as_channels(n, x, w, group, depth), _kernel_planes(n, kernel)
    y = n.step("conv2d", [x, kernel, *bias], {**w.of((1, 2)).attributes(), "group": group}, sums)
    y = n.step("reshape", [y], {"shape": (batch, depth, *n.made_shape(y)[1:])})
    return n.step("transpose", [y], {"perm": (0, 2, 1, 3, 4)})


def _planes_as_channels(n: Node, x: str, w: Window, group: int, depth: int) -> str:
    """Return [n, c, d, h, w] as [n * depth, kd * c, h, w]: for each plane of the result the planes that it sees, group by group."""
    batch, c, _, *plane = n.made_shape(x)
    x = n.pad(n.step("transpose", [x], {"perm": (0, 2, 1, 3, 4)}), 1, w.before[0], w.after[0])
    seen = []
    for at in range(w.kernel[0]):
        place = {"starts": (0, at * w.dilation[0], 0, 0, 0), "sizes": (batch, depth, c, *plane), "steps": (1, w.stride[0], 1, 1, 1)}
        seen.append(n.step("reshape", [n.step("slice", [x], place)], {"shape": (batch * depth, group, c // group, *plane)}))
    side_by_side = n.step("concat", seen, {"axis": 2}) if len(seen) > 1 else seen[0]
    return n.step("reshape", [side_by_side], {"shape": (batch * depth, c * w.kernel[0], *plane)})


def _kernel_planes(n: Node, kernel: str) -> str:
    """Return [co, c, kd, kh, kw] as [co, kd * c, kh, kw]."""
    co, c, planes, *rest = n.made_shape(kernel)
    turned = n.step("transpose", [kernel], {"perm": (0, 2, 1, 3, 4)})
    return n.step("reshape", [turned], {"shape": (co, planes * c, *rest)})


# ---------------------------------------------------------------- pooling

Pool = Callable[[str, Window, Sequence[int]], str]  # a tensor of four dimensions, the window over its last two, their axes -> the result


def _pool(n: Node) -> tuple[Window, Window] | None:
    """Return (the window with pads that give ONNX's output: ceil_mode may add some at the end, and padding may end before the tensor does;
    the window as stated). Return None where no pads give it."""
    stated = window(n, n.integers("kernel_shape", ()))
    if stated is None or 0 in n.shape() or min(stated.before) < 0:
        return None
    ends = [(out - 1) * s + span - size - before for out, s, span, size, before in
            zip(n.shape()[2:], stated.stride, stated.span, n.shape_of(0)[2:], stated.before)]
    w = replace(stated, after=tuple(max(end, given, 0) for end, given in zip(ends, stated.after)))
    return (w, stated) if _results(w, n.shape_of(0)[2:]) == n.shape()[2:] else None


def _results(w: Window, size: Sequence[int]) -> Sizes:
    """Return how many windows there are along each dimension."""
    return tuple((e + b + a - span) // s + 1 for e, b, a, span, s in zip(size, w.before, w.after, w.span, w.stride))


def _pool_dims(n: Node, x: str, w: Window, pool: Pool) -> str:
    """Pool the tensor by an operator over two dimensions. Of three the last two are pooled, then the first.
    Of two one is pooled after the other where UB would not hold what a window sees."""
    batch, channels, *size = n.made_shape(x)
    if w.rank == 2:
        if prod(w.span) * BLOCK_BYTES <= MOST_BYTES:
            return pool(x, w, (0, 1))
        turned = n.step("transpose", [pool(x, w.of((-1, 1)), (-1, 1))], {"perm": (0, 1, 3, 2)})  # tiles of columns are not cut
        return n.step("transpose", [pool(turned, w.of((-1, 0)), (-1, 0))], {"perm": (0, 1, 3, 2)})
    if w.rank == 1:
        y = pool(n.step("reshape", [x], {"shape": (batch, channels, 1, size[0])}), w.of((-1, 0)), (-1, 0))
        return n.step("reshape", [y], {"shape": (batch, channels, n.made_shape(y)[3])})
    y = n.step("reshape", [x], {"shape": (batch, channels * size[0], *size[1:])})
    y = _pool_dims(n, y, w.of((1, 2)), lambda t, own, axes: pool(t, own, [a + 1 if a >= 0 else a for a in axes]))
    rows, columns = n.made_shape(y)[2:]
    y = n.step("reshape", [y], {"shape": (batch, channels, size[0], rows * columns)})
    y = pool(y, w.of((0, -1)), (0, -1))
    return n.step("reshape", [y], {"shape": (batch, channels, n.made_shape(y)[2], rows, columns)})


def _subsample(n: Node, x: str, w: Window) -> str:
    """Return what a window of one element keeps."""
    steps, out = (1, 1, *w.stride), [(s - 1) // by + 1 for s, by in zip(n.made_shape(x)[2:], w.stride)]
    return n.step("slice", [x], {"starts": (0,) * len(steps), "sizes": (*n.made_shape(x)[:2], *out), "steps": steps})


def _max_pool(n: Node) -> bool:
    """Translate MaxPool of reals and of eight-bit numbers. The latter are cast to fp16, which holds all of them."""
    found, dtype = _pool(n), n.dtype_of(0)
    if found is None or dtype not in ("fp32", "int8", "uint8"):
        return False
    x = n.input(0) if dtype == "fp32" else n.step("cast", [n.input(0)], dtype="fp16")
    if n.has_second_result():
        return _max_pool_places(n, x, found[0])

    def pool(t: str, own: Window, axes: Sequence[int]) -> str:
        if prod(own.kernel) == 1:
            return _subsample(n, t, own)
        return n.step("max_pool", [t], {"kernel": own.kernel, **own.attributes()})
    y = _pool_dims(n, x, found[0], pool)
    return n.emit("reshape" if dtype == "fp32" else "cast", [y], {"shape": n.shape()} if dtype == "fp32" else {})


def _max_pool_places(n: Node, x: str, w: Window) -> bool:
    """Make the greatest element of each window and its place in the tensor, and return True. The taps of the kernel are compared one after
    the other. Of equal elements the first stays, or the last NaN, as in PyTorch. Where the first tap is padding, the place begins as that
    of the first element, since no other element need be greater than the padding. Return False for kernels of many taps, and where fp32
    does not hold every place."""
    batch, channels, *size = n.made_shape(x)
    if prod(w.kernel) > MOST_TAPS or prod(n.made_shape(x)) > EXACT or n.dtype_of(0) != "fp32":
        return False
    ends: dict[str, Attribute] = {"before": (0, 0, *w.before), "after": (0, 0, *w.after), "value": float("-inf")}
    wide = n.step("pad", [x], ends) if any((*w.before, *w.after)) else x
    out = n.shape()[2:]
    by_columns = n.integer("storage_order", 0)
    strides = [prod(size[:at] if by_columns else size[at + 1:]) for at in range(w.rank)]
    best = place = ""
    for tap in np.ndindex(*w.kernel):
        starts = tuple(t * d for t, d in zip(tap, w.dilation))
        seen = n.step("slice", [wide], {"starts": (0, 0, *starts), "sizes": (batch, channels, *out), "steps": (1, 1, *w.stride)})
        at = [np.arange(o) * s + t - b for o, s, t, b in zip(out, w.stride, starts, w.before)]
        if not best:  # after the first elements of windows along each axis
            at = [a - np.minimum(a, 0) // d * d for a, d in zip(at, w.dilation)]
        here = n.constant("place", np.asarray(sum(np.meshgrid(*(a * step for a, step in zip(at, strides)), indexing="ij")))[None, None])
        if best:
            newer = n.step("greater", [seen, best], dtype="bool")
            newer = n.step("either", [newer, n.step("is_nan", [seen], dtype="bool")])
            place = n.wide(n.step("where", [newer, here, place], dtype="fp32"))
            best = n.step("maximum", [best, seen])
        else:
            best, place = seen, here
    planes = n.constant("planes", (np.arange(batch * channels) * prod(size)).reshape(batch, channels, *(1 for _ in size)))
    n.emit("cast", [n.wide(n.step("add", [place, planes]))], at=1)
    return n.emit("reshape", [best], {"shape": n.shape()})


def _avg_pool(n: Node) -> bool:
    found = _pool(n)
    if found is None:
        return False
    w, stated = found
    rows = [_counts(n, w, stated if n.integer("count_include_pad", 0) else None, axis) for axis in range(w.rank)]

    def pool(t: str, own: Window, axes: Sequence[int]) -> str:
        if prod(own.kernel) == 1:
            return _subsample(n, t, own)
        size = n.made_shape(t)[2:]
        counts = [rows[a] if a >= 0 else np.ones(extent, np.int64) for a, extent in zip(axes, size)]
        return n.step("avg_pool", _with_counts(n, t, own, counts), {"kernel": own.kernel, **own.attributes()})
    return n.emit("reshape", [_pool_dims(n, n.input(0), w, pool)], {"shape": n.shape()})


def _with_counts(n: Node, x: str, w: Window, rows: Sequence[np.ndarray]) -> list[str]:
    """Return the arguments of an average: where not all of each window counts, a constant of what its sum is multiplied by too."""
    counts = np.outer(*rows)
    if (counts == prod(w.kernel)).all():
        return [x]
    return [x, n.constant("reciprocal_counts", (1.0 / np.maximum(counts, 1))[None, None])]


def _counts(n: Node, w: Window, counted: Window | None, axis: int) -> np.ndarray:
    """Return how many elements along an axis each window counts: those of the tensor, and those of the padding that `counted` states."""
    size, out = n.shape_of(0)[2 + axis], n.shape()[2 + axis]
    low, high = (-counted.before[axis], size + counted.after[axis]) if counted else (0, size)
    begin = np.arange(out) * w.stride[axis] - w.before[axis]
    first, end = (np.clip(-(-(edge - begin) // w.dilation[axis]), 0, w.kernel[axis]) for edge in (low, high))
    return np.asarray(np.maximum(end - first, 0))


def _lp_pool(n: Node) -> bool:
    """Return the root of the sum of powers: an average whose sums are multiplied by 1."""
    found = _pool(n)
    if found is None:
        return False
    p = n.integer("p", 2)

    def pool(t: str, own: Window, axes: Sequence[int]) -> str:
        ones = n.constant("sums", np.ones((1, 1, *_results(own, n.made_shape(t)[2:]))))
        return n.step("avg_pool", [t, ones], {"kernel": own.kernel, **own.attributes()})
    return _root(n, _pool_dims(n, _power(n, n.input(0), p), found[0], pool), p)


def _power(n: Node, x: str, p: int) -> str:
    """Return the absolute values to a power of 1 and more."""
    if p == 2:
        return n.step("mul", [x, x])
    size = n.step("abs", [x])
    return size if p == 1 else n.step("exp", [n.step("muls", [n.step("log", [size])], {"scalar": float(p)})])


def _root(n: Node, x: str, p: int) -> bool:
    """Make the p-th root of sums of powers the node's result, and return True."""
    if p == 2:
        return n.emit("sqrt", [x])
    if p == 1:
        return n.emit("reshape", [x], {"shape": n.shape()})
    return n.emit("exp", [n.step("muls", [n.step("log", [x])], {"scalar": 1.0 / p})])


# ---------------------------------------------------------------- whole images

def _global_avg(n: Node) -> bool:
    shape = n.shape_of(0)
    if len(shape) == 4:
        return n.emit("global_avg_pool", [n.input(0)])
    if len(shape) < 3 or 0 in shape:
        return False
    row = n.step("reshape", [n.input(0)], {"shape": (*shape[:2], 1, prod(shape[2:]))})
    return n.emit("reshape", [n.step("global_avg_pool", [row])], {"shape": n.shape()})


def _global_max(n: Node) -> bool:
    shape = n.shape_of(0)
    if len(shape) == 4:
        return n.emit("max_pool", [n.input(0)], {"kernel": shape[2:], "stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1)})
    if len(shape) < 3 or 0 in shape:
        return False
    return n.emit("reshape", [n.step("reduce_max", [n.input(0)], {"axes": tuple(range(2, len(shape)))})], {"shape": n.shape()})


def _global_lp(n: Node) -> bool:
    shape, p = n.shape_of(0), n.integer("p", 2)
    if len(shape) < 3 or 0 in shape:
        return False
    total = n.step("reduce_sum", [_power(n, n.input(0), p)], {"axes": tuple(range(2, len(shape)))})
    return _root(n, n.step("reshape", [total], {"shape": n.shape()}), p)


RULES: dict[str, Rule] = {
    "AveragePool": _avg_pool, "GlobalAveragePool": _global_avg, "GlobalLpPool": _global_lp, "GlobalMaxPool": _global_max,
    "LpPool": _lp_pool, "MaxPool": _max_pool,
}
ANY_DTYPE = {"MaxPool"}
