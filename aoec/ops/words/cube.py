"""Operators of the cube unit: matrix multiplication and convolution. A bias is the initial value of the sum, in fp32.

A model has `matmul` and `conv2d`. `conv2d_packed` is `conv2d` after its weights were packed (ops/words/layout.py). They are a matrix W[k,
co] for each block of groups, and k runs over (channel / C0, kernel row, kernel column, C0). Nodes before it bring weights that are no
constants into rows W[co, k] (lowering/arrange/pack_rows.py). `interpolate` gives each place along an axis a weighted sum of the elements
along it, as resizing an image does: a product with a matrix of weights.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aoec.ops.declare import Attributes, Op, Shape, broadcast, names, numbers, tensor
from aoec.ops.samples import sample
from aoec.ops.sizes import IMAGE, WINDOW, Argument, Call, Made, Sizes, bias, image, windows
from aoec.ops.words.layout import unpack_conv


def _matmul_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of A[..., m, k] x B[..., k, n], whose leading dimensions broadcast. With trans_a A is A[..., k, m]. With trans_b B is
    B[..., n, k]."""
    lead = broadcast([s[:-2] for s in shapes[:2]])
    left, right = ("k", "m") if attributes.get("trans_a") else ("m", "k"), ("n", "k") if attributes.get("trans_b") else ("k", "n")
    (a, a_read), (b, b_read) = (_batch_operand(name, s[:-2], lead, own) for name, s, own in zip("AB", shapes, (left, right)))
    args = [a, b] + ["C[nc]"] * (len(shapes) > 2)
    y = tensor("Y", [*(f"i{axis}: {extent}" for axis, extent in enumerate(lead)), "m", "n"])
    target = tensor("Y", [*names("i", len(lead)), "m", "n"])
    init = " init C[n]" if len(shapes) > 2 else ""
    return f"matmul({', '.join(args)}) -> {y} {{\n  {target} += {a_read} * {b_read}{init}\n}}"


def _batch_operand(name: str, own: Shape, lead: Shape, matrix: Sequence[str]) -> tuple[str, str]:
    """Return (argument, what is read of it) of an operand with leading dimensions `own`: where it is broadcast, it is read at 0."""
    axes = range(len(lead) - len(own), len(lead))
    dims = [f"{name.lower()}{axis}" if extent != lead[axis] else f"i{axis}" for axis, extent in zip(axes, own)]
    reads = ["0" if extent != lead[axis] else f"i{axis}" for axis, extent in zip(axes, own)]
    return tensor(name, [*dims, *matrix]), tensor(name, [*reads, *matrix])


def summable(x: np.ndarray) -> np.ndarray:
    """Return the array in the type in which its products are summed."""
    return x.astype(np.int32) if x.dtype == np.int8 else x


def _matmul(a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, *, trans_a: int = 0, trans_b: int = 0) -> np.ndarray:
    a, b = summable(a), summable(b)
    y = np.matmul(a.swapaxes(-1, -2) if trans_a else a, b.swapaxes(-1, -2) if trans_b else b)
    return y if c is None else y + c[:y.shape[-1]]


_CONV_PARAMS = "stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w"


def _padding(attributes: Attributes) -> float:
    """Return what a window reads outside its image."""
    return float(attributes.get("pad_value", 0))  # type: ignore[arg-type]


def _out(size: str, kernel: str | int, axis: str, before: str, after: str) -> str:
    """Return the extent of an output dimension of a sliding window."""
    return f"({size} + {before} + {after} - dilation_{axis} * ({kernel} - 1) - 1) // stride_{axis} + 1"


