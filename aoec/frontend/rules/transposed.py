"""Translates transposed convolution, the gradient of a strided one, by stride phases.

With stride s, result u of the uncropped output sums kernel taps k = u % s + t * s over image pixels u // s - t. So every phase u % s is a
convolution of stride 1 of the image with the phase's s-th part of the kernel, flipped. All phases are channels of one convolution, whose
result is then interleaved. A convolution of the image with s - 1 zeros between its pixels takes s times as many products, for each
dimension.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from aoec.frontend.rules.rule import Rule
from aoec.frontend.rules.window import Sizes, Window, convolve, crop
from aoec.frontend.translate.node import Node


def _conv_transpose(n: Node) -> bool:
    kernel, size, group = n.shape_of(1)[2:], n.shape_of(0)[2:], n.integer("group", 1)
    rank = len(kernel)
    if not 1 <= rank <= 3 or len(size) != rank or 0 in (*n.shape_of(0), *n.shape_of(1)):
        return False
    ones = (1,) * rank
    stride, dilation = n.integers("strides", ones), n.integers("dilations", ones)
    before, out = _cropping(n, size, stride, tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation)))
    bias = n.draft.weights[n.input(2)] if n.has(2) and n.is_constant(2) else None
    y, done = transpose_convolution(n, n.input(0), n.input(1), Window(kernel, stride, dilation, before, (0,) * rank), group, out, bias)
    if n.has(2) and not done:
        return n.emit("add", [y, n.step("reshape", [n.input(2)], {"shape": (1, *n.shape_of(2), *ones)})])
    return n.emit("reshape", [y], {"shape": n.made_shape(y)})


def transpose_convolution(n: Node, x: str, kernel: str, w: Window, group: int, out: Sizes,
                          bias: np.ndarray | None = None) -> tuple[str, bool]:
    """Return (the transposed convolution of a tensor by a kernel [c, co / group, *k], of extents `out`; whether it has the bias, one of
    each channel). `w` is the window of the convolution that it is the gradient of; its pads before say what is cut off."""
    stride, size = w.stride, n.made_shape(x)[2:]
    # a result is pixel q * stride + phase - start; it begins with a phase where that costs no tap
    start = tuple(0 if _reach(b, span, s)[2] == -(-span // s) else b % s for b, span, s in zip(w.before, w.span, stride))
    ends = [_reach(b - at, span, s) for b, at, span, s in zip(w.before, start, w.span, stride)]
    taps = tuple(count for _, _, count in ends)
    count = tuple(-(-(at + o) // s) for at, o, s in zip(start, out, stride))
    count = tuple(max(1, min(c, i - low)) for c, i, (low, _, _) in zip(count, size, ends))  # what lies behind has no kernel over it
    which = _taps_of_phases(w, tuple(b - at for b, at in zip(w.before, start)), [low for low, _, _ in ends], taps)
    pads = [(-low, c - 1 + high - (i - 1)) for (low, high, _), c, i in zip(ends, count, size)]
    x, cut = crop(n, x, Window(taps, (1,) * w.rank, (1,) * w.rank, *zip(*pads)))
    early = bias is not None and all(at + o <= c * s for at, o, c, s in zip(start, out, count, stride))  # nothing lies behind
    phases = prod(stride)
    own = [] if bias is None or not early else [n.constant("bias", np.tile(bias.reshape(group, 1, -1), (1, phases, 1)).ravel())]
    y = convolve(n, [x, _phase_kernels(n, kernel, group, which), *own], cut, group)
    return _interleave(n, y, stride, group, start, out), early


def _reach(before: int, span: int, stride: int) -> tuple[int, int, int]:
    """Return (the first pixel, the last one, how many) over which a kernel's taps lie, from the pixel of a phase on."""
    low, high = -((span - 1 - before) // stride), (before + stride - 1) // stride
    return low, high, high - low + 1


def _cropping(n: Node, size: Sizes, stride: Sizes, spans: Sizes) -> tuple[Sizes, Sizes]:
    """Return (what is cut off before, extents of the result) along each dimension; as ONNX's text of the operator says."""
    rank = len(size)
    more = n.integers("output_padding", (0,) * rank)
    whole = [s * (i - 1) + span + m for s, i, span, m in zip(stride, size, spans, more)]
    auto, stated = n.text("auto_pad", "NOTSET"), n.integers("output_shape", ())[-rank:]
    pads = n.integers("pads", (0,) * (2 * rank))
    if not stated and not auto.startswith("SAME"):
        pads = (0,) * (2 * rank) if auto == "VALID" else pads
        return pads[:rank], tuple(w - b - a for w, b, a in zip(whole, pads[:rank], pads[rank:]))
    out = stated or tuple(min(i * s, w) for i, s, w in zip(size, stride, whole))  # a stride beyond the kernel pads nothing
    total = [max(0, w - o) for w, o in zip(whole, out)]
    return tuple(t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total), out


def _phase_kernels(n: Node, kernel: str, group: int, which: np.ndarray) -> str:
    """Return the kernel [c, co / group, *k] as [group * phases * co / group, c / group, *taps]: a kernel for each phase of each channel,
    flipped. Taps are rows here, which move whole, and what has no tap is a row of zeros."""
    c, each, *sizes = n.made_shape(kernel)
    count, rank = prod(sizes), len(sizes)
    w = n.step("reshape", [kernel], {"shape": (group, c // group, each, count)})
    w = n.step("transpose", [w], {"perm": (3, 0, 2, 1)})
    if which.ravel().tolist() != [*range(count)]:
        w = n.pad(w, 0, 0, int((which == count).any()))
        w = n.step("gather", [w, n.constant("taps", which.ravel(), "int64")], {"axis": 0})
    w = n.step("reshape", [w], {"shape": (*which.shape, group, each, c // group)})
    phases, taps = range(rank), range(rank, 2 * rank)
    w = n.step("transpose", [w], {"perm": (2 * rank, *phases, 2 * rank + 1, 2 * rank + 2, *taps)})
    return n.step("reshape", [w], {"shape": (prod(which.shape[:rank]) * group * each, c // group, *which.shape[rank:])})


def _taps_of_phases(w: Window, before: Sizes, low: Sequence[int], taps: Sizes) -> np.ndarray:
    """Return [*phases, *taps]: the number of the kernel's tap, in row-major order, for each tap of each phase. Where a phase has no tap,
    the entry is the number of the kernel's taps."""
    rank, count = w.rank, prod(w.kernel)
    places, known = np.zeros((1,) * (2 * rank), int), np.ones((1,) * (2 * rank), bool)
    for axis, (k, s, d, t, b, first) in enumerate(zip(w.kernel, w.stride, w.dilation, taps, before, low)):
        at = np.arange(s)[:, None] + b - s * (first + np.arange(t))
        here = [s if own == axis else t if own == rank + axis else 1 for own in range(2 * rank)]
        places = places * k + (at // d).reshape(here)
        known = known & ((at >= 0) & (at % d == 0) & (at // d < k)).reshape(here)
    return np.where(known, places, count)


def _interleave(n: Node, y: str, stride: Sizes, group: int, start: Sizes, out: Sizes) -> str:
    """Return [n, group * phases * co / group, *count] as [n, co, *out]. Pixel q of phase p becomes pixel q * stride + p. Of these pixels,
    `out` are kept from `start` on, with zeros behind the last."""
    batch, channels, *count = n.made_shape(y)
    rank, each = len(count), channels // (group * prod(stride))
    if prod(stride) > 1 and rank == 2 and group == 1:
        y = n.step("depth_to_space", [y], {"scale": stride})
    elif prod(stride) > 1:
        y = n.step("reshape", [y], {"shape": (batch, group, *stride, each, *count)})
        y = n.step("transpose", [y], {"perm": (0, 1, 2 + rank, *(axis for at in range(rank) for axis in (3 + rank + at, 2 + at)))})
        y = n.step("reshape", [y], {"shape": (batch, group * each, *(c * s for c, s in zip(count, stride)))})
    for at in range(rank):
        here = n.made_shape(y)[2 + at]
        y = n.piece(y, 2 + at, start[at], min(out[at], here - start[at]))
        y = n.pad(y, 2 + at, 0, out[at] - n.made_shape(y)[2 + at])
    return y


RULES: dict[str, Rule] = {"ConvTranspose": _conv_transpose}
