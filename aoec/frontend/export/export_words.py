"""What each word of the operator dictionary is in ONNX. Reals are float there; arguments that differ in type are brought to one."""
from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from onnx import TensorProto

from aoec.frontend.export.steps import Step
from aoec.ops.words.layout import unpack_conv
from aoec.ops.words.movement import spelt_out

Rule = Callable[[Step], str]
BOOL, FLOAT = TensorProto.BOOL, TensorProto.FLOAT
BEFORE_ALL = -(1 << 63) + 1  # the end of a slice that goes backwards to the first element
# words that ONNX has under another name, of arguments and a result of one type
ALIKE = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min", "relu": "Relu", "abs": "Abs", "exp": "Exp",
    "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "tanh": "Tanh", "erf": "Erf", "sigmoid": "Sigmoid", "softplus": "Softplus",
    "softsign": "Softsign", "prelu": "PRelu", "sign": "Sign", "floor": "Floor", "ceil": "Ceil", "round": "Round",
    "whole_div": "Div", "both": "And", "either": "Or", "invert": "Not", "global_avg_pool": "GlobalAveragePool",
    **{name: name.capitalize() for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh")}}
# words -> (ONNX's, our attributes that it has under the same names)
NUMBERED = {"leaky_relu": ("LeakyRelu", ("alpha",)), "elu": ("Elu", ("alpha",)), "celu": ("Celu", ("alpha",)),
            "selu": ("Selu", ("alpha", "gamma")), "hard_sigmoid": ("HardSigmoid", ("alpha", "beta")),
            "thresholded_relu": ("ThresholdedRelu", ("alpha",)), "shrink": ("Shrink", ("lambd", "bias")),
            "batch_norm": ("BatchNormalization", ("epsilon",)), "lrn": ("LRN", ("alpha", "beta", "bias"))}
# words -> ONNX's, of arguments of one type; truths come out
COMPARED = {"equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater", "greater_equal": "GreaterOrEqual"}
TESTED: dict[str, tuple[str, dict[str, object]]] = {
    "is_nan": ("IsNaN", {}), "is_inf": ("IsInf", {}), "is_positive_inf": ("IsInf", {"detect_negative": 0}),
    "is_negative_inf": ("IsInf", {"detect_positive": 0})}
ALONG = {"softmax": "Softmax", "log_softmax": "LogSoftmax", "gather": "Gather", "gather_elements": "GatherElements", "concat": "Concat"}
REDUCED = {"reduce_mean": "ReduceMean", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}
SAME = ("cast", "to_nc1hwc0", "from_nc1hwc0", "to_nz", "from_nz")  # they keep every element, in another type or place


def write(s: Step) -> str:
    """The value that a node's result is; UnsupportedError where ONNX has no operators that say it here."""
    rule = RULES.get(s.node.op)
    if rule is None:
        raise s.refuse("this word has no operators of ONNX here")
    return rule(s)


def _in_one_type(s: Step, to: int, first: int = 0) -> list[str]:
    """The values of the arguments from `first` on in one type."""
    given = s.inputs()
    return [s.as_type(given[at], s.writer.type(name), to) for at, name in enumerate(s.node.inputs) if at >= first and name]


def _alike(s: Step) -> str:
    return s.put(ALIKE[s.node.op], _in_one_type(s, s.writer.type(s.out.name)))


def _numbered(s: Step) -> str:
    op, attributes = NUMBERED[s.node.op]
    whole = {"size": int(s.real("size"))} if s.node.op == "lrn" else {}
    return s.put(op, s.inputs(), **whole, **{name: s.real(name) for name in attributes})


def _compared(s: Step) -> str:
    types = [s.writer.type(i) for i in s.node.inputs]
    return s.put(COMPARED[s.node.op], _in_one_type(s, FLOAT if FLOAT in types else types[0]))


def _unlike(s: Step) -> str:
    types = [s.writer.type(i) for i in s.node.inputs]
    return s.put("Not", [s.put("Equal", _in_one_type(s, FLOAT if FLOAT in types else types[0]))])


def _tested(s: Step) -> str:
    op, given = TESTED[s.node.op]
    return s.put(op, s.inputs(), **given)


def _where(s: Step) -> str:
    chosen = s.as_type(s.inputs()[0], s.writer.type(s.node.inputs[0]), BOOL)
    return s.put("Where", [chosen, *_in_one_type(s, s.writer.type(s.out.name), 1)])


def _same(s: Step) -> str:
    was, wanted = s.writer.type(s.node.inputs[0]), s.writer.type(s.out.name)
    return s.as_type(s.inputs()[0], was, wanted)


def _scaled(s: Step) -> str:
    """`adds`, `muls`: a number for every element."""
    op = "Add" if s.node.op == "adds" else "Mul"
    return s.put(op, [*_in_one_type(s, s.writer.type(s.out.name)), s.scalar(s.real("scalar"))])


def _clip(s: Step) -> str:
    return s.put("Clip", [*_in_one_type(s, s.writer.type(s.out.name)), s.scalar(s.real("lo")), s.scalar(s.real("hi"))])


# ---------------------------------------------------------------- elementwise words that ONNX has no name for

def _rsqrt(s: Step) -> str:
    return s.put("Reciprocal", [s.put("Sqrt", s.inputs())])


def _silu(s: Step) -> str:
    x, = s.inputs()
    return s.put("Mul", [x, s.put("Sigmoid", [x])])


def _mish(s: Step) -> str:
    x, = s.inputs()
    return s.put("Mul", [x, s.put("Tanh", [s.put("Softplus", [x])])])


def _gelu(s: Step) -> str:
    x, = s.inputs()
    part = s.put("Add", [s.put("Erf", [s.put("Mul", [x, s.scalar(0.5**0.5)])]), s.scalar(1.0)])
    return s.put("Mul", [s.put("Mul", [x, s.scalar(0.5)]), part])


def _gelu_tanh(s: Step) -> str:
    x, = s.inputs()
    cube = s.put("Mul", [s.put("Mul", [s.put("Mul", [x, x]), x]), s.scalar(0.044715)])
    inner = s.put("Mul", [s.put("Add", [x, cube]), s.scalar(2 * (2 / np.pi)**0.5)])
    return s.put("Mul", [x, s.put("Sigmoid", [inner])])


def _swiglu(s: Step) -> str:
    x, half, axis = s.inputs()[0], s.input(0).shape[-1] // 2, len(s.out.shape) - 1
    a, b = (s.put("Slice", [x, *(s.constant([v], np.int64) for v in (at, at + half, axis))]) for at in (0, half))
    return s.put("Mul", [s.put("Mul", [a, s.put("Sigmoid", [a])]), b])


def _mod(s: Step) -> str:
    """The remainder with the sign of the divisor; ONNX has that of whole numbers alone."""
    kind = s.writer.type(s.out.name)
    x, y = _in_one_type(s, kind)
    if kind != FLOAT:
        return s.put("Mod", [x, y])
    return s.put("Sub", [x, s.put("Mul", [s.put("Floor", [s.put("Div", [x, y])]), y])])


def _power(s: Step) -> str:
    """In the type of the base, whatever the exponent's."""
    return s.put("Pow", s.inputs())


def _shift(s: Step) -> str:
    return s.put("BitShift", _in_one_type(s, s.writer.type(s.out.name)), direction=s.node.op.removeprefix("shift_").upper())


def _fmod(s: Step) -> str:
    return s.put("Mod", _in_one_type(s, s.writer.type(s.out.name)), fmod=1)


# ---------------------------------------------------------------- movement

def _reshape(s: Step) -> str:
    return s.put("Reshape", [s.inputs()[0], s.constant(s.out.shape, np.int64)])


def _transpose(s: Step) -> str:
    return s.put("Transpose", s.inputs(), perm=s.numbers("perm"))


def _along(s: Step) -> str:
    return s.put(ALONG[s.node.op], s.inputs(), axis=int(s.real("axis")))


def _slice(s: Step) -> str:
    starts, sizes, steps = (s.numbers(name) for name in ("starts", "sizes", "steps"))
    ends = [end if (end := at + n * by) >= 0 else BEFORE_ALL for at, n, by in zip(starts, sizes, steps)]
    return s.put("Slice", [s.inputs()[0], *(s.constant(v, np.int64) for v in (starts, ends, range(len(starts)), steps))])


def _expand(s: Step) -> str:
    return s.put("Expand", [s.inputs()[0], s.constant(s.out.shape, np.int64)])


def _pad(s: Step) -> str:
    ends = s.constant([*s.numbers("before"), *s.numbers("after")], np.int64)
    return s.put("Pad", [s.inputs()[0], ends, s.scalar(s.real("value"))])


def _upsample(s: Step) -> str:
    return s.put("Resize", [s.inputs()[0], "", s.constant([1, 1, *s.numbers("scale")])], mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")


def _depth_to_space(s: Step) -> str:
    down, across = s.numbers("scale")
    apart, perm, shape = spelt_out(s.input(0).shape, (down, across))
    phases = s.put("Reshape", [s.inputs()[0], s.constant(apart, np.int64)])
    return s.put("Reshape", [s.put("Transpose", [phases], perm=list(perm)), s.constant(shape, np.int64)])


# ---------------------------------------------------------------- rows, windows

def _reduced(s: Step) -> str:
    axes = s.numbers("axes")
    if s.node.op == "reduce_sum":
        return s.put("ReduceSum", [s.inputs()[0], s.constant(axes, np.int64)])
    return s.put(REDUCED[s.node.op], s.inputs(), axes=axes)


def _layer_norm(s: Step) -> str:
    x, *given = s.inputs()
    return s.put("LayerNormalization", [x, *(given or [s.constant(np.ones(s.out.shape[-1]))])], epsilon=s.real("epsilon"))


def _rms_norm(s: Step) -> str:
    x, *scale = s.inputs()
    mean = s.put("ReduceMean", [s.put("Mul", [x, x])], axes=[-1])
    y = s.put("Div", [x, s.put("Sqrt", [s.put("Add", [mean, s.scalar(s.real("epsilon"))])])])
    return s.put("Mul", [y, *scale]) if scale else y


def _window(s: Step) -> dict[str, object]:
    """The attributes of a window, but for its kernel."""
    return {"strides": s.numbers("stride"), "pads": s.numbers("pad"), "dilations": list(s.node.attribute("dilation", (1, 1)))}  # type: ignore[arg-type]


def _max_pool(s: Step) -> str:
    return s.put("MaxPool", s.inputs(), kernel_shape=s.numbers("kernel"), **_window(s))


def _avg_pool(s: Step) -> str:
    """Means over whole windows, padding counted; where it is not, counts of its own make them sums, and divide these."""
    kernel, given = s.numbers("kernel"), _window(s)
    if given.pop("dilations") != [1, 1]:
        raise s.refuse(f"AveragePool of operator set {17} knows no dilations")
    y = s.put("AveragePool", [s.inputs()[0]], kernel_shape=kernel, count_include_pad=1, **given)
    return s.put("Mul", [y, s.constant(s.writer.held(s.node.inputs[1])[:, :1] * prod(kernel))]) if s.has(1) else y


# ---------------------------------------------------------------- products

def _sums(s: Step) -> None:
    """Nothing, or UnsupportedError for a product of whole numbers."""
    if {s.writer.type(i) for i in s.node.inputs[:2]} != {FLOAT}:
        raise s.refuse("it is a product of whole numbers")


def _turned(s: Step, at: int, how: str, value: str) -> str:
    """An operand of a product with its last two axes swapped, where an attribute says so."""
    if not s.node.attribute(how):
        return value
    axes = [*range(len(s.input(at).shape))]
    return s.put("Transpose", [value], perm=[*axes[:-2], axes[-1], axes[-2]])


def _matmul(s: Step) -> str:
    _sums(s)
    a, b, *_ = s.inputs()
    y = s.put("MatMul", [_turned(s, 0, "trans_a", a), _turned(s, 1, "trans_b", b)])
    return s.put("Add", [y, _bias(s, s.out.shape[-1])]) if s.has(2) else y


def _interpolate(s: Step) -> str:
    _sums(s)
    x, w = s.inputs()
    last = s.node.attribute("axis") == len(s.out.shape) - 1
    return s.put("MatMul", [x, s.put("Transpose", [w], perm=[1, 0])] if last else [w, x])


def _bias(s: Step, columns: int) -> str:
    """The bias of a product without what it has beyond the result's columns or channels."""
    return _first(s, s.inputs()[2], 0, s.input(2).shape[0], columns)


def _first(s: Step, value: str, axis: int, size: int, wanted: int) -> str:
    """The first elements of a value along an axis."""
    return value if size == wanted else s.put("Slice", [value, *(s.constant([v], np.int64) for v in (0, wanted, axis))])


def _conv2d(s: Step) -> str:
    _sums(s)
    if s.node.attribute("pad_value"):
        raise s.refuse("what lies beyond its image is not 0")
    kernel, group = _kernel(s)
    bias = [_bias(s, s.out.shape[1])] if s.has(2) else []
    return s.put("Conv", [s.inputs()[0], kernel, *bias], group=group, **_window(s))


def _kernel(s: Step) -> tuple[str, int]:
    """(the weight [co, c, kh, kw] of a convolution, unpacked where it is packed; in how many groups)."""
    if s.node.op == "conv2d":
        return s.inputs()[1], int(s.attribute("group", 1))  # type: ignore[arg-type]
    if s.node.attribute("trans_b"):
        return _rows_as_kernel(s), int(s.real("blocks"))
    if not s.input(1).data:
        raise s.refuse("its weight is packed, and no constant")
    matrix = s.writer.held(s.node.inputs[1])
    group = 1 if matrix.ndim == 2 else len(matrix)
    down, across = s.numbers("kernel")
    return s.constant(unpack_conv(matrix, s.input(0).shape[1] // group, (down, across), int(s.real("c0")))), group


def _rows_as_kernel(s: Step) -> str:
    """The weight [co, c, kh, kw] of rows W[co, k], k over blocks of channels, the kernel and the channels of a block; there may be more
    rows and channels than the convolution has."""
    channels, each, (rows, k) = s.out.shape[1], int(s.real("c0")), s.input(1).shape
    down, across = s.numbers("kernel")
    blocks = k // (down * across * each)
    apart = s.put("Reshape", [_first(s, s.inputs()[1], 0, rows, channels), s.constant((channels, blocks, down, across, each), np.int64)])
    turned = s.put("Transpose", [apart], perm=[0, 1, 4, 2, 3])
    kernel = s.put("Reshape", [turned, s.constant((channels, blocks * each, down, across), np.int64)])
    return _first(s, kernel, 1, blocks * each, s.input(0).shape[1] // int(s.real("blocks")))


def _attention(s: Step) -> str:
    q, k, v, *bias = s.inputs()
    axes = [*range(len(s.input(1).shape))]
    turned = s.put("Transpose", [k], perm=[*axes[:-2], axes[-1], axes[-2]])
    scores = s.put("Mul", [s.put("MatMul", [q, turned]), s.scalar(s.real("scale"))])
    scores = s.put("Add", [scores, *bias]) if bias else scores
    return s.put("MatMul", [s.put("Softmax", [scores], axis=-1), _turned(s, 2, "trans_v", v)])


RULES: dict[str, Rule] = {
    **dict.fromkeys(ALIKE, _alike), **dict.fromkeys(NUMBERED, _numbered), **dict.fromkeys(COMPARED, _compared), **dict.fromkeys(TESTED,
    _tested), **dict.fromkeys(ALONG, _along), **dict.fromkeys(REDUCED, _reduced), **dict.fromkeys(SAME, _same), "unlike": _unlike,
    "where": _where, "adds": _scaled, "muls": _scaled, "clip": _clip, "rsqrt": _rsqrt, "silu": _silu, "mish": _mish, "gelu": _gelu,
    "gelu_tanh": _gelu_tanh, "swiglu": _swiglu, "mod": _mod, "fmod": _fmod, "whole_rem": _fmod, "power": _power, "shift_left": _shift,
    "shift_right": _shift, "reshape": _reshape, "transpose": _transpose, "slice": _slice, "expand": _expand, "pad": _pad, "upsample":
    _upsample, "depth_to_space": _depth_to_space, "reduce_sum": _reduced, "layer_norm": _layer_norm, "rms_norm": _rms_norm, "max_pool":
    _max_pool, "avg_pool": _avg_pool, "matmul": _matmul, "interpolate": _interpolate, "conv2d": _conv2d, "conv2d_packed": _conv2d,
    "attention": _attention}
