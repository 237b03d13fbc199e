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
    elementwise("equal", "$A == $B", np.equal),
    elementwise("less", "$A < $B", np.less),
    elementwise("less_equal", "$A <= $B", np.less_equal),
    elementwise("greater", "$A > $B", np.greater),
    elementwise("greater_equal", "$A >= $B", np.greater_equal),
    elementwise("both", "$A and $B", np.logical_and),
    elementwise("either", "$A or $B", np.logical_or),
    elementwise("unlike", "$A != $B", np.not_equal),
    elementwise("invert", "not($A)", np.logical_not),
    elementwise("where", "select($A, $B, $C)", np.where),
    elementwise("is_nan", "$A != $A", np.isnan),
    elementwise("is_inf", "abs($A) == inf", np.isinf),
    elementwise("is_positive_inf", "$A == inf", np.isposinf),
    elementwise("is_negative_inf", "$A == -inf", np.isneginf),
    elementwise("thresholded_relu", "select($A > alpha, $A, 0.0)", _thresholded_relu, "alpha"),
    elementwise("shrink", "select($A * -1.0 > lambd, $A + bias, select($A > lambd, $A - bias, 0.0))", _shrink, "lambd, bias"),
)
