"""Operators of windows over images: convolution and pooling."""
from __future__ import annotations

from math import ceil, prod

import numpy as np

from aoec.frontend.node import Node
from aoec.frontend.rules.rule import Rule


def _pads(n: Node, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...] | None:
    """Explicit pads (top, left, bottom, right); None where some are negative."""
    auto = n.text("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = n.integers("pads", (0, 0, 0, 0))
        return pads if min(pads) >= 0 else None
    if auto == "VALID":
        return (0, 0, 0, 0)
    size = n.shape_of(0)[2:]
    total = [max(0, (ceil(i / s) - 1) * s + d * (k - 1) + 1 - i) for i, s, d, k in zip(size, stride, dilation, kernel)]
    less = [t // 2 for t in total]
    more = [t - half for t, half in zip(total, less)]
    return (*less, *more) if auto == "SAME_UPPER" else (*more, *less)


Window = dict[str, tuple[int, ...]]


def _window(n: Node, kernel: tuple[int, ...]) -> Window | None:
    """stride, pad and dilation of a window over two dimensions; None for other ranks."""
    if len(n.shape_of(0)) != 4 or len(kernel) != 2:
        return None
    stride, dilation = n.integers("strides", (1, 1)), n.integers("dilations", (1, 1))
    pad = _pads(n, kernel, stride, dilation)
    return None if pad is None else {"stride": stride, "pad": pad, "dilation": dilation}


def _conv(n: Node) -> bool:
    if not n.is_constant(1) or (n.has(2) and not n.is_constant(2)):
        return False
    window = _window(n, n.shape_of(1)[2:])
    return window is not None and n.emit("conv2d", n.inputs(), {**window, "group": n.integer("group", 1)})


def _pool(n: Node) -> tuple[Window, tuple[int, ...]] | None:
    """Attributes of a pooling window, with pads that give ONNX's output (ceil_mode may add some at the end), and the pads as stated."""
    kernel = n.integers("kernel_shape", ())
    window = _window(n, kernel)
    if window is None or n.has_second_result():
        return None
    stated = window["pad"]
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, window["dilation"])]
    ends = [(out - 1) * s + span - size - before for out, s, span, size, before in
            zip(n.shape()[2:], window["stride"], spans, n.shape_of(0)[2:], stated)]
    pad = (*stated[:2], *(max(end, given) for end, given in zip(ends, stated[2:])))
    return {"kernel": kernel, **window, "pad": pad}, stated


def _max_pool(n: Node) -> bool:
    found = _pool(n)
    return found is not None and n.emit("max_pool", [n.input(0)], found[0])


def _avg_pool(n: Node) -> bool:
    found = _pool(n)
    if found is None:
        return False
    attributes, stated = found
    counted = stated if n.integer("count_include_pad", 0) else (0, 0, 0, 0)
    counts = _counts(n.shape_of(0)[2:], n.shape()[2:], attributes, counted)
    inputs = [n.input(0)]
    if (counts != prod(attributes["kernel"])).any():
        inputs.append(n.constant("reciprocal_counts", (1.0 / np.maximum(counts, 1))[None, None]))
    return n.emit("avg_pool", inputs, attributes)


def _counts(size: tuple[int, ...], out: tuple[int, ...], window: Window, counted: tuple[int, ...]) -> np.ndarray:
    """[ho, wo]: how many elements of each window count: those of the tensor, and of the padding in `counted`."""
    rows = []
    for axis in (0, 1):
        kernel, stride, pad, dilation = (window[name][axis] for name in ("kernel", "stride", "pad", "dilation"))
        at = np.arange(out[axis])[:, None] * stride - pad + np.arange(kernel)[None, :] * dilation
        rows.append(((at >= -counted[axis]) & (at < size[axis] + counted[axis + 2])).sum(axis=1))
    return np.outer(rows[0], rows[1])


def _global_avg(n: Node) -> bool:
    return len(n.shape_of(0)) == 4 and n.emit("global_avg_pool", [n.input(0)])


def _global_max(n: Node) -> bool:
    shape = n.shape_of(0)
    window = {"kernel": shape[2:], "stride": (1, 1), "pad": (0, 0, 0, 0), "dilation": (1, 1)}
    return len(shape) == 4 and n.emit("max_pool", [n.input(0)], window)


RULES: dict[str, Rule] = {
    "AveragePool": _avg_pool, "Conv": _conv, "GlobalAveragePool": _global_avg, "GlobalMaxPool": _global_max, "MaxPool": _max_pool,
}
