"""Operators that normalise: softmax over an axis, batch normalisation at inference (where it was not folded into a convolution), and
local response normalisation, which runs on the host by its reference (that of `onnx.reference` is wrong beyond the first channels)."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.ops.declare import Attributes, Op, Shape, names, tensor


def _softmax_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """exp(x - max) over its sum: the shift keeps exp from overflowing and cancels out."""
    loops = names("i", len(shapes[0]))
    axis = int(attributes["axis"])  # type: ignore[arg-type]
    x, y, e = tensor("X", loops), tensor("Y", loops), tensor("E", loops)
    row = [name for at, name in enumerate(loops) if at != axis % len(loops)]
    m, s = tensor("M", row), tensor("S", row)
    return f"softmax({x}) -> {y} {{\n  {m} max= {x}\n  {e} = exp({x} - {m})\n  {s} += {e}\n  {y} = {e} / {s}\n}}"


def _softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _batch_norm_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    loops = ["n", "c", *names("i", len(shapes[0]) - 2)]
    x, y = tensor("X", loops), tensor("Y", loops)
    return (f"batch_norm({x}, scale[c], bias[c], mean[c], variance[c]; epsilon) -> {y} {{\n"
            f"  {y} = ({x} - mean[c]) * (scale[c] * rsqrt(variance[c] + epsilon)) + bias[c]\n}}")


def _batch_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray, mean: np.ndarray, variance: np.ndarray, *,
                epsilon: float) -> np.ndarray:
    scale, bias, mean, variance = (v.reshape(-1, *[1] * (x.ndim - 2)) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + x.dtype.type(epsilon)) * scale + bias


def _lrn_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Each element over a power of the sum of squares of `size` channels around it."""
    before = (int(attributes["size"]) - 1) // 2  # type: ignore[arg-type]
    near = f"X[n, c + k - {before}, h, w] else 0.0"
    return ("lrn(X[n, c, h, w]; size, alpha, beta, bias, k: size) -> Y[n, c, h, w] {\n"
            f"  S[n, c, h, w] += {near} * {near}\n"
            "  Y[n, c, h, w] = X[n, c, h, w] * pow(bias + alpha / size * S[n, c, h, w], 0.0 - beta)\n}")


def _lrn(x: np.ndarray, *, size: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    before = (size - 1) // 2
    squares = np.pad(np.square(x), ((0, 0), (before, size - 1 - before), (0, 0), (0, 0)))
    sums = np.lib.stride_tricks.sliding_window_view(squares, size, axis=1).sum(axis=-1)
    return x / (x.dtype.type(bias) + x.dtype.type(alpha / size) * sums) ** x.dtype.type(beta)


OPS = (
    Op("softmax", _softmax_text, _softmax, "softmax"), Op("batch_norm", _batch_norm_text, _batch_norm, "normalise"),
    Op("lrn", _lrn_text, _lrn, "host"))
