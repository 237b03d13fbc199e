"""Says what operators of Ascend IR mean in ONNX. There is one rule for each operator that tuning of single operators is asked for.

Names, attributes and their defaults are those of the "operator list" of CANN's guides. A `D` at a name's end says that axes and shapes are
attributes. Only the first output is made. Operators of training, and those that only a framework makes, are not here.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from aoec.base.errors import CheckError
from aoec.ops import OPS

Shape = Sequence[int]
DTYPES = {0: 1, 1: 10, 2: 3, 3: 6, 4: 2, 6: 5, 7: 4, 8: 12, 9: 7, 10: 13, 11: 11, 12: 9, 27: 16}  # of GE (dst_type) -> of ONNX
IMAGES = frozenset(("Conv2D", "MaxPool", "MaxPoolV3", "AvgPool", "AvgPoolV2"))  # whose dimensions have a meaning


class Growing:
    """A graph while it grows: inputs x0, x1, ... with shapes (None: absent) and formats, the operator's attributes, nodes, constants."""

    def __init__(self, shapes: Sequence[Shape | None], formats: Sequence[str], attributes: dict[str, Any], label: str) -> None:
        self.shapes, self.formats, self.attributes, self.label = shapes, formats, attributes, label
        self.inputs = [f"x{i}" for i in range(len(shapes))]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def x(self, i: int) -> str:
        """Return the name of an input that must be there."""
        if not self.has(i):
            raise CheckError(f"operator {self.label} has no input {i}")
        return self.inputs[i]

    def has(self, i: int) -> bool:
        return i < len(self.shapes) and self.shapes[i] is not None

    def shape(self, i: int) -> Shape:
        self.x(i)
        return self.shapes[i] or ()

    @property
    def given_inputs(self) -> list[str]:
        return [name for name, shape in zip(self.inputs, self.shapes) if shape is not None]

    def node(self, op: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{self.label}_{len(self.nodes)}" if self.nodes else self.label,
                                           **attributes))
        return name

    def constant(self, value: Any) -> str:
        """Whole numbers, as axes and shapes are."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, np.int64), name))
        return name

    def scalar(self, value: float, like: str) -> str:
        """Return a real of another tensor's type."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, np.float32), name))
        return self.node("CastLike", name, like)

    def get(self, name: str, default: Any) -> Any:
        """Return an attribute of its default's type. Raise CheckError for any other. A list has as many numbers as its default, unless that
        is empty."""
        value = self.attributes.get(name, default)
        if value is None:
            raise CheckError(f"operator {self.label} needs the attribute {name}")
        many, real = isinstance(default, (tuple, list)), isinstance(default, float)
        good = isinstance(value, (list, tuple)) and all(type(v) is int for v in value) and len(default) in (0, len(value)) if many \
            else type(value) in (int, float) if real else type(value) is type(default)
        if not good:
            raise CheckError(f"operator {self.label}: attribute {name} cannot be {str(value)[:40]!r}")
        return value

    def numbers(self, name: str) -> list[int]:
        """Return an attribute that must be there: a list of whole numbers."""
        if name not in self.attributes:
            raise CheckError(f"operator {self.label} needs the attribute {name}")
        return list(self.get(name, ()))


Rule = Callable[[Growing], str]


def same(op: str) -> Rule:
    """Return ONNX's operator of the same inputs, without attributes."""
    return lambda g: g.node(op, *g.given_inputs)


def alpha(op: str, name: str, default: float) -> Rule:
    """Return ONNX's operator with `alpha`."""
    return lambda g: g.node(op, g.x(0), alpha=float(g.get(name, default)))


def with_scalar(op: str) -> Rule:
    """Return an operation with the attribute `value`."""
    return lambda g: g.node(op, g.x(0), g.scalar(g.get("value", 1.0), g.x(0)))