def _conv_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of X[n, c, h, w] * W[co, c / group, kh, kw]. Outside of X it reads padding: 0, or, for whole numbers, the number that
    stands for 0."""
    group = int(attributes.get("group", 1))  # type: ignore[arg-type]
    each = shapes[1][0] // group
    channel = "c" if group == 1 else f"co // {each} * {shapes[1][1]} + cg"
    w = f"W[co, {'c' if group == 1 else 'cg'}, kh, kw]"
    bias, init = (", B[cb]", " init B[co]") if len(shapes) > 2 else ("", "")
    return (f"conv2d(X[n, c, h, w], {w}{bias}; {_CONV_PARAMS}) -> "
            f"Y[n, co, ho: {_out('h', 'kh', 'h', 'pad_top', 'pad_bottom')}, wo: {_out('w', 'kw', 'w', 'pad_left', 'pad_right')}] {{\n"
            f"  Y[n, co, ho, wo] += X[n, {channel}, ho * stride_h + kh * dilation_h - pad_top, "
            f"wo * stride_w + kw * dilation_w - pad_left] else {_padding(attributes)} * {w}{init}\n}}")


def convolve(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, stride: Sequence[int] = (1, 1),
             pad: Sequence[int] = (0, 0, 0, 0), dilation: Sequence[int] = (1, 1), group: int = 1, pad_value: int = 0) -> np.ndarray:
    """Return the convolution by windows of the padded input, group by group, each one matrix multiplication."""
    x, w = np.pad(summable(x), ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])), constant_values=pad_value), summable(w)
    each_in, each_out = w.shape[1], w.shape[0] // group
    parts = [_conv_group(x[:, g * each_in:(g + 1) * each_in], w[g * each_out:(g + 1) * each_out], stride, dilation) for g in range(group)]
    y = np.concatenate(parts, axis=1)
    return y if b is None else y + b[:w.shape[0], None, None]


def _conv_group(x: np.ndarray, w: np.ndarray, stride: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    kh, kw = w.shape[2:]
    window = (dilation[0] * (kh - 1) + 1, dilation[1] * (kw - 1) + 1)
    v = np.lib.stride_tricks.sliding_window_view(x, window, axis=(2, 3))[:, :, ::stride[0], ::stride[1], ::dilation[0], ::dilation[1]]
    n, _, ho, wo = v.shape[:4]
    columns = v.transpose(0, 1, 4, 5, 2, 3).reshape(n, -1, ho * wo)
    return np.matmul(w.reshape(len(w), -1), columns).reshape(n, len(w), ho, wo)


def _packed_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of X[n, c, h, w] * W[k, co], or W[g, k, co / blocks] where groups remain. k holds whole units of C0 channels. With
    trans_b the weight is W[co, k] of all blocks, perhaps with more rows than the result has channels. With `channels`, W[k, columns] may
    have more columns."""
    given = numbers(attributes)
    kh, kw, c0 = int(given["kernel_h"]), int(given["kernel_w"]), int(given["c0"])
    blocks, channels = _blocks(shapes[1], given)
    each_out, channel = channels // blocks, f"k // {kh * kw * c0} * {c0} + k % {c0}"
    target = "co" if blocks == 1 else f"g * {each_out} + o"
    if blocks > 1:
        channel = f"g * {shapes[0][1] // blocks} + {channel}"
    w = w_read = "W[k, co]" if blocks == 1 else "W[g, k, o]"
    loops = ""
    if "trans_b" in given:
        w, w_read, loops = "W[rows, k]", f"W[{target}, k]", f", g: {blocks}, o: {each_out}" if blocks > 1 else ""
    elif "channels" in given:
        w = "W[k, columns]"
    bias, init = (", B[cb]", f" init B[{target}]") if len(shapes) > 2 else ("", "")
    co = "co" if w == "W[k, co]" else f"co: {channels}"
    return (f"conv2d_packed(X[n, c, h, w], {w}{bias}; {_CONV_PARAMS}{loops}) -> "
            f"Y[n, {co}, ho: {_out('h', kh, 'h', 'pad_top', 'pad_bottom')}, wo: {_out('w', kw, 'w', 'pad_left', 'pad_right')}] {{\n"
            f"  Y[n, {target}, ho, wo] += X[n, {channel}, ho * stride_h + k // {kw * c0} % {kh} * dilation_h - pad_top, "
            f"wo * stride_w + k // {c0} % {kw} * dilation_w - pad_left] else {_padding(attributes)} * {w_read}{init}\n}}")


def _blocks(w: Shape, given: dict[str, int | float]) -> tuple[int, int]:
    """Return (blocks of groups, channels of the result) of a packed weight."""
    if "trans_b" in given:
        return int(given["blocks"]), int(given["channels"])
    return (1, int(given.get("channels", w[1]))) if len(w) == 2 else (w[0], w[0] * w[2])


