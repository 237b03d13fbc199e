"""Models of one elementwise operator each that is not of reals alone, or that the vector unit has no instruction for."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .models import model, node, normal

X = (1, 6, 9, 8)
F = np.float32
ONES, ROWS = np.arange(1, 9, dtype=np.int32), np.arange(-26, 28, dtype=np.int32).reshape(6, 9, 1)
POSITIVE = node("Greater", "x zero", "p")  # truths that rounding to fp16 does not change


def after(before: str, op: str, **attributes: object) -> onnx.ModelProto:
    """An operator behind another, which brings its argument into its domain."""
    return model([node(before, "x", "t"), node(op, "t", "y", **attributes)], {"x": X}, ["y"], opset=22)


def plain(op: str, opset: int = 22, **attributes: object) -> onnx.ModelProto:
    return model([node(op, "x", "y", **attributes)], {"x": X}, ["y"], opset=opset)


def compared(op: str) -> onnx.ModelProto:
    """A comparison of two images, whose truths choose between them: what is equal but for rounding is chosen alike."""
    return model([node(op, "x x2", "m"), node("Where", "m x x2", "y")], {"x": X, "x2": X}, ["y"], opset=22)


def joined(op: str) -> onnx.ModelProto:
    """Truths of two images joined."""
    nodes = [POSITIVE, node("Less", "x2 zero", "q"), node(op, "p q", "y")]
    return model(nodes, {"x": X, "x2": X}, ["y"], {"zero": F(0)}, 22, {"y": TensorProto.BOOL})


def whole(op: str, **attributes: object) -> onnx.ModelProto:
    """An operator of whole numbers, which are of both signs and broadcast both ways."""
    nodes = [POSITIVE, node("Where", "p rows minus", "j"), node(op, "j c", "y", **attributes)]
    return model(nodes, {"x": X}, ["y"], {"zero": F(0), "rows": ROWS, "minus": ROWS[::-1].copy(), "c": ONES}, 22, {"y": TensorProto.INT32})


def shifted(dtype: int, direction: str) -> onnx.ModelProto:
    """Rows of numbers without a sign, shifted by a bit where the image is positive."""
    rows = np.abs(ROWS).astype(onnx.helper.tensor_dtype_to_np_dtype(dtype))
    nodes = [POSITIVE, node("Cast", "p", "i", to=dtype), node("BitShift", "rows i", "y", direction=direction)]
    return model(nodes, {"x": X}, ["y"], {"zero": F(0), "rows": rows}, 22, {"y": dtype})


CASES = {
    **{op: plain(op) for op in ("Atan", "Asinh", "Ceil", "Cos", "Cosh", "Floor", "Round", "Sin", "Sinh", "Sign", "Elu", "Celu")},
    **{op: after("Softsign", op) for op in ("Acos", "Asin", "Atanh")}, "Tan": after("Sigmoid", "Tan"),
    **{op: compared(op) for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{op: joined(op) for op in ("And", "Or", "Xor")},
    **{op: whole(op) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod")}, "Mod as in C": whole("Mod", fmod=1),
    "Add of whole numbers": whole("Add"), "Mul of whole numbers": whole("Mul"), "Div of whole numbers": whole("Div"),
    "Max of whole numbers": whole("Max"), "Sub of whole numbers": whole("Sub"),
    "BitShift": shifted(TensorProto.UINT32, "RIGHT"), "BitShift to the left": shifted(TensorProto.UINT64, "LEFT"),
    "BitwiseNot": model([POSITIVE, node("Where", "p a b", "j"), node("BitwiseNot", "j", "y")], {"x": X}, ["y"],
                        {"zero": F(0), "a": ONES, "b": -ONES}, 22, {"y": TensorProto.INT32}),
    "CastLike": model([POSITIVE, node("CastLike", "p ones", "y")], {"x": X}, ["y"], {"zero": F(0), "ones": ONES}, 22,
                      {"y": TensorProto.INT32}),
    "Cast to truths": model([node("Relu", "x", "r"), node("Cast", "r", "y", to=TensorProto.BOOL)], {"x": X}, ["y"], None, 22,
                            {"y": TensorProto.BOOL}),
    "IsInf": model([POSITIVE, node("Where", "p x inf", "t"), node("IsInf", "t", "y")], {"x": X}, ["y"],
                   {"zero": F(0), "inf": F(-np.inf)}, 22, {"y": TensorProto.BOOL}),
    "IsNaN": model([node("Sqrt", "x", "t"), node("IsNaN", "t", "y")], {"x": X}, ["y"], None, 22, {"y": TensorProto.BOOL}),
    "Acosh": model([node("Abs", "x", "a"), node("Add", "a two", "t"), node("Acosh", "t", "y")], {"x": X}, ["y"], {"two": F(2)}, 22),
    "Mod of reals": model([node("Mod", "x c", "y", fmod=1)], {"x": X}, ["y"], {"c": F(8)}, 22),
    "Not": model([POSITIVE, node("Not", "p", "y")], {"x": X}, ["y"], {"zero": F(0)}, 22, {"y": TensorProto.BOOL}),
    "PRelu": model([node("PRelu", "x slope", "y")], {"x": X}, ["y"], {"slope": normal(6, 1, 1)}, 22),
    "Pow of any": model([node("Abs", "x", "a"), node("Pow", "a x2", "y")], {"x": X, "x2": X}, ["y"], None, 22),
    "Shrink": plain("Shrink", lambd=0.0001, bias=0.5),
    "ThresholdedRelu": plain("ThresholdedRelu", alpha=0.001),
    "Where": model([POSITIVE, node("Where", "p x c", "y")], {"x": X}, ["y"], {"zero": F(0), "c": normal(9, 1)}, 22),
}
