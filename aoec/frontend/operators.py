"""ONNX operators in our words: one small function for each, from a node at hand to nodes of the draft.

A function returns False where our words do not cover the case (a weight that is no constant, three spatial dimensions, ...);
the node then runs on the host.
"""
from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod

import numpy as np

from aoec.frontend.node import Node
from aoec.ir.graph import Attribute

Rule = Callable[[Node], bool]


def _unary(op: str, **attributes: Attribute) -> Rule:
    def rule(n: Node) -> bool:
        return n.emit(op, [n.input(0)], attributes)
    return rule


def _alpha(op: str, **defaults: float) -> Rule:
    """A unary operator whose real attributes have defaults."""
    def rule(n: Node) -> bool:
        return n.emit(op, [n.input(0)], {name: n.real(name, value) for name, value in defaults.items()})
    return rule


def _chain(op: str) -> Rule:
    """An operator of any number of arguments, from the left."""
    def rule(n: Node) -> bool:
        at = n.input(0)
        for other in n.inputs()[1:-1]:
            at = n.step(op, [at, other])
        return n.emit(op, [at, n.inputs()[-1]]) if len(n.inputs()) > 1 else n.emit("reshape", [at], {"shape": n.shape()})
    return rule


def _view(n: Node) -> bool:
    """Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout at inference: the elements in their order."""
    return not n.has_second_result() and n.emit("reshape", [n.input(0)], {"shape": n.shape()})


# dtypes between which the vector unit converts; whole numbers among themselves, and bool, are the host's
_CASTS = {("fp32", "int32"), ("int32", "fp32"), ("fp32", "int8"), ("int8", "fp32"), ("fp32", "uint8"), ("uint8", "fp32")}


def _cast(n: Node) -> bool:
    """Reals are one dtype here, so that a cast among them changes nothing."""
    pair = n.dtype_of(0), n.dtype()
    return _view(n) if pair == ("fp32", "fp32") else pair in _CASTS and n.emit("cast", [n.input(0)], dtype=pair[1])


def _transpose(n: Node) -> bool:
    rank = len(n.shape_of(0))
    return n.emit("transpose", [n.input(0)], {"perm": tuple(n.integers("perm", tuple(range(rank))[::-1]))})


def _concat(n: Node) -> bool:
    return n.emit("concat", n.inputs(), {"axis": n.integer("axis", 1) % len(n.shape())})


def _slice(n: Node) -> bool:
    """Parts of axes at constant places, forwards; before version 10 the places are attributes."""
    given = [n.integers(name, n.constant_integers(at)) for at, name in enumerate(("starts", "ends", "axes", "steps"), 1)]
    if not given[0] or any(n.has(at) and not n.is_constant(at) for at in range(1, 5)):
        return False
    shape, whole = n.shape_of(0), [0] * len(n.shape_of(0))
    axes = given[2] or tuple(range(len(given[0])))
    starts, steps = list(whole), [1] * len(shape)
    for axis, start, by in zip(axes, given[0], given[3] or (1,) * len(axes)):
        starts[axis] = min(max(start + shape[axis] if start < 0 else start, 0), shape[axis])
        steps[axis] = by
    attributes: dict[str, Attribute] = {"starts": tuple(starts), "sizes": n.shape(), "steps": tuple(steps)}
    return min(steps) > 0 and min(n.shape()) > 0 and n.emit("slice", [n.input(0)], attributes)


def _split(n: Node) -> bool:
    """Parts of an axis one after the other; what nobody reads is not made."""
    if n.has(1) and not n.is_constant(1) or not all(n.proto.output) or any(0 in n.shape(at) for at in range(n.results())):
        return False
    rank, start = len(n.shape_of(0)), 0
    axis = n.integer("axis", 0) % rank
    for at in range(n.results()):
        sizes = n.shape(at)
        starts = tuple(start if i == axis else 0 for i in range(rank))
        n.emit("slice", [n.input(0)], {"starts": starts, "sizes": sizes, "steps": (1,) * rank}, at=at)
        start += sizes[axis]
    return True


