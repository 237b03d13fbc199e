"""Writes each word of the dictionary in ONNX: by its declaration, by a rule here, or by its meaning. Reals are float there."""
from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from onnx import TensorProto

from aoec import ops
from aoec.frontend.export.elements import write_elements
from aoec.frontend.export.steps import OPSET, Step
from aoec.ir.graph.graph import Attribute
from aoec.ops import OPS
from aoec.ops.declare import Onnx
from aoec.ops.words.layout import unpack_conv
from aoec.ops.words.movement import spelt_out

Rule = Callable[[Step], str]
BOOL, FLOAT = TensorProto.BOOL, TensorProto.FLOAT
BEFORE_ALL = -(1 << 63) + 1  # the end of a slice that goes backwards to the first element


def write(s: Step) -> str:
    """Return the value that a node's result is: by the rule for its word, by the node of ONNX that its declaration names, or by its
    meaning, where that is elementwise. Raise UnsupportedError where ONNX has no operators that say it here."""
    op = s.node.op
    if op in RULES:
        return RULES[op](s)
    if not s.node.definition and op not in OPS:
        raise s.refuse("this word has no operators of ONNX here")
    onnx = ops.word(s.node).onnx
    return _node(s, onnx) if onnx and _fits(s, onnx) else write_elements(s)


def _fits(s: Step, onnx: Onnx) -> bool:
    """Return whether the operator set that is written has the node, for arguments of these shapes."""
    return onnx.since <= OPSET and (onnx.broadcasts or s.input(0).shape == s.out.shape)


def _node(s: Step, onnx: Onnx) -> str:
    """Return the node of ONNX that a declaration names."""
    own = {name: _like(default, s.attribute(name, default)) for name, default in onnx.attributes.items()}
    fixed = {name: value for name, (value, default) in onnx.fixed.items() if value != default}
    return s.put(onnx.name, _in_types(s, onnx), **own, **fixed)


def _like(default: Attribute, value: Attribute) -> Attribute:
    """Return an attribute in the type of its default: a real may be said as a whole number."""
    return float(value) if isinstance(default, float) else value  # type: ignore[arg-type]


def _in_types(s: Step, onnx: Onnx) -> list[str]:
    """Return the values of the arguments in the types that ONNX wants them in."""
    types = [s.writer.type(i) for i in s.node.inputs if i]
    wanted = {"result": s.writer.type(s.out.name), "common": FLOAT if FLOAT in types else types[0], "bool": BOOL}
    given = [i for i in s.inputs() if i]
    return [s.as_type(value, was, wanted.get(onnx.types[min(at, len(onnx.types) - 1)], was))
            for at, (value, was) in enumerate(zip(given, types, strict=True))]


def _clip(s: Step) -> str:
    x = s.as_type(s.inputs()[0], s.writer.type(s.node.inputs[0]), s.writer.type(s.out.name))
    return s.put("Clip", [x, s.scalar(s.number("lo")), s.scalar(s.number("hi"))])


def _mish(s: Step) -> str:
    x, = s.inputs()
    return s.put("Mul", [x, s.put("Tanh", [s.put("Softplus", [x])])])


def _swiglu(s: Step) -> str:
    x, half, axis = s.inputs()[0], s.input(0).shape[-1] // 2, len(s.out.shape) - 1
    a, b = (s.put("Slice", [x, *(s.constant([v], np.int64) for v in (at, at + half, axis))]) for at in (0, half))
    return s.put("Mul", [s.put("Mul", [a, s.put("Sigmoid", [a])]), b])


# ---------------------------------------------------------------- movement

def _reshape(s: Step) -> str:
    return s.put("Reshape", [s.inputs()[0], s.constant(s.out.shape, np.int64)])


def _slice(s: Step) -> str:
    starts, sizes, steps = (s.numbers(name) for name in ("starts", "sizes", "steps"))
    ends = [end if (end := at + n * by) >= 0 else BEFORE_ALL for at, n, by in zip(starts, sizes, steps)]
    return s.put("Slice", [s.inputs()[0], *(s.constant(v, np.int64) for v in (starts, ends, range(len(starts)), steps))])


