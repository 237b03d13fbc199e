"""Elementwise operators that need more than a name and attributes (declared_words.py has the others), of every dtype that the vector unit
takes: reals, whole numbers, truths."""
from __future__ import annotations

from functools import reduce

import numpy as np

from aoec.frontend.rules.rule import Rule, all_known, chain, unary, view
from aoec.frontend.translate.node import Node
from aoec.ops.run import REALS


def _any(rule: Rule) -> Rule:
    """Return the rule where all dtypes are ones that the unit is given."""
    return lambda n: all_known(n) and rule(n)


def _by_dtype(real: Rule, whole: Rule) -> Rule:
    """Return a rule that applies `real` to reals and `whole` to whole numbers."""
    return lambda n: (real if n.dtype_of(0) in REALS else whole)(n)


# ---------------------------------------------------------------- arithmetic

def _pair(op: str) -> Rule:
    return lambda n: n.emit(op, [n.input(0), n.input(1)])


def _clip(n: Node) -> bool:
    """Translate Clip. For reals, constant bounds are attributes. All other bounds are tensors. Bounds of whole numbers have the dtype of
    these."""
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
    """Translate Mod. The remainder has the sign of the divisor, or, with `fmod` and as in C, that of the dividend."""
    c = "fmod" if n.dtype() in REALS else "whole_rem"
    return n.emit(c if n.integer("fmod", 0) else "mod", [n.input(0), n.input(1)])


def _mean(n: Node) -> bool:
    """Translate Mean. Each input is divided before it is added, since the sum may exceed 16 bits where the mean does not."""
    *others, last = (n.step("muls", [i], {"scalar": 1.0 / len(n.inputs())}) for i in n.inputs())
    return n.emit("add", [reduce(lambda a, b: n.step("add", [a, b]), others), last]) if others else view(n)


def _absolute(n: Node) -> bool:
    return view(n) if n.dtype().startswith("u") else n.emit("abs", [n.input(0)])


# ---------------------------------------------------------------- activations

def _hard_swish(n: Node) -> bool:
    return n.emit("mul", [n.input(0), n.step("hard_sigmoid", [n.input(0)], {"alpha": 1 / 6, "beta": 0.5})])


def _swish(n: Node) -> bool:
    """Translate Swish: x * sigmoid(alpha * x)."""
    alpha = n.number("alpha", 1.0)
    if alpha == 1.0:
        return n.emit("silu", [n.input(0)])
    return n.emit("mul", [n.input(0), n.step("sigmoid", [n.step("muls", [n.input(0)], {"scalar": alpha})])])


_EVERY: dict[str, Rule] = {  # of every dtype
    "Abs": _absolute, "Clip": _clip, "Div": _by_dtype(chain("div"), chain("whole_div")), "Mod": _mod, "Neg": unary("muls", scalar=-1.0),
    "Pow": _pow, "Sum": chain("add"), "Xor": _pair("unlike")}
ANY_DTYPE = {*_EVERY}
RULES: dict[str, Rule] = {op: _any(rule) for op, rule in _EVERY.items()} | {"HardSwish": _hard_swish, "Mean": _mean, "Swish": _swish}