def _resize(n: Node) -> bool:
    """Every pixel so many times: the nearest one in whole ratios, by any rule that puts the copies side by side."""
    rank, shape, out = len(n.shape_of(0)), n.shape_of(0), n.shape()
    if n.text("mode", "nearest") != "nearest" or rank != 4 or shape[:2] != out[:2] or any(b % a for a, b in zip(shape, out)):
        return False
    scale = (out[2] // shape[2], out[3] // shape[3])
    old = n.proto.op_type == "Upsample" or n.opset < 11
    rule = "asymmetric" if old else n.text("coordinate_transformation_mode", "half_pixel")
    rounding = "floor" if old else n.text("nearest_mode", "round_prefer_floor")
    centred = rule in ("half_pixel", "pytorch_half_pixel") and rounding.startswith("round")
    same = centred or rule == "asymmetric" and (rounding == "floor" or rounding == "round_prefer_floor" and max(scale) <= 2)
    return same and n.emit("upsample", [n.input(0)], {"scale": scale})


def _clip(n: Node) -> bool:
    lo, hi = n.scalar(1, n.real("min", -np.inf)), n.scalar(2, n.real("max", np.inf))
    return lo is not None and hi is not None and n.emit("clip", [n.input(0)], {"lo": lo, "hi": hi})


def _pow(n: Node) -> bool:
    exponent = n.scalar(1, None)
    if exponent in (2, 3):
        x = n.input(0)
        return n.emit("mul", [x if exponent == 2 else n.step("mul", [x, x]), x])
    words = {0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
    return exponent in words and n.emit(words[exponent], [n.input(0)])


def _softmax(word: str) -> Rule:
    """Before version 13 all dimensions from `axis` on are one row."""
    def rule(n: Node) -> bool:
        shape, old = n.shape(), n.opset < 13
        axis = n.integer("axis", 1 if old else -1) % len(shape)
        if not old or prod(shape[axis + 1:]) == 1:
            return n.emit(word, [n.input(0)], {"axis": axis})
        rows = n.step("reshape", [n.input(0)], {"shape": (prod(shape[:axis]), prod(shape[axis:]))})
        return n.emit("reshape", [n.step(word, [rows], {"axis": 1})], {"shape": shape})
    return rule


def _row_norm(word: str) -> Rule:
    """All dimensions from `axis` on are one row, with a scale, and perhaps a bias, for each element."""
    def rule(n: Node) -> bool:
        if n.has_second_result():
            return False
        shape = n.shape()
        axis = n.integer("axis", -1) % len(shape)
        width = prod(shape[axis:])
        factors = [_row_factor(n, at, shape[axis:]) for at in range(1, len(n.inputs()))]
        rows = n.input(0) if axis == len(shape) - 1 else n.step("reshape", [n.input(0)], {"shape": (*shape[:axis], width)})
        given = {"epsilon": n.real("epsilon", 1e-5)}
        if None in factors:
            return False
        if rows == n.input(0):
            return n.emit(word, [rows, *factors], given)  # type: ignore[list-item]
        return n.emit("reshape", [n.step(word, [rows, *factors], given)], {"shape": shape})  # type: ignore[list-item]
    return rule


def _row_factor(n: Node, at: int, row: tuple[int, ...]) -> str | None:
    """An argument as one number for each element of a row; None where it is broadcast from some."""
    shape = n.shape_of(at)
    if shape == row[-1:] == row:
        return n.input(at)
    kept = tuple(d for i, d in enumerate(shape) if d != 1 or i >= len(shape) - len(row))
    return n.step("reshape", [n.input(at)], {"shape": (prod(row),)}) if kept == row else None


# ---------------------------------------------------------------- matrices

def _gemm(n: Node) -> bool:
    a = n.step("transpose", [n.input(0)], {"perm": (1, 0)}) if n.integer("transA", 0) else n.input(0)
    turned = bool(n.integer("transB", 0))
    given = {"trans_b": 1} if turned and not n.is_constant(1) else {}  # a constant is turned once, here
    b = n.step("transpose", [n.input(1)], {"perm": (1, 0)}) if turned and not given else n.input(1)
    alpha, beta = n.real("alpha", 1.0), n.real("beta", 1.0)
    if not n.has(2):
        y = n.step("matmul", [a, b], given)
        return n.emit("muls", [y], {"scalar": alpha})
    c = n.step("muls", [n.input(2)], {"scalar": beta})
    y = n.step("muls", [n.step("matmul", [a, b], given)], {"scalar": alpha})
    return n.emit("add", [y, c])


def _matmul(n: Node) -> bool:
    """Rows of any leading dimensions by a matrix, or matrices of equal leading dimensions."""
    a, b = n.shape_of(0), n.shape_of(1)
    if len(a) < 2 or len(b) < 2 or (len(b) > 2 and a[:-2] != b[:-2]):
        return False
    return n.emit("matmul", [n.input(0), n.input(1)])


# ---------------------------------------------------------------- windows

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


def _reduce(word: str) -> Rule:
    """Over stated axes, or all; the mean over both dimensions of an image is pooling, which takes channels in blocks."""
    def rule(n: Node) -> bool:
        rank = len(n.shape_of(0))
        if n.has(1) and not n.is_constant(1) or rank == 0:
            return False
        given = n.integers("axes", n.constant_integers(1) if n.has(1) else ())
        if not given and n.integer("noop_with_empty_axes", 0):
            return False
        axes = tuple(sorted(a % rank for a in given)) or tuple(range(rank))
        if word == "reduce_mean" and (rank, axes) == (4, (2, 3)):
            return n.emit("reshape", [n.step("global_avg_pool", [n.input(0)])], {"shape": n.shape()})
        return n.emit("reshape", [n.step(word, [n.input(0)], {"axes": axes})], {"shape": n.shape()})
    return rule


def _batch_norm(n: Node) -> bool:
    if n.integer("training_mode", 0) or n.has_second_result() or not all(n.is_constant(i) for i in range(1, 5)):
        return False
    return n.emit("batch_norm", n.inputs(), {"epsilon": n.real("epsilon", 1e-5)})


def _lrn(n: Node) -> bool:
    attributes: dict[str, Attribute] = {"size": n.integer("size", 1), "alpha": n.real("alpha", 1e-4), "beta": n.real("beta", 0.75),
                                        "bias": n.real("bias", 1.0)}
    return len(n.shape_of(0)) == 4 and n.emit("lrn", [n.input(0)], attributes)


def _hard_swish(n: Node) -> bool:
    return n.emit("mul", [n.input(0), n.step("hard_sigmoid", [n.input(0)], {"alpha": 1 / 6, "beta": 0.5})])


def _gelu(n: Node) -> bool:
    words = {"none": "gelu", "tanh": "gelu_tanh"}
    form = n.text("approximate", "none")
    return form in words and n.emit(words[form], [n.input(0)])


def _swish(n: Node) -> bool:
    """x * sigmoid(alpha * x)."""
    alpha = n.real("alpha", 1.0)
    if alpha == 1.0:
        return n.emit("silu", [n.input(0)])
    return n.emit("mul", [n.input(0), n.step("sigmoid", [n.step("muls", [n.input(0)], {"scalar": alpha})])])


def _mean(n: Node) -> bool:
    total = n.input(0)
    for other in n.inputs()[1:]:
        total = n.step("add", [total, other])
    return n.emit("muls", [total], {"scalar": 1.0 / len(n.inputs())})


RULES: dict[str, Rule] = {
    "Abs": _unary("abs"), "Add": _chain("add"), "AveragePool": _avg_pool, "BatchNormalization": _batch_norm, "Cast": _cast, "Clip": _clip,
    "Concat": _concat, "Conv": _conv, "Div": _chain("div"), "Dropout": _view, "Erf": _unary("erf"), "Exp": _unary("exp"), "Flatten": _view,
    "Gelu": _gelu, "Gemm": _gemm, "GlobalAveragePool": _global_avg, "GlobalMaxPool": _global_max,
    "HardSigmoid": _alpha("hard_sigmoid", alpha=0.2, beta=0.5), "HardSwish": _hard_swish, "Identity": _view, "LRN": _lrn,
    "LayerNormalization": _row_norm("layer_norm"), "LeakyRelu": _alpha("leaky_relu", alpha=0.01), "Log": _unary("log"),
    "LogSoftmax": _softmax("log_softmax"), "MatMul": _matmul, "Max": _chain("maximum"), "MaxPool": _max_pool,
    "Mean": _mean, "Min": _chain("minimum"), "Mish": _unary("mish"), "Mul": _chain("mul"), "Neg": _unary("muls", scalar=-1.0), "Pow": _pow,
    "Reciprocal": _unary("reciprocal"), "ReduceMax": _reduce("reduce_max"), "ReduceMean": _reduce("reduce_mean"),
    "RMSNormalization": _row_norm("rms_norm"), "ReduceMin": _reduce("reduce_min"),
    "ReduceSum": _reduce("reduce_sum"), "Relu": _unary("relu"), "Reshape": _view, "Resize": _resize,
    "Selu": _alpha("selu", alpha=1.6732632423543772, gamma=1.0507009873554805),
    "Sigmoid": _unary("sigmoid"), "Slice": _slice, "Split": _split, "Softplus": _unary("softplus"), "Softsign": _unary("softsign"),
    "Softmax": _softmax("softmax"), "Sqrt": _unary("sqrt"), "Squeeze": _view, "Sub": _chain("sub"), "Sum": _chain("add"), "Swish": _swish,
    "Tanh": _unary("tanh"),
    "Transpose": _transpose, "Unsqueeze": _view, "Upsample": _resize,
}