def _conv_packed(x: np.ndarray, w: np.ndarray, b: np.ndarray | None = None, *, kernel: Sequence[int], c0: int, trans_b: int = 0,
                 blocks: int = 1, channels: int = 0, **window: Any) -> np.ndarray:
    if trans_b:
        w = w[:channels].reshape(blocks, channels // blocks, -1).swapaxes(1, 2)
    elif channels:
        w = w[:, :channels]
    blocks = 1 if w.ndim == 2 else w.shape[0]
    return convolve(x, unpack_conv(w, x.shape[1] // blocks, (kernel[0], kernel[1]), c0), b, group=blocks, **window)


def _interpolate_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of a product with W[o, k] over an axis, one of the last two: X[..., k, w] or X[..., h, k]."""
    axis, places = attributes["axis"], names("i", len(shapes[0]))
    own = [["k" if at == axis else v for at, v in enumerate(places)], ["o" if at == axis else v for at, v in enumerate(places)]]
    x, y = tensor("X", own[0]), tensor("Y", own[1])
    return f"interpolate({x}, W[o, k]) -> {y} {{\n  {y} += W[o, k] * {x}\n}}"


def _interpolate(x: np.ndarray, w: np.ndarray, *, axis: int) -> np.ndarray:
    return np.matmul(w, x) if axis == x.ndim - 2 else np.matmul(x, w.T)


# ---------------------------------------------------------------- by sizes

def _sized_matmul(call: Call) -> Made:
    """Return the arguments of a product of `a` and a constant weight `b`. With `nd`, or stored as [n, k] (`trans_b`), `b` is an input in
    its own layout. With `nz`, tensors that are read and written at run time are in fractals. This is the case between matrix products on
    chips whose MTE2 does not reorder."""
    layout, constant = "NZ" if "nz" in call.flags else "ND", not call.flags & {"nd", "trans_b"}
    left = call.of("k", "m") if "trans_a" in call.flags else call.of("m", "k")
    right = call.of("n", "k") if "trans_b" in call.flags else call.of("k", "n")
    arguments = (Argument("a", call.dtype, left, layout=layout), Argument("b", call.dtype, right, constant, "ND" if constant else layout))
    turned = {f"trans_{x}": 1 for x in "ab" if f"trans_{x}" in call.flags}
    return Made((*arguments, *bias(call, call.sizes["n"])), turned, call.result)


def _sized_conv(call: Call) -> Made:
    weight = Argument("w", call.dtype, call.of("co", "c", "kh", "kw"), True)
    return Made((image(call), weight, *bias(call, call.sizes["co"])), {**windows(call), "group": 1}, call.result)


CONVOLUTIONS = ("Conv2D", "DepthwiseConv2D")
OPS = (
    Op("interpolate", _interpolate_text, _interpolate, "cube",
       samples=(sample((2, 3, 4), (5, 3), axis=1), sample((2, 3, 4), (5, 4), axis=2))),
    Op("matmul", _matmul_text, _matmul, "cube", Sizes(
        ("m", "k", "n"), _sized_matmul, flags=("int8", "relu", "bias", "trans_a", "trans_b", "nd", "nz")),
       cann=("MatMulV2", "MatMulV3", "BatchMatMulV2", "BatchMatMulV3")),
    Op("conv2d", _conv_text, convolve, "cube", Sizes((*IMAGE, "co", "kh", "kw"), _sized_conv, WINDOW, ("relu", "bias")), cann=CONVOLUTIONS),
    Op("conv2d_packed", _packed_text, _conv_packed, "cube", cann=CONVOLUTIONS, samples=(
        sample((1, 4, 4, 5), (24, 3), (4,), kernel=(3, 2), c0=4, stride=(2, 1), pad=(1, 0, 1, 2), dilation=(1, 2)),
        sample((1, 4, 4, 5), (24, 32), (16,), kernel=(3, 2), c0=4, stride=(1, 1), pad=(0, 0, 0, 0), dilation=(1, 1), channels=5))),
)
