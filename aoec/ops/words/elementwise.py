"""Elementwise operators. `adds` and `muls` take a scalar, as the vector unit's instructions of that name do; `cast` gives its operand in
the dtype of its result, integers cut off."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from aoec.ops.declare import Attributes, Onnx, Op, Shape, elementwise, names, tensor
from aoec.ops.samples import POSITIVE, REAL, Domain
from aoec.ops.sizes import rows

# why 16 bits are not enough: PyTorch's operators that autocast to float32 (pytorch.org/docs/stable/amp.html), as far as our words go
GROWS = "it grows past what fp16 holds for small arguments"
STEEP = "small changes of its argument change it without bound"
SMALL = "it divides by what can be too small for fp16"
ANGLE = "an error of its argument is its own, however large that is"
ROOT = "a sum of squares can leave the range of fp16 where its root does not"
BETWEEN = Domain(lo=-1.0, hi=1.0)


def _sigmoid(a: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-a)) without overflow."""
    e = np.exp(-np.abs(a))
    return np.where(a >= 0, 1 / (1 + e), e / (1 + e)).astype(a.dtype)


def _clip(a: np.ndarray, lo: float, hi: float) -> np.ndarray:
    return np.clip(a, a.dtype.type(lo), a.dtype.type(hi))


def _gelu(a: np.ndarray) -> np.ndarray:
    """Compute in double by the normal distribution, since 1 + erf loses the tail. Return 0 for -inf, as for all numbers far below 0."""
    from scipy.special import ndtr  # here, since little needs it and it takes a while to load
    share = ndtr(a.astype(np.float64))
    return np.where(share == 0, -0.0, a * share).astype(a.dtype)


def _gelu_tanh(a: np.ndarray) -> np.ndarray:
    return (0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a ** 3)))).astype(a.dtype)


