"""Operators that normalise:

- softmax over an axis, and its logarithm;
- rows by their mean and variance, or by their mean square;
- batch normalisation at inference, where it was not folded into a convolution;
- local response normalisation over windows of many channels. It runs on the host by its own reference, since that of `onnx.reference` is
  wrong beyond the first channels.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from aoec.ops.declare import Attributes, Onnx, Op, Shape, names, tensor
from aoec.ops.samples import POSITIVE, Given, sample
from aoec.ops.sizes import Argument, Call, Made, Sizes, rows


def _along(shapes: Sequence[Shape], attributes: Attributes) -> dict[str, str]:
    """Return the reads that a text about the rows along `axis` names: x and y at all loops, m and s with one element for each row."""
    loops = names("i", len(shapes[0]))
    axis = int(attributes["axis"])  # type: ignore[arg-type]
    row = [name for at, name in enumerate(loops) if at != axis % len(loops)]
    return {name: tensor(name.upper(), loops if name in "xyed" else row) for name in "xyedmsl"}


def _softmax_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of exp(x - max) over its sum. The shift keeps exp from overflowing and cancels out."""
    return "softmax({x}) -> {y} {{\n  {m} max= {x}\n  {e} = exp({x} - {m})\n  {s} += {e}\n  {y} = {e} / {s}\n}}".format(
        **_along(shapes, attributes))


def _log_softmax_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of x - max - log of the sum of exp(x - max). The sum is at least 1."""
    return ("log_softmax({x}) -> {y} {{\n  {m} max= {x}\n  {d} = {x} - {m}\n  {s} += exp({d})\n  {l} = log({s})\n"
            "  {y} = {d} - {l}\n}}").format(**_along(shapes, attributes))


def _log_softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    far = x - x.max(axis=axis, keepdims=True)
    return far - np.log(np.exp(far).sum(axis=axis, keepdims=True))


def _softmax(x: np.ndarray, *, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _rows(shapes: Sequence[Shape]) -> tuple[str, str, dict[str, str]]:
    """Return (the arguments, the result's last factors, names) of a normalisation of rows with a scale, and perhaps a bias, for each
    column."""
    loops = names("i", len(shapes[0]))
    args = ", ".join([tensor("X", loops), *(f"{name}[{loops[-1]}]" for name in ("G", "B")[:len(shapes) - 1])])
    after = "".join(f" {op} {name}[{loops[-1]}]" for op, name in (("*", "G"), ("+", "B"))[:len(shapes) - 1])
    return args, after, {n: tensor(n.upper(), loops if n in "xyd" else loops[:-1]) for n in "xydsv"} | {"share": repr(1.0 / shapes[0][-1])}


def _layer_norm_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of rows with mean 0 and variance 1. The mean is taken first, so that squares of small differences are summed, not
    differences of sums."""
    args, after, given = _rows(shapes)
    return ("layer_norm(" + args + "; epsilon) -> {y} {{\n  {s} += {x}\n  {d} = {x} - {s} * {share}\n  {v} += {d} * {d}\n"
            "  {y} = {d} * rsqrt({v} * {share} + epsilon)" + after + "\n}}").format(**given)


def _layer_norm(x: np.ndarray, scale: np.ndarray | None = None, bias: np.ndarray | None = None, *, epsilon: float) -> np.ndarray:
    y = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(epsilon))
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def _plane_norm_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the last `dims` dimensions as a row of mean 0 and variance 1."""
    dims = int(attributes["dims"])  # type: ignore[arg-type]
    loops, rank = names("i", len(shapes[0])), len(shapes[0])
    given = {n: tensor(n.upper(), loops if n in "xyd" else loops[:rank - dims]) for n in "xydsv"}
    return ("plane_norm({x}; epsilon) -> {y} {{\n  {s} += {x}\n  {d} = {x} - {s} * {share}\n  {v} += {d} * {d}\n"
            "  {y} = {d} * rsqrt({v} * {share} + epsilon)\n}}").format(**given, share=repr(1.0 / prod(shapes[0][rank - dims:])))


def _plane_norm(x: np.ndarray, *, epsilon: float, dims: int) -> np.ndarray:
    axes = tuple(range(x.ndim - dims, x.ndim))
    return (x - x.mean(axis=axes, keepdims=True)) / np.sqrt(x.var(axis=axes, keepdims=True) + x.dtype.type(epsilon))


def _rms_norm_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of rows over the root of their mean square."""
    args, after, given = _rows(shapes)
    return ("rms_norm(" + args + "; epsilon) -> {y} {{\n  {s} += {x} * {x}\n  {y} = {x} * rsqrt({s} * {share} + epsilon)"
            + after + "\n}}").format(**given)


