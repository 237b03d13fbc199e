"""Pooling: windows that slide (max, average) and the mean over a whole image.

`avg_pool` divides by the kernel's area. Where padding must not count, it multiplies the sum by a constant R[., ., ho, wo] of reciprocal
counts, which is made at import. Its channels are 1, or C0 equal ones once it is stored as NC1HWC0.
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.ops.declare import Attributes, Onnx, Op, Shape
from aoec.ops.samples import sample
from aoec.ops.sizes import IMAGE, WINDOW, Call, Made, Sizes, image, images, windows

_PARAMS = ("kernel_h, kernel_w, stride_h, stride_w, pad_top, pad_left, pad_bottom, pad_right, dilation_h, dilation_w, "
           "kh: kernel_h, kw: kernel_w")
_Y = ("Y[n, c, ho: (h + pad_top + pad_bottom - dilation_h * (kernel_h - 1) - 1) // stride_h + 1, "
      "wo: (w + pad_left + pad_right - dilation_w * (kernel_w - 1) - 1) // stride_w + 1]")
_READ = "X[n, c, ho * stride_h + kh * dilation_h - pad_top, wo * stride_w + kw * dilation_w - pad_left]"
_MAX = f"max_pool(X[n, c, h, w]; {_PARAMS}) -> {_Y} {{\n  Y[n, c, ho, wo] max= {_READ} else -inf\n}}"


def _avg_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    kernel = attributes["kernel"]
    counts, factor = "", repr(1.0 / (kernel[0] * kernel[1]))  # type: ignore[index, operator]
    if len(shapes) > 1:
        counts, factor = ", R[r0, r1, rh, rw]", f"R[0, {'0' if shapes[1][1] == 1 else f'c % {shapes[1][1]}'}, ho, wo]"
    return (f"avg_pool(X[n, c, h, w]{counts}; {_PARAMS}) -> {_Y} {{\n"
            f"  S[n, c, ho, wo] += {_READ} else 0.0\n  Y[n, c, ho, wo] = S[n, c, ho, wo] * {factor}\n}}")


def _windows(x: np.ndarray, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int],
             fill: float) -> np.ndarray:
    """Return [n, c, ho, wo, kh, kw]: the window of each output position."""
    x = np.pad(x, ((0, 0), (0, 0), (pad[0], pad[2]), (pad[1], pad[3])), constant_values=fill)
    span = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
    v = np.lib.stride_tricks.sliding_window_view(x, span, axis=(2, 3))
    return v[:, :, ::stride[0], ::stride[1], ::dilation[0], ::dilation[1]]


def _max_pool(x: np.ndarray, *, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int],
              dilation: Sequence[int] = (1, 1)) -> np.ndarray:
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    return _windows(x, kernel, stride, pad, dilation, least).max(axis=(4, 5))


def _avg_pool(x: np.ndarray, r: np.ndarray | None = None, *, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int],
              dilation: Sequence[int] = (1, 1)) -> np.ndarray:
    v = _windows(x, kernel, stride, pad, dilation, 0.0)
    return v.mean(axis=(4, 5)) if r is None else v.sum(axis=(4, 5)) * r[:, :1]


def _global_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    area = shapes[0][2] * shapes[0][3]
    return ("global_avg_pool(X[n, c, h, w]) -> Y[n, c, ho: 1, wo: 1] {\n"
            f"  S[n, c] += X[n, c, h, w]\n  Y[n, c, ho, wo] = S[n, c] * {1.0 / area!r}\n}}")


def _sized_pool(call: Call) -> Made:
    return Made((image(call),), {"kernel": call.of("kh", "kw"), **windows(call)})


OPS = (
    Op("max_pool", _MAX, _max_pool, "pool", Sizes((*IMAGE, "kh", "kw"), _sized_pool, WINDOW), ("MaxPool", "MaxPoolV3")),
    Op("avg_pool", _avg_text, _avg_pool, "pool", cann=("AvgPool", "AvgPoolV2"), samples=(
        sample((1, 2, 5, 6), kernel=(3, 2), stride=(2, 1), pad=(1, 0, 1, 2), dilation=(1, 2)),)),
    Op("global_avg_pool", _global_text, lambda x: x.mean(axis=(2, 3), keepdims=True), "pool", images(), ("ReduceMeanD",),
       Onnx("GlobalAveragePool")),
)