def reduction(op: str) -> Rule:
    """Return the rule of a reduction over the attribute `axes`."""
    def rule(g: Growing) -> str:
        return g.node(op, g.x(0), g.constant(g.numbers("axes")), keepdims=int(g.get("keep_dims", False)))
    return rule


def softmax(op: str) -> Rule:
    def rule(g: Growing) -> str:
        axes = g.get("axes", ()) or (-1,)
        if len(axes) != 1:
            raise CheckError(f"operator {g.label}: axes is one axis here, not {list(axes)}")
        return g.node(op, g.x(0), axis=axes[0])
    return rule


def matmul(left: str, right: str) -> Rule:
    """Return the rule of a product. Its attributes say which operand is transposed, and its third input is a bias."""
    def rule(g: Growing) -> str:
        y = g.node("MatMul", *(transpose(g, i) if g.get(name, False) else g.x(i) for i, name in enumerate((left, right))))
        return g.node("Add", y, g.x(2)) if g.has(2) else y
    return rule


def transpose(g: Growing, i: int) -> str:
    """Return an input with its last two dimensions exchanged."""
    axes = list(range(len(g.shape(i))))
    return g.node("Transpose", g.x(i), perm=[*axes[:-2], *axes[:-3:-1]])


def gemm(g: Growing) -> str:
    """alpha * a b + beta * c, alpha and beta inputs."""
    y = g.node("MatMul", *(transpose(g, i) if g.get(name, False) else g.x(i) for i, name in enumerate(("transpose_a", "transpose_b"))))
    return g.node("Add", g.node("Mul", y, g.x(3)), g.node("Mul", g.x(2), g.x(4)))


def plane(g: Growing, name: str, default: Shape = ()) -> list[int]:
    """Return the two numbers for height and width of an attribute of four, which are in the order of the image's format."""
    four = list(g.get(name, default)) if default else g.numbers(name)
    if len(four) != 4:
        raise CheckError(f"operator {g.label}: attribute {name} has {len(four)} numbers, not 4")
    return four[1:3] if g.formats[0] == "NHWC" else four[2:]


def pads(g: Growing, name: str = "pads") -> list[int]:
    """Return top, bottom, left and right pads in ONNX's order."""
    top, bottom, left, right = g.get(name, (0, 0, 0, 0))
    return [top, left, bottom, right]


def conv(g: Growing) -> str:
    if len(g.shape(1)) != 4:
        raise CheckError(f"operator {g.label}: the filter has {len(g.shape(1))} dimensions, not 4")
    return g.node("Conv", *(g.x(i) for i in range(3 if g.has(2) else 2)), strides=plane(g, "strides"), pads=pads(g),
                  dilations=plane(g, "dilations", (1, 1, 1, 1)), group=g.get("groups", 1), kernel_shape=list(g.shape(1))[2:])


def pool(op: str, mode: str) -> Rule:
    """Return the rule of a pooling. Its attribute says how it is padded: SAME, VALID or CALCULATED."""
    def rule(g: Growing) -> str:
        if g.get("global_pooling", False):
            return g.node(f"Global{op}", g.x(0))
        padded = g.get(mode, "CALCULATED" if mode == "padding_mode" else "VALID")
        ways: dict[str, dict[str, Any]] = {"SAME": {"auto_pad": "SAME_UPPER"}, "VALID": {"auto_pad": "VALID"},
                                           "CALCULATED": {"pads": pads(g)}}
        if padded not in ways:
            raise CheckError(f"operator {g.label}: {mode} is SAME, VALID or CALCULATED")
        how = ways[padded] | ({"count_include_pad": int(not g.get("exclusive", True))} if op == "AveragePool" else {})
        return g.node(op, g.x(0), kernel_shape=plane(g, "ksize"), strides=plane(g, "strides"),
                      ceil_mode=int(g.get("ceil_mode", False)), **how)
    return rule


def bias_add(g: Growing) -> str:
    """Add a bias by channel, which is the second dimension in NCHW, and the last in other formats."""
    bias = g.x(1)
    if g.formats[0].startswith("NC"):
        bias = g.node("Reshape", bias, g.constant([-1] + [1] * (len(g.shape(0)) - 2)))
    return g.node("Add", g.x(0), bias)


