"""Elementwise operators. `adds` and `muls` take a scalar, as the vector unit's instructions of that name do; `cast` gives its operand in
the dtype of its result, integers cut off."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.ops.declare import Attributes, Op, Shape, elementwise, names, tensor
from aoec.ops.sizes import rows


def _sigmoid(a: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-a)) without overflow."""
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + e), e / (1 + e)).astype(a.dtype)


def _clip(a: np.ndarray, lo: float, hi: float) -> np.ndarray:
    return np.clip(a, a.dtype.type(lo), a.dtype.type(hi))


def _gelu(a: np.ndarray) -> np.ndarray:
    """In double by the normal distribution, as 1 + erf has nothing left of a tail; 0 of the lowest infinity, as of all far below 0."""
    from scipy.special import ndtr  # here, since little needs it and it takes a while to load
    share = ndtr(a.astype(np.float64))
    return np.where(share == 0, -0.0, a * share).astype(a.dtype)


def _gelu_tanh(a: np.ndarray) -> np.ndarray:
    return (0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a ** 3)))).astype(a.dtype)


def _swiglu_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """silu of the first half of each row times the second half."""
    loops, half = names("i", len(shapes[0])), shapes[0][-1] // 2
    x, y = tensor("X", [*loops[:-1], "c"]), tensor("Y", [*loops[:-1], f"{loops[-1]}: {half}"])
    a, b = tensor("X", loops), tensor("X", [*loops[:-1], f"{loops[-1]} + {half}"])
    return f"swiglu({x}) -> {y} {{\n  {tensor('Y', loops)} = {a} * sigmoid({a}) * {b}\n}}"


def _swiglu(x: np.ndarray) -> np.ndarray:
    a, b = np.split(x[..., :x.shape[-1] // 2 * 2], 2, axis=-1)
    return a * _sigmoid(a) * b


def _erf_array(a: np.ndarray) -> np.ndarray:
    from scipy.special import erf  # here, since little needs it and it takes a while to load
    return erf(a.astype(np.float64)).astype(a.dtype)


def _leaky_relu(a: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(a < 0, a * a.dtype.type(alpha), a)


def _softplus(a: np.ndarray) -> np.ndarray:
    return np.logaddexp(a, a.dtype.type(0))


def _selu(a: np.ndarray, alpha: float, gamma: float) -> np.ndarray:
    return (gamma * np.where(a > 0, a, alpha * np.expm1(np.minimum(a, 0)))).astype(a.dtype)


def _hard_sigmoid(a: np.ndarray, alpha: float, beta: float) -> np.ndarray:
    return np.clip(a * a.dtype.type(alpha) + a.dtype.type(beta), 0, 1)


def _elu(a: np.ndarray, alpha: float) -> np.ndarray:
    return np.where(a > 0, a, a.dtype.type(alpha) * np.expm1(np.minimum(a, 0)))


def _celu(a: np.ndarray, alpha: float) -> np.ndarray:
    return (np.maximum(a, 0) + np.minimum(0, a.dtype.type(alpha) * np.expm1(np.minimum(a, 0) / a.dtype.type(alpha)))).astype(a.dtype)


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """In the dtype of the base: whole ones wrap, or what double gives is cut off."""
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return np.power(a, b.astype(a.dtype))
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def _prelu(a: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(a < 0, a * slope, a)


OPS = (
    elementwise("cast", "$A", lambda a: a, sized=False),
    elementwise("add", "$A + $B", np.add, flags=("relu",)),
    elementwise("sub", "$A - $B", np.subtract),
    elementwise("mul", "$A * $B", np.multiply),
    elementwise("div", "$A / $B", np.divide),
    elementwise("maximum", "max($A, $B)", np.maximum),
    elementwise("minimum", "min($A, $B)", np.minimum),
    elementwise("adds", "$A + scalar", lambda a, scalar: a + a.dtype.type(scalar), "scalar"),
    elementwise("muls", "$A * scalar", lambda a, scalar: a * a.dtype.type(scalar), "scalar"),
    elementwise("relu", "max($A, 0.0)", lambda a: np.maximum(a, 0)),
    elementwise("leaky_relu", "max($A, 0.0) + min($A, 0.0) * alpha", _leaky_relu, "alpha"),
    elementwise("clip", "min(max($A, lo), hi)", _clip, "lo, hi"),
    elementwise("abs", "abs($A)", np.abs),
    elementwise("exp", "exp($A)", np.exp),
    elementwise("log", "log($A)", np.log),
    elementwise("sqrt", "sqrt($A)", np.sqrt),
    elementwise("rsqrt", "rsqrt($A)", lambda a: 1 / np.sqrt(a)),
    elementwise("reciprocal", "reciprocal($A)", np.reciprocal),
    elementwise("tanh", "tanh($A)", np.tanh),
    elementwise("erf", "erf($A)", _erf_array),
    elementwise("gelu", "$A * 0.5 * (1.0 + erf($A * 0.7071067811865476))", _gelu),
    # the form with tanh, whose 0.5 * (1 + tanh(u)) is sigmoid(2 * u): 1.5957691216057308 is 2 * sqrt(2 / pi)
    elementwise("gelu_tanh", "$A * sigmoid(($A + $A * $A * $A * 0.044715) * 1.5957691216057308)", _gelu_tanh),
    elementwise("mish", "$A * tanh(max($A, 0.0) + log(exp(abs($A) * -1.0) + 1.0))", lambda a: a * np.tanh(_softplus(a))),
    elementwise("silu", "$A * sigmoid($A)", lambda a: a * _sigmoid(a)),
    Op("swiglu", _swiglu_text, _swiglu, "elementwise", rows(wide=2)),  # n is of the result
    elementwise("sigmoid", "sigmoid($A)", _sigmoid),
    # without overflow: exp takes nothing above zero
    elementwise("softplus", "max($A, 0.0) + log(exp(abs($A) * -1.0) + 1.0)", _softplus),
    elementwise("softsign", "$A / (abs($A) + 1.0)", lambda a: a / (1 + np.abs(a))),
    elementwise("selu", "(max($A, 0.0) + (exp(min($A, 0.0)) - 1.0) * alpha) * gamma", _selu, "alpha, gamma"),
    elementwise("elu", "max($A, 0.0) + (exp(min($A, 0.0)) - 1.0) * alpha", _elu, "alpha"),
    elementwise("celu", "max($A, 0.0) + min((exp(min($A, 0.0) / alpha) - 1.0) * alpha, 0.0)", _celu, "alpha"),
    elementwise("prelu", "select($A < 0.0, $A * $B, $A)", _prelu),
    elementwise("mod", "$A % $B", np.mod),
    elementwise("fmod", "fmod($A, $B)", np.fmod),
    elementwise("power", "pow($A, $B)", _power),
    elementwise("sign", "sign($A)", np.sign),
    elementwise("floor", "floor($A)", np.floor),
    elementwise("ceil", "ceil($A)", np.ceil),
    elementwise("round", "round($A)", np.rint),
    *[elementwise(name, f"{name}($A)", f) for name, f in (
        ("sin", np.sin), ("cos", np.cos), ("tan", np.tan), ("asin", np.arcsin), ("acos", np.arccos), ("atan", np.arctan), ("sinh", np.sinh),
        ("cosh", np.cosh), ("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh))],
    elementwise("hard_sigmoid", "min(max($A * alpha + beta, 0.0), 1.0)", _hard_sigmoid, "alpha, beta"),
)
