"""Comparisons, truths and choices by element. A truth is 1 or 0; a tensor of them has the dtype bool."""
from __future__ import annotations

import numpy as np

from aoec.ops.declare import elementwise


def _shrink(a: np.ndarray, lambd: float, bias: float) -> np.ndarray:
    lambd, bias = a.dtype.type(lambd), a.dtype.type(bias)
    return np.where(a < -lambd, a + bias, np.where(a > lambd, a - bias, a.dtype.type(0)))


def _thresholded_relu(a: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(a > a.dtype.type(alpha), a, a.dtype.type(0))


OPS = (
    elementwise("equal", "$A == $B", np.equal, dtype="bool"),
    elementwise("less", "$A < $B", np.less, dtype="bool"),
    elementwise("less_equal", "$A <= $B", np.less_equal, dtype="bool"),
    elementwise("greater", "$A > $B", np.greater, dtype="bool"),
    elementwise("greater_equal", "$A >= $B", np.greater_equal, dtype="bool"),
    elementwise("both", "$A and $B", np.logical_and, sized=False),
    elementwise("either", "$A or $B", np.logical_or, sized=False),
    elementwise("unlike", "$A != $B", np.not_equal, sized=False),
    elementwise("invert", "not($A)", np.logical_not, sized=False),
    elementwise("where", "select($A, $B, $C)", np.where, sized=False),
    elementwise("is_nan", "$A != $A", np.isnan, dtype="bool"),
    elementwise("is_inf", "abs($A) == inf", np.isinf, dtype="bool"),
    elementwise("is_positive_inf", "$A == inf", np.isposinf, dtype="bool"),
    elementwise("is_negative_inf", "$A == -inf", np.isneginf, dtype="bool"),
    elementwise("thresholded_relu", "select($A > alpha, $A, 0.0)", _thresholded_relu, "alpha"),
    elementwise("shrink", "select($A * -1.0 > lambd, $A + bias, select($A > lambd, $A - bias, 0.0))", _shrink, "lambd, bias"),
)
