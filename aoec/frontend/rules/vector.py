"""Elementwise operators, of every dtype that the vector unit is given: reals, whole numbers, truths."""
from __future__ import annotations

from functools import reduce

import numpy as np

from aoec.frontend.rules.rule import Rule, chain, parametric, unary, view
from aoec.frontend.translate.node import Node
from aoec.ops.run import REALS

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
KNOWN = ("fp32", *WHOLE, "bool")


def _all_known(n: Node) -> bool:
    return all(n.draft.tensors[i].dtype in KNOWN for i in n.inputs()) and n.dtype() in KNOWN


def _any(rule: Rule) -> Rule:
    """The rule where all dtypes are ones that the unit is given."""
    return lambda n: _all_known(n) and rule(n)


def _by_dtype(real: Rule, whole: Rule) -> Rule:
    """One rule for reals, another for whole numbers."""
    return lambda n: (real if n.dtype_of(0) in REALS else whole)(n)


# ---------------------------------------------------------------- arithmetic

def _pair(op: str) -> Rule:
    return lambda n: n.emit(op, [n.input(0), n.input(1)])


def _clip(n: Node) -> bool:
    """Bounds that are constants are attributes of reals; others are tensors, and whole numbers have bounds of their dtype."""
    if n.dtype_of(0) == "fp32":
        lo, hi = n.scalar(1, n.number("min", -np.inf)), n.scalar(2, n.number("max", np.inf))
        if lo is not None and hi is not None:
            return n.emit("clip", [n.input(0)], {"lo": lo, "hi": hi})
    words = [("maximum", 1), ("minimum", 2)]
    given = [(word, n.input(at)) for word, at in words if n.has(at)]
    x = n.input(0)
    for word, bound in given[:-1]:
        x = n.step(word, [x, bound])
    return n.emit(given[-1][0], [x, given[-1][1]]) if given else view(n)


def _pow(n: Node) -> bool:
    exponent = n.scalar(1, None)
    if n.dtype_of(0) not in REALS or exponent not in (2, 3, 0.5, -1.0, -0.5):
        return n.emit("power", [n.input(0), n.input(1)])
    if exponent in (2, 3):
        x = n.input(0)
        return n.emit("mul", [x if exponent == 2 else n.step("mul", [x, x]), x])
    words = {0.5: "sqrt", -1.0: "reciprocal", -0.5: "rsqrt"}
    return n.emit(words[float(exponent)], [n.input(0)])


def _mod(n: Node) -> bool:
    """With the sign of the divisor, or as C has it, of the dividend."""
    c = "fmod" if n.dtype() in REALS else "whole_rem"
    return n.emit(c if n.integer("fmod", 0) else "mod", [n.input(0), n.input(1)])


def _mean(n: Node) -> bool:
    """Each part is divided before it is added: the sum may be beyond 16 bits where the mean is not."""
    *others, last = (n.step("muls", [i], {"scalar": 1.0 / len(n.inputs())}) for i in n.inputs())
    return n.emit("add", [reduce(lambda a, b: n.step("add", [a, b]), others), last]) if others else view(n)


def _absolute(n: Node) -> bool:
    return view(n) if n.dtype().startswith("u") else n.emit("abs", [n.input(0)])


def _shift(n: Node) -> bool:
    words = {"LEFT": "shift_left", "RIGHT": "shift_right"}
    direction = n.text("direction", "")
    return direction in words and n.emit(words[direction], [n.input(0), n.input(1)])


# ---------------------------------------------------------------- truths

def _is_inf(n: Node) -> bool:
    signs = bool(n.integer("detect_negative", 1)), bool(n.integer("detect_positive", 1))
    words = {(True, True): "is_inf", (False, True): "is_positive_inf", (True, False): "is_negative_inf"}
    return signs in words and n.emit(words[signs], [n.input(0)])


def _shrink(n: Node) -> bool:
    return n.emit("shrink", [n.input(0)], {"lambd": n.number("lambd", 0.5), "bias": n.number("bias", 0.0)})


# ---------------------------------------------------------------- activations

def _hard_swish(n: Node) -> bool:
    return n.emit("mul", [n.input(0), n.step("hard_sigmoid", [n.input(0)], {"alpha": 1 / 6, "beta": 0.5})])


def _gelu(n: Node) -> bool:
    words = {"none": "gelu", "tanh": "gelu_tanh"}
    form = n.text("approximate", "none")
    return form in words and n.emit(words[form], [n.input(0)])


def _swish(n: Node) -> bool:
    """x * sigmoid(alpha * x)."""
    alpha = n.number("alpha", 1.0)
    if alpha == 1.0:
        return n.emit("silu", [n.input(0)])
    return n.emit("mul", [n.input(0), n.step("sigmoid", [n.step("muls", [n.input(0)], {"scalar": alpha})])])


_EVERY: dict[str, Rule] = {  # of every dtype
    "Abs": _absolute, "Add": chain("add"), "And": _pair("both"), "BitShift": _shift, "BitwiseAnd": _pair("bit_and"),
    "BitwiseNot": unary("bit_not"), "BitwiseOr": _pair("bit_or"), "BitwiseXor": _pair("bit_xor"), "Clip": _clip,
    "Div": _by_dtype(chain("div"), chain("whole_div")), "Equal": _pair("equal"), "Greater": _pair("greater"),
    "GreaterOrEqual": _pair("greater_equal"), "IsInf": _is_inf, "IsNaN": unary("is_nan"), "Less": _pair("less"),
    "LessOrEqual": _pair("less_equal"), "Max": chain("maximum"), "Min": chain("minimum"), "Mod": _mod, "Mul": chain("mul"),
    "Neg": unary("muls", scalar=-1.0), "Not": unary("invert"), "Or": _pair("either"), "PRelu": _pair("prelu"), "Pow": _pow,
    "Relu": unary("relu"), "Shrink": _shrink, "Sign": unary("sign"), "Sub": chain("sub"), "Sum": chain("add"),
    "Where": lambda n: n.emit("where", n.inputs()), "Xor": _pair("unlike")}
_PLAIN = ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Mish", "Reciprocal",
          "Round", "Sigmoid", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")  # of reals, by our word of the same name
ANY_DTYPE = {*_EVERY}
RULES: dict[str, Rule] = {op: _any(rule) for op, rule in _EVERY.items()} | {word: unary(word.lower()) for word in _PLAIN} | {
    "Celu": parametric("celu", alpha=1.0), "Elu": parametric("elu", alpha=1.0), "Gelu": _gelu,
    "HardSigmoid": parametric("hard_sigmoid", alpha=0.2, beta=0.5), "HardSwish": _hard_swish,
    "LeakyRelu": parametric("leaky_relu", alpha=0.01), "Mean": _mean,
    "Selu": parametric("selu", alpha=1.6732632423543772, gamma=1.0507009873554805), "Swish": _swish,
    "ThresholdedRelu": parametric("thresholded_relu", alpha=1.0)}