def _swiglu_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text of silu of the first half of each row times the second half."""
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
    """Return the power in the dtype of the base. Powers of whole numbers wrap. All others are computed in double and cast, which
    truncates."""
    if a.dtype.kind in "iu" and b.dtype.kind in "iu":
        return np.power(a, b.astype(a.dtype))
    return np.power(a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


def _over_root(a: np.ndarray, b: np.ndarray, share: float, epsilon: float) -> np.ndarray:
    return a / np.sqrt(b * b.dtype.type(share) + b.dtype.type(epsilon))


def _prelu(a: np.ndarray, slope: np.ndarray) -> np.ndarray:
    return np.where(a < 0, a * slope, a)


def _function(name: str, reference: Callable[..., np.ndarray], sensitive: str = "", of: Domain = REAL, whole: bool = False) -> Op:
    """Return the operator of a function that ONNX and CANN have under its name."""
    onnx = Onnx(name.capitalize(), whole=whole)
    return elementwise(name, f"{name}($A)", reference, cann=(name.capitalize(),), onnx=onnx, sensitive=sensitive, of=of)


OPS = (
    elementwise("cast", "$A", lambda a: a, sized=False, cann=("Cast",)),
    elementwise("add", "$A + $B", np.add, flags=("relu",), cann=("Add",), onnx=Onnx("Add", whole=True)),
    elementwise("sub", "$A - $B", np.subtract, cann=("Sub",), onnx=Onnx("Sub", whole=True)),
    elementwise("mul", "$A * $B", np.multiply, cann=("Mul",), onnx=Onnx("Mul", whole=True)),
    elementwise("div", "$A / $B", np.divide, cann=("RealDiv",), onnx=Onnx("Div"), of=(REAL, POSITIVE)),
    elementwise("maximum", "max($A, $B)", np.maximum, cann=("Maximum",), onnx=Onnx("Max", whole=True)),
    elementwise("minimum", "min($A, $B)", np.minimum, cann=("Minimum",), onnx=Onnx("Min", whole=True)),
    elementwise("adds", "$A + scalar", lambda a, scalar: a + a.dtype.type(scalar), "scalar", cann=("Adds",)),
    elementwise("muls", "$A * scalar", lambda a, scalar: a * a.dtype.type(scalar), "scalar", cann=("Muls",)),
    elementwise("axpy", "$A + $B * alpha", lambda a, b, alpha: a + b * b.dtype.type(alpha), "alpha", cann=("Axpy",)),
    # what a norm does with the sum of squares of a row
    elementwise("over_root", "$A * rsqrt($B * share + epsilon)", _over_root, "share, epsilon", sensitive=SMALL, of=(REAL, POSITIVE)),
    elementwise("relu", "max($A, 0.0)", lambda a: np.maximum(a, 0), cann=("Relu",), onnx=Onnx("Relu", whole=True)),
    elementwise("leaky_relu", "max($A, 0.0) + min($A, 0.0) * alpha", _leaky_relu, "alpha", cann=("LeakyRelu",),
                onnx=Onnx("LeakyRelu", {"alpha": 0.01})),
    elementwise("clip", "min(max($A, lo), hi)", _clip, "lo, hi", cann=("ClipByValue",)),
    _function("abs", np.abs),
    _function("exp", np.exp, GROWS),
    _function("log", np.log, STEEP, POSITIVE),
    _function("sqrt", np.sqrt, ROOT, POSITIVE),
    elementwise("rsqrt", "rsqrt($A)", lambda a: 1 / np.sqrt(a), cann=("Rsqrt",), sensitive=SMALL, of=POSITIVE),
    _function("reciprocal", np.reciprocal, SMALL, POSITIVE),
    _function("tanh", np.tanh),
    _function("erf", _erf_array),
    elementwise("gelu", "$A * 0.5 * (1.0 + erf($A * 0.7071067811865476))", _gelu, cann=("GeluV2", "Gelu"),
                onnx=Onnx("Gelu", fixed={"approximate": ("none", "none")}, since=20)),
    # the form with tanh, whose 0.5 * (1 + tanh(u)) is sigmoid(2 * u): 1.5957691216057308 is 2 * sqrt(2 / pi)
    elementwise("gelu_tanh", "$A * sigmoid(($A + $A * $A * $A * 0.044715) * 1.5957691216057308)", _gelu_tanh, cann=("Gelu",),
                onnx=Onnx("Gelu", fixed={"approximate": ("tanh", "none")}, since=20)),
    elementwise("mish", "$A * tanh(max($A, 0.0) + log(exp(abs($A) * -1.0) + 1.0))", lambda a: a * np.tanh(_softplus(a)), cann=("Mish",),
                onnx=Onnx("Mish", since=18)),
    elementwise("silu", "$A * sigmoid($A)", lambda a: a * _sigmoid(a), cann=("Swish",)),
    Op("swiglu", _swiglu_text, _swiglu, "elementwise", rows(wide=2), cann=("SwiGlu",)),  # n is of the result
    _function("sigmoid", _sigmoid),
    # without overflow: exp takes nothing above zero
    elementwise("softplus", "max($A, 0.0) + log(exp(abs($A) * -1.0) + 1.0)", _softplus, cann=("Softplus",), onnx=Onnx("Softplus"),
                sensitive="the logarithm of an exponential"),
    elementwise("softsign", "$A / (abs($A) + 1.0)", lambda a: a / (1 + np.abs(a)), cann=("Softsign",), onnx=Onnx("Softsign")),
    elementwise("selu", "(max($A, 0.0) + (exp(min($A, 0.0)) - 1.0) * alpha) * gamma", _selu, "alpha, gamma", cann=("Selu",),
                onnx=Onnx("Selu", {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805})),
    elementwise("elu", "max($A, 0.0) + (exp(min($A, 0.0)) - 1.0) * alpha", _elu, "alpha", cann=("Elu",), onnx=Onnx("Elu", {"alpha": 1.0})),
    elementwise("celu", "max($A, 0.0) + min((exp(min($A, 0.0) / alpha) - 1.0) * alpha, 0.0)", _celu, "alpha", cann=("CeluV2",),
                onnx=Onnx("Celu", {"alpha": 1.0})),
    elementwise("prelu", "select($A < 0.0, $A * $B, $A)", _prelu, cann=("PRelu",), onnx=Onnx("PRelu", whole=True, broadcasts=False)),
    elementwise("mod", "$A % $B", np.mod, cann=("FloorMod",), of=POSITIVE),
    elementwise("fmod", "fmod($A, $B)", np.fmod, onnx=Onnx("Mod", fixed={"fmod": (1, 0)}), of=POSITIVE),
    elementwise("power", "pow($A, $B)", _power, cann=("Pow",), onnx=Onnx("Pow", types=("own",)), sensitive=GROWS,
                of=(POSITIVE, Domain(lo=-4.0, hi=4.0))),
    _function("sign", np.sign, whole=True),
    _function("floor", np.floor),
    _function("ceil", np.ceil),
    _function("round", np.rint),
    _function("sin", np.sin, ANGLE),
    _function("cos", np.cos, ANGLE),
    _function("tan", np.tan, STEEP),
    _function("asin", np.arcsin, STEEP, BETWEEN),
    _function("acos", np.arccos, STEEP, BETWEEN),
    _function("atan", np.arctan),
    _function("sinh", np.sinh, GROWS),
    _function("cosh", np.cosh, GROWS),
    _function("asinh", np.arcsinh),
    _function("acosh", np.arccosh, of=Domain(lo=1.0)),
    _function("atanh", np.arctanh, STEEP, BETWEEN),
    elementwise("hard_sigmoid", "min(max($A * alpha + beta, 0.0), 1.0)", _hard_sigmoid, "alpha, beta", cann=("HardSigmoid",),
                onnx=Onnx("HardSigmoid", {"alpha": 0.2, "beta": 0.5})),
)