def _expand(s: Step) -> str:
    return s.put("Expand", [s.inputs()[0], s.constant(s.out.shape, np.int64)])


def _pad(s: Step) -> str:
    ends = s.constant([*s.numbers("before"), *s.numbers("after")], np.int64)
    return s.put("Pad", [s.inputs()[0], ends, s.scalar(s.number("value"))])


def _upsample(s: Step) -> str:
    return s.put("Resize", [s.inputs()[0], "", s.constant([1, 1, *s.numbers("scale")])], mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")


def _depth_to_space(s: Step) -> str:
    down, across = s.numbers("scale")
    apart, perm, shape = spelt_out(s.input(0).shape, (down, across))
    phases = s.put("Reshape", [s.inputs()[0], s.constant(apart, np.int64)])
    return s.put("Reshape", [s.put("Transpose", [phases], perm=list(perm)), s.constant(shape, np.int64)])


# ---------------------------------------------------------------- rows, windows

def _reduce_sum(s: Step) -> str:
    return s.put("ReduceSum", [s.inputs()[0], s.constant(s.numbers("axes"), np.int64)])


def _layer_norm(s: Step) -> str:
    x, *given = s.inputs()
    return s.put("LayerNormalization", [x, *(given or [s.constant(np.ones(s.out.shape[-1]))])], epsilon=s.number("epsilon"))


def _inverse_deviation(s: Step) -> str:
    mean = s.put("ReduceMean", [s.inputs()[0]], axes=[-1])
    far = s.put("Sub", [s.inputs()[0], mean])
    variance = s.put("ReduceMean", [s.put("Mul", [far, far])], axes=[-1])
    return s.put("Reciprocal", [s.put("Sqrt", [s.put("Add", [variance, s.scalar(s.number("epsilon"))])])])


def _rms_norm(s: Step) -> str:
    x, *scale = s.inputs()
    mean = s.put("ReduceMean", [s.put("Mul", [x, x])], axes=[-1])
    y = s.put("Div", [x, s.put("Sqrt", [s.put("Add", [mean, s.scalar(s.number("epsilon"))])])])
    return s.put("Mul", [y, *scale]) if scale else y


def _window(s: Step) -> dict[str, object]:
    """Return the attributes of a window, but for its kernel."""
    return {"strides": s.numbers("stride"), "pads": s.numbers("pad"), "dilations": list(s.node.attribute("dilation", (1, 1)))}  # type: ignore[arg-type]


def _max_pool(s: Step) -> str:
    return s.put("MaxPool", s.inputs(), kernel_shape=s.numbers("kernel"), **_window(s))


def _avg_pool(s: Step) -> str:
    """Return the means over whole windows, with padding counted. Where padding is not counted, multiply them by the kernel's area times the
    constant of reciprocal counts."""
    kernel, given = s.numbers("kernel"), _window(s)
    if given.pop("dilations") != [1, 1]:
        raise s.refuse(f"AveragePool of operator set {17} knows no dilations")
    y = s.put("AveragePool", [s.inputs()[0]], kernel_shape=kernel, count_include_pad=1, **given)
    return s.put("Mul", [y, s.constant(s.writer.elements(s.node.inputs[1])[:, :1] * prod(kernel))]) if s.has(1) else y


# ---------------------------------------------------------------- products

def _sums(s: Step) -> None:
    """Raise UnsupportedError for a product of whole numbers."""
    if {s.writer.type(i) for i in s.node.inputs[:2]} != {FLOAT}:
        raise s.refuse("it is a product of whole numbers")


def _transpose_operand(s: Step, at: int, how: str, value: str) -> str:
    """Return an operand of a product with its last two axes swapped, where an attribute says so."""
    if not s.node.attribute(how):
        return value
    axes = [*range(len(s.input(at).shape))]
    return s.put("Transpose", [value], perm=[*axes[:-2], axes[-1], axes[-2]])


def _matmul(s: Step) -> str:
    _sums(s)
    a, b, *_ = s.inputs()
    y = s.put("MatMul", [_transpose_operand(s, 0, "trans_a", a), _transpose_operand(s, 1, "trans_b", b)])
    return s.put("Add", [y, _bias(s, s.out.shape[-1])]) if s.has(2) else y


def _interpolate(s: Step) -> str:
    _sums(s)
    x, w = s.inputs()
    last = s.node.attribute("axis") == len(s.out.shape) - 1
    return s.put("MatMul", [x, s.put("Transpose", [w], perm=[1, 0])] if last else [w, x])


def _bias(s: Step, columns: int) -> str:
    """Return the bias of a product without what it has beyond the result's columns or channels."""
    return _first(s, s.inputs()[2], 0, s.input(2).shape[0], columns)


def _first(s: Step, value: str, axis: int, size: int, wanted: int) -> str:
    """Return the first elements of a value along an axis."""
    return value if size == wanted else s.put("Slice", [value, *(s.constant([v], np.int64) for v in (0, wanted, axis))])


def _conv2d(s: Step) -> str:
    _sums(s)
    if s.node.attribute("pad_value"):
        raise s.refuse("what lies beyond its image is not 0")
    kernel, group = _kernel(s)
    bias = [_bias(s, s.out.shape[1])] if s.has(2) else []
    return s.put("Conv", [s.inputs()[0], kernel, *bias], group=group, **_window(s))


def _kernel(s: Step) -> tuple[str, int]:
    """Return (the weight [co, c, kh, kw] of a convolution, unpacked where it is packed; in how many groups)."""
    if s.node.op == "conv2d":
        return s.inputs()[1], int(s.attribute("group", 1))  # type: ignore[arg-type]
    if s.node.attribute("trans_b"):
        return _rows_as_kernel(s), int(s.number("blocks"))
    if not s.input(1).data:
        raise s.refuse("its weight is packed, and no constant")
    matrix = s.writer.elements(s.node.inputs[1])
    group = 1 if matrix.ndim == 2 else len(matrix)
    down, across = s.numbers("kernel")
    kernel = unpack_conv(matrix, s.input(0).shape[1] // group, (down, across), int(s.number("c0")))
    return s.constant(kernel[:s.out.shape[1]]), group  # there may be more columns than channels


def _rows_as_kernel(s: Step) -> str:
    """Return the weight [co, c, kh, kw] of rows W[co, k], k over blocks of channels, the kernel and the channels of a block; there may be
    more rows and channels than the convolution has."""
    channels, each, (rows, k) = s.out.shape[1], int(s.number("c0")), s.input(1).shape
    down, across = s.numbers("kernel")
    blocks = k // (down * across * each)
    apart = s.put("Reshape", [_first(s, s.inputs()[1], 0, rows, channels), s.constant((channels, blocks, down, across, each), np.int64)])
    turned = s.put("Transpose", [apart], perm=[0, 1, 4, 2, 3])
    kernel = s.put("Reshape", [turned, s.constant((channels, blocks * each, down, across), np.int64)])
    return _first(s, kernel, 1, blocks * each, s.input(0).shape[1] // int(s.number("blocks")))


def _attention(s: Step) -> str:
    q, k, v, *bias = s.inputs()
    axes = [*range(len(s.input(1).shape))]
    turned = s.put("Transpose", [k], perm=[*axes[:-2], axes[-1], axes[-2]])
    scores = s.put("Mul", [s.put("MatMul", [q, turned]), s.scalar(s.number("scale"))])
    scores = s.put("Add", [scores, *bias]) if bias else scores
    return s.put("MatMul", [s.put("Softmax", [scores], axis=-1), _transpose_operand(s, 2, "trans_v", v)])


# what more is said for than a name and attributes, and is not elementwise, or has nodes that are nearer to what is meant
RULES: dict[str, Rule] = {
    "clip": _clip, "mish": _mish, "swiglu": _swiglu, "reshape": _reshape, "slice": _slice, "expand": _expand, "pad": _pad,
    "upsample": _upsample, "depth_to_space": _depth_to_space, "reduce_sum": _reduce_sum, "layer_norm": _layer_norm, "rms_norm": _rms_norm,
    "inverse_deviation": _inverse_deviation,
    "max_pool": _max_pool, "avg_pool": _avg_pool, "matmul": _matmul, "interpolate": _interpolate, "conv2d": _conv2d,
    "conv2d_packed": _conv2d, "attention": _attention}