def layer_norm(g: Growing) -> str:
    return g.node("LayerNormalization", g.x(0), g.x(1), g.x(2), axis=g.get("begin_norm_axis", 0), epsilon=float(g.get("epsilon", 1e-7)))


def cast(g: Growing) -> str:
    to = g.get("dst_type", 0) if "dst_type" in g.attributes else None
    if to not in DTYPES:
        raise CheckError(f"operator {g.label}: dst_type is a number of GE's data types, {', '.join(map(str, DTYPES))}")
    return g.node("Cast", g.x(0), to=DTYPES[to])


def inverse_root(g: Growing) -> str:
    return g.node("Reciprocal", g.node("Sqrt", g.x(0)))


def squared_difference(g: Growing) -> str:
    d = g.node("Sub", g.x(0), g.x(1))
    return g.node("Mul", d, d)


def swish(g: Growing) -> str:
    scaled = g.node("Mul", g.x(0), g.scalar(g.get("scale", 1.0), g.x(0)))
    return g.node("Mul", g.x(0), g.node("Sigmoid", scaled))


def same_in_both() -> dict[str, str]:
    """Return CANN's types -> ONNX operators of the same inputs, without attributes, by the words that name both."""
    pairs = ((op.cann, op.onnx) for op in OPS.values() if op.elements and op.onnx)
    return {type_: onnx.name for types, onnx in pairs if not onnx.attributes and not onnx.fixed for type_ in types}


SAME = {**same_in_both(), "AddN": "Sum", "Div": "Div", "Neg": "Neg", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalNot": "Not"}
RULES: dict[str, Rule] = {
    **{name: same(op) for name, op in SAME.items()},
    "Elu": alpha("Elu", "alpha", 1.0), "LeakyRelu": alpha("LeakyRelu", "negative_slope", 0.0), "PRelu": same("PRelu"),
    "Gelu": lambda g: g.node("Gelu", g.x(0), approximate="tanh"), "Swish": swish, "Rsqrt": inverse_root,
    "Square": lambda g: g.node("Mul", g.x(0), g.x(0)), "SquaredDifference": squared_difference,
    "Log1p": lambda g: g.node("Log", g.node("Add", g.x(0), g.scalar(1.0, g.x(0)))),
    "Muls": with_scalar("Mul"), "Adds": with_scalar("Add"),
    "ClipByValue": lambda g: g.node("Min", g.node("Max", g.x(0), g.x(1)), g.x(2)), "BiasAdd": bias_add, "Cast": cast,
    "SoftmaxV2": softmax("Softmax"), "LogSoftmaxV2": softmax("LogSoftmax"), "LayerNorm": layer_norm,
    **{f"Reduce{name}D": reduction(f"Reduce{name}") for name in ("Sum", "Mean", "Max", "Min", "Prod")},
    **{name: matmul("transpose_x1", "transpose_x2") for name in ("MatMul", "MatMulV2", "MatMulV3")},
    **{name: matmul("adj_x1", "adj_x2") for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")}, "GEMM": gemm,
    "Conv2D": conv, "MaxPool": pool("MaxPool", "padding"), "AvgPool": pool("AveragePool", "padding"),
    "MaxPoolV3": pool("MaxPool", "padding_mode"), "AvgPoolV2": pool("AveragePool", "padding_mode"),
    "TransposeD": lambda g: g.node("Transpose", g.x(0), perm=g.numbers("perm")),
    "ConcatD": lambda g: g.node("Concat", *g.given_inputs, axis=g.get("concat_dim", 0)),
    "TileD": lambda g: g.node("Tile", g.x(0), g.constant(g.numbers("multiples"))),
    "ExpandD": lambda g: g.node("Expand", g.x(0), g.constant(g.numbers("shape"))),
}
