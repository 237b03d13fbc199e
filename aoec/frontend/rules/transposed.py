"""Transposed convolution, the gradient of a strided one, by stride phases.

With stride s, result u of the uncropped output sums kernel taps k = u % s + t * s over image pixels u // s - t: so every phase u % s is a
convolution of stride 1 of the image with its own s-th part of the kernel, flipped. All phases are channels of one convolution, whose
result is then interleaved. A convolution of the image with s - 1 zeros between its pixels does s products for each of these, a dimension.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
    spans = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilation))
    before, out = _cropping(n, size, stride, spans)
    taps = tuple(-(-span // s) for span, s in zip(spans, stride))  # of a phase
    first = tuple(b // s for b, s in zip(before, stride))  # pixel of a phase that the result begins in
    count = tuple(-(-(b + o) // s) - f for b, o, s, f in zip(before, out, stride, first))
    count = tuple(min(c, i + t - 1 - f) for c, i, t, f in zip(count, size, taps, first))  # what lies behind has no kernel over it
    pad_before = tuple(t - 1 - f for t, f in zip(taps, first))
    pad_after = tuple(f + c - i for f, c, i in zip(first, count, size))
    x, w = crop(n, n.input(0), Window(taps, ones, ones, pad_before, pad_after))
    start = tuple(b - f * s for b, f, s in zip(before, first, stride))
    early = n.has(2) and n.is_constant(2) and all(at + o <= c * s for at, o, c, s in zip(start, out, count, stride))  # nothing lies behind
    bias = [n.constant("bias", n.draft.weights[n.input(2)].repeat(prod(stride)))] if early else []
    y = convolve(n, [x, _phase_kernels(n, group, stride, dilation, taps), *bias], w, group)
    y = _interleave(n, y, stride, start, out)
    if n.has(2) and not early:
        return n.emit("add", [y, n.step("reshape", [n.input(2)], {"shape": (1, *n.shape_of(2), *ones)})])
    return n.emit("reshape", [y], {"shape": n.made_shape(y)})


def _cropping(n: Node, size: Sizes, stride: Sizes, spans: Sizes) -> tuple[Sizes, Sizes]:
    """(what is cut off before, extents of the result) along each dimension; as ONNX's text of the operator says."""
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


def _phase_kernels(n: Node, group: int, stride: Sizes, dilation: Sizes, taps: Sizes) -> str:
    """The kernel [c, co / group, *k] as [co * phases, c / group, *taps]: a kernel for each phase of each channel, flipped."""
    c, each, *kernel = n.shape_of(1)
    w, rank = n.input(1), len(kernel)
    for at in range(rank):
        w = _spread(n, w, at + 2, dilation[at], taps[at] * stride[at])
        w = _flip(n, n.step("reshape", [w], {"shape": _split_axis(n.made_shape(w), at + 2, taps[at], stride[at])}), at + 2)
        w = n.step("reshape", [w], {"shape": _join_axes(n.made_shape(w), at + 2)})
    parts = [extent for t, s in zip(taps, stride) for extent in (t, s)]
    w = n.step("reshape", [w], {"shape": (group, c // group, each, *parts)})
    phase_axes, tap_axes = range(4, 4 + 2 * rank, 2), range(3, 3 + 2 * rank, 2)
    w = n.step("transpose", [w], {"perm": (0, 2, *phase_axes, 1, *tap_axes)})
    return n.step("reshape", [w], {"shape": (group * each * prod(stride), c // group, *taps)})


def _split_axis(shape: Sequence[int], axis: int, outer: int, inner: int) -> Sizes:
    return (*shape[:axis], outer, inner, *shape[axis + 1:])


def _join_axes(shape: Sequence[int], axis: int) -> Sizes:
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:])


def _spread(n: Node, w: str, axis: int, dilation: int, extent: int) -> str:
    """The kernel with zeros between its taps along an axis, and behind them up to an extent."""
    shape = n.made_shape(w)
    if dilation > 1:
        wide = n.pad(n.step("reshape", [w], {"shape": _split_axis(shape, axis, shape[axis], 1)}), axis + 1, 0, dilation - 1)
        w = n.step("reshape", [wide], {"shape": _join_axes(n.made_shape(wide), axis)})
        w = n.piece(w, axis, 0, min(n.made_shape(w)[axis], extent))
    return n.pad(w, axis, 0, extent - n.made_shape(w)[axis])


def _flip(n: Node, w: str, axis: int) -> str:
    """Return the tensor backwards along an axis."""
    shape = n.made_shape(w)
    starts = tuple(extent - 1 if at == axis else 0 for at, extent in enumerate(shape))
    steps = tuple(-1 if at == axis else 1 for at in range(len(shape)))
    return n.step("slice", [w], {"starts": starts, "sizes": shape, "steps": steps}) if shape[axis] > 1 else w


def _interleave(n: Node, y: str, stride: Sizes, start: Sizes, out: Sizes) -> str:
    """[n, co * phases, *count] as [n, co, *out]: pixel q of phase p is pixel q * stride + p, of which `out` are kept from `start` on,
    zeros behind the last."""
    batch, channels, *count = n.made_shape(y)
    rank, co = len(count), channels // prod(stride)
    if prod(stride) > 1:
        y = n.step("reshape", [y], {"shape": (batch, co, *stride, *count)})
        y = n.step("transpose", [y], {"perm": (0, 1, *(axis for at in range(rank) for axis in (2 + rank + at, 2 + at)))})
        y = n.step("reshape", [y], {"shape": (batch, co, *(c * s for c, s in zip(count, stride)))})
    for at in range(rank):
        here = n.made_shape(y)[2 + at]
        y = n.piece(y, 2 + at, start[at], min(out[at], here - start[at]))
        y = n.pad(y, 2 + at, 0, out[at] - n.made_shape(y)[2 + at])
    return y


RULES: dict[str, Rule] = {"ConvTranspose": _conv_transpose}