def _rms_norm(x: np.ndarray, scale: np.ndarray | None = None, *, epsilon: float) -> np.ndarray:
    y = x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + x.dtype.type(epsilon))
    return y if scale is None else y * scale


def _inverse_deviation_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of one over the deviation of each row, as a norm of rows computes it. A row stays as one element."""
    given = _rows(shapes)[2]
    result = tensor("Y", [*names("i", len(shapes[0]))[:-1], "one"])
    dims = tensor("Y", [*names("i", len(shapes[0]))[:-1], "one: 1"])
    return ("inverse_deviation({x}; epsilon) -> " + dims + " {{\n  {s} += {x}\n  {d} = {x} - {s} * {share}\n  {v} += {d} * {d}\n  "
            + result + " = rsqrt({v} * {share} + epsilon)\n}}").format(**given)


def _inverse_deviation(x: np.ndarray, *, epsilon: float) -> np.ndarray:
    return 1 / np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(epsilon))


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
    """Return the text of each element over a power of the sum of squares of `size` channels around it."""
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


def _sized_norm(call: Call) -> Made:
    m, n = call.of("m", "n")
    factors = tuple(Argument(name, call.dtype, (n,), True) for name in ("scale", *(["bias"] if "bias" in call.flags else [])))
    return Made((Argument("a", call.dtype, (m, n)), *factors), {"epsilon": 1e-5})


STATISTICS = "a mean and a variance are small differences of large sums"
OPS = (
    Op("softmax", _softmax_text, _softmax, "softmax", rows(attributes={"axis": 1}), ("SoftmaxV2",), Onnx("Softmax", {"axis": -1}),
       "a sum of exponentials, and shares of it near zero"),
    Op("log_softmax", _log_softmax_text, _log_softmax, "softmax", rows(attributes={"axis": 1}), ("LogSoftmaxV2",),
       Onnx("LogSoftmax", {"axis": -1}), "the logarithm of a sum of exponentials"),
    Op("layer_norm", _layer_norm_text, _layer_norm, "row_norm", Sizes(("m", "n"), _sized_norm, flags=("bias",)), ("LayerNorm",),
       sensitive=STATISTICS),
    Op("plane_norm", _plane_norm_text, _plane_norm, "row_norm", cann=("GroupNorm",), sensitive=STATISTICS,
       samples=(sample((3, 4, 16), epsilon=1e-5, dims=2), sample((2, 3, 2, 8), epsilon=1e-5, dims=3))),
    Op("rms_norm", _rms_norm_text, _rms_norm, "row_norm", Sizes(("m", "n"), _sized_norm), ("RmsNorm",), sensitive="a mean of squares"),
    Op("inverse_deviation", _inverse_deviation_text, _inverse_deviation, "reduce", rows(attributes={"epsilon": 1e-5}),
       sensitive=STATISTICS),
    Op("batch_norm", _batch_norm_text, _batch_norm, "normalise", cann=("BNInfer",),
       onnx=Onnx("BatchNormalization", {"epsilon": 1e-5}, types=("own",)), sensitive=STATISTICS,
       samples=(sample((2, 3, 4), (3,), (3,), (3,), Given((3,), POSITIVE), epsilon=0.1),)),
    Op("lrn", _lrn_text, _lrn, "host", cann=("LRN",),
       onnx=Onnx("LRN", {"size": 1, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}), sensitive="a sum of squares and a power of it",
       samples=(sample((1, 5, 2, 2), size=3, alpha=0.1, beta=0.75, bias=1.0),)))
