"""Random elementwise operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from single.case import FLOATS, WHOLE, Case, Maker, element

Family = Callable[[Maker], Case]
REAL = (
    "Abs",
    "Neg",
    "Relu",
    "Sign",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Mish",
    "Reciprocal",
    "Round",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "HardSwish",
    "IsNaN",
)
ALSO_WHOLE = ("Abs", "Neg", "Sign")
PARAMETRIC: dict[str, tuple[str, ...]] = {
    "Celu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Selu": ("alpha", "gamma"),
    "ThresholdedRelu": ("alpha",),
    "Shrink": ("lambd", "bias"),
}
PAIRS = ("Add", "Sub", "Mul", "Div")
COMPARISONS = ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
VARIADIC = ("Max", "Min", "Sum", "Mean")
TRUTHS = ("And", "Or", "Xor")


def unary(m: Maker) -> Case:
    op = m.one(REAL)
    if op in ALSO_WHOLE and m.yes(0.3):
        dtype = m.one([d for d in WHOLE if op != "Neg" or np.dtype(d).kind == "i"])
        return m.case(op, [m.whole(m.shape(), dtype)], [dtype], 18)
    dtype = m.one(FLOATS)
    return m.case(op, [m.reals(m.shape(), dtype)], [np.bool_ if op == "IsNaN" else dtype], 22 if op in ("Mish", "HardSwish") else 18)


def parametric(m: Maker) -> Case:
    op, dtype = m.one([*PARAMETRIC]), m.one(FLOATS)
    dtype = np.float32 if op == "Celu" else dtype
    given = {name: m.real(0.1, 2.0) for name in PARAMETRIC[op] if m.yes(0.7)}
    return m.case(op, [m.reals(m.shape(), dtype)], [dtype], 18, **given)


def gelu(m: Maker) -> Case:
    dtype = m.one(FLOATS)
    return m.case("Gelu", [m.reals(m.shape(), dtype)], [dtype], 20, approximate=m.one(("none", "tanh")))


def is_inf(m: Maker) -> Case:
    return m.case("IsInf", [m.reals(m.shape())], [np.bool_], 10, detect_negative=m.number(0, 1), detect_positive=m.number(0, 1))


def pair(m: Maker) -> Case:
    op, dtype, shape = m.one(PAIRS), m.one((*FLOATS, *WHOLE)), m.shape()
    a, b = m.any(shape, dtype), m.any(m.broadcast(shape), dtype)
    if op == "Div" and np.dtype(dtype).kind in "iu":
        b = np.where((b == 0) | (b == dtype(-1) if np.dtype(dtype).kind == "i" else b == 0), dtype(3), b)
    return m.case(op, [a, b], [dtype], 14, fixed=m.one(((), (1,))))


def comparison(m: Maker) -> Case:
    op, dtype, shape = m.one(COMPARISONS), m.one((*FLOATS, *WHOLE)), m.shape()
    a, b = m.any(shape, dtype), m.any(m.broadcast(shape), dtype)
    return m.case(op, [a, b], [np.bool_], 19)


def variadic(m: Maker) -> Case:
    op = m.one(VARIADIC)
    dtype, shape = m.one((*FLOATS, np.int32, np.int64, np.uint32, np.uint64) if op in ("Max", "Min") else FLOATS), m.shape()
    return m.case(op, [m.any(shape, dtype), *(m.any(m.broadcast(shape), dtype) for _ in range(m.number(0, 2)))], [dtype], 13)


def modulo(m: Maker) -> Case:
    dtype, shape = m.one((*FLOATS, *WHOLE)), m.shape()
    a, b = m.any(shape, dtype), m.any(m.broadcast(shape), dtype)
    whole = np.dtype(dtype).kind in "iu"
    if whole:
        b = np.where((b == 0) | (b == (dtype(-1) if np.dtype(dtype).kind == "i" else dtype(0))), dtype(3), b)
    return m.case("Mod", [a, b], [dtype], 13, fmod=1 if not whole else m.number(0, 1))


def power(m: Maker) -> Case:
    dtype, shape = m.one(FLOATS), m.shape()
    exponent = (
        np.array(m.one((0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -0.5, -2.0, 1.5, 7.0)), dtype) if m.yes() else m.reals(m.broadcast(shape), dtype)
    )
    return m.case("Pow", [m.reals(shape, dtype), exponent], [dtype], 15, fixed=m.one(((), (1,))))


def whole_power(m: Maker) -> Case:
    dtype, shape = m.one((np.int32, np.int64)), m.shape()
    m.special = False
    return m.case("Pow", [m.whole(shape, dtype), m.whole(m.broadcast(shape), dtype, 0, 7)], [dtype], 15)


def clip(m: Maker) -> Case:
    dtype, shape = m.one((*FLOATS, np.int8, np.uint8, np.int32, np.int64, np.uint64)), m.shape()
    whole = np.dtype(dtype).kind in "iu"
    low, high = (None if m.yes(0.3) else np.array(v, dtype) for v in ((1 if whole else m.real(-2, 0)), (5 if whole else m.real(0, 2))))
    if low is not None and high is not None and m.yes(0.2):
        low, high = high, low
    return m.case("Clip", [m.any(shape, dtype), low, high], [dtype], 13, fixed=m.one(((), (1, 2))))


def prelu(m: Maker) -> Case:
    dtype, shape = m.one(FLOATS), m.shape(1)
    return m.case("PRelu", [m.reals(shape, dtype), m.reals(m.broadcast(shape), dtype)], [dtype], 16, fixed=m.one(((), (1,))))


def where(m: Maker) -> Case:
    dtype, shape = m.one((*FLOATS, np.uint8, np.int32, np.int64)), m.shape()
    return m.case("Where", [m.any(m.broadcast(shape), np.bool_), m.any(shape, dtype), m.any(m.broadcast(shape), dtype)], [dtype], 16)


def truths(m: Maker) -> Case:
    shape = m.shape()
    if m.yes(0.25):
        return m.case("Not", [m.any(shape, np.bool_)], [np.bool_], 1 if m.yes() else 13)
    return m.case(m.one(TRUTHS), [m.any(shape, np.bool_), m.any(m.broadcast(shape), np.bool_)], [np.bool_], 7)


def bits(m: Maker) -> Case:
    dtype, shape = m.one(WHOLE), m.shape()
    op = m.one(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "BitShift"))
    if op == "BitwiseNot":
        return m.case(op, [m.whole(shape, dtype)], [dtype], 18)
    if op == "BitShift":
        dtype = m.one((np.uint8, np.uint32, np.uint64))
        by = m.whole(m.broadcast(shape), dtype, 0, 8 * np.dtype(dtype).itemsize - 1)
        return m.case(op, [m.whole(shape, dtype), by], [dtype], 11, direction=m.one(("LEFT", "RIGHT")))
    return m.case(op, [m.whole(shape, dtype), m.whole(m.broadcast(shape), dtype)], [dtype], 18)


def cast(m: Maker) -> Case:
    source, to = m.one((*FLOATS, *WHOLE, np.bool_)), m.one((*FLOATS, *WHOLE, np.bool_))
    x: Any = m.any(m.shape(), source)
    if np.dtype(source).kind == "f" and np.dtype(to).kind in "iu":  # what a type does not hold is not defined
        limits = np.iinfo(to)
        with np.errstate(invalid="ignore"):
            x = np.where((np.trunc(x.astype(np.float64)) >= limits.min) & (np.trunc(x.astype(np.float64)) < limits.max), x, source(1))

    return m.case("Cast", [x], [to], 13, to=element(to))


FAMILIES: tuple[Family, ...] = (
    unary,
    unary,
    unary,
    parametric,
    gelu,
    is_inf,
    pair,
    pair,
    comparison,
    variadic,
    modulo,
    power,
    whole_power,
    clip,
    prelu,
    where,
    truths,
    bits,
    cast,
)
