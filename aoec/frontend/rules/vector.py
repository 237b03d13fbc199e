"""Elementwise operators and casts."""
from __future__ import annotations

import numpy as np

from aoec.frontend.node import Node
from aoec.frontend.rules.rule import Rule, chain, parametric, unary, view

# dtypes between which the vector unit converts; whole numbers among themselves, and bool, are the host's
_CASTS = {("fp32", "int32"), ("int32", "fp32"), ("fp32", "int8"), ("int8", "fp32"), ("fp32", "uint8"), ("uint8", "fp32")}


def _cast(n: Node) -> bool:
    """Reals are one dtype here, so that a cast among them changes nothing."""
    pair = n.dtype_of(0), n.dtype()
    return view(n) if pair == ("fp32", "fp32") else pair in _CASTS and n.emit("cast", [n.input(0)])


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


ANY_DTYPE = {"Cast"}
RULES: dict[str, Rule] = {
    "Abs": unary("abs"), "Add": chain("add"), "Cast": _cast, "Clip": _clip, "Div": chain("div"), "Erf": unary("erf"), "Exp": unary("exp"),
    "Gelu": _gelu, "HardSigmoid": parametric("hard_sigmoid", alpha=0.2, beta=0.5), "HardSwish": _hard_swish,
    "LeakyRelu": parametric("leaky_relu", alpha=0.01), "Log": unary("log"), "Max": chain("maximum"), "Mean": _mean, "Min": chain("minimum"),
    "Mish": unary("mish"), "Mul": chain("mul"), "Neg": unary("muls", scalar=-1.0), "Pow": _pow, "Reciprocal": unary("reciprocal"),
    "Relu": unary("relu"), "Selu": parametric("selu", alpha=1.6732632423543772, gamma=1.0507009873554805), "Sigmoid": unary("sigmoid"),
    "Softplus": unary("softplus"), "Softsign": unary("softsign"), "Sqrt": unary("sqrt"), "Sub": chain("sub"), "Sum": chain("add"),
    "Swish": _swish, "Tanh": unary("tanh"),
}
