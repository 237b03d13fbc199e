"""Comparisons, truths and choices by element. A truth is 1 or 0; a tensor of them has the dtype bool."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aoec.ops.declare import Onnx, Op, elementwise
from aoec.ops.samples import REAL, TRUTH


def _shrink(a: np.ndarray, lambd: float, bias: float) -> np.ndarray:
    lambd, bias = a.dtype.type(lambd), a.dtype.type(bias)
    return np.where(a < -lambd, a + bias, np.where(a > lambd, a - bias, a.dtype.type(0)))


def _thresholded_relu(a: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(a > a.dtype.type(alpha), a, a.dtype.type(0))


def _comparison(name: str, expression: str, reference: Callable[..., np.ndarray], cann: str, onnx: str) -> Op:
    """Return the operator that compares two arguments, brought to one type."""
    return elementwise(name, expression, reference, dtype="bool", cann=(cann,), onnx=Onnx(onnx, types=("common",), whole=True))


def _infinite(name: str, expression: str, reference: Callable[..., np.ndarray], below: int, above: int, cann: tuple[str, ...] = ()) -> Op:
    """Return the operator that finds infinities, those below and those above zero."""
    fixed: dict[str, tuple[int | str, int | str]] = {"detect_negative": (below, 1), "detect_positive": (above, 1)}
    return elementwise(name, expression, reference, dtype="bool", cann=cann, onnx=Onnx("IsInf", fixed=fixed, types=("own",), whole=True))


OPS = (
    _comparison("equal", "$A == $B", np.equal, "Equal", "Equal"),
    _comparison("less", "$A < $B", np.less, "Less", "Less"),
    _comparison("less_equal", "$A <= $B", np.less_equal, "LessEqual", "LessOrEqual"),
    _comparison("greater", "$A > $B", np.greater, "Greater", "Greater"),
    _comparison("greater_equal", "$A >= $B", np.greater_equal, "GreaterEqual", "GreaterOrEqual"),
    elementwise("both", "$A and $B", np.logical_and, sized=False, dtype="bool", onnx=Onnx("And", whole=True), of=TRUTH),
    elementwise("either", "$A or $B", np.logical_or, sized=False, dtype="bool", onnx=Onnx("Or", whole=True), of=TRUTH),
    elementwise("unlike", "$A != $B", np.not_equal, sized=False, dtype="bool", of=TRUTH),
    elementwise("invert", "not($A)", np.logical_not, sized=False, dtype="bool", onnx=Onnx("Not", whole=True), of=TRUTH),
    elementwise("where", "select($A, $B, $C)", np.where, sized=False, cann=("Select",),
                onnx=Onnx("Where", types=("bool", "result"), whole=True), of=(TRUTH, REAL)),
    elementwise("is_nan", "$A != $A", np.isnan, dtype="bool", cann=("IsNan",), onnx=Onnx("IsNaN", types=("own",), whole=True)),
    _infinite("is_inf", "abs($A) == inf", np.isinf, 1, 1, ("IsInf",)),
    _infinite("is_positive_inf", "$A == inf", np.isposinf, 0, 1),
    _infinite("is_negative_inf", "$A == -inf", np.isneginf, 1, 0),
    elementwise("thresholded_relu", "select($A > alpha, $A, 0.0)", _thresholded_relu, "alpha",
                onnx=Onnx("ThresholdedRelu", {"alpha": 1.0})),
    elementwise("shrink", "select($A * -1.0 > lambd, $A + bias, select($A > lambd, $A - bias, 0.0))", _shrink, "lambd, bias",
                onnx=Onnx("Shrink", {"lambd": 0.5, "bias": 0.0}, whole=True)),
)
