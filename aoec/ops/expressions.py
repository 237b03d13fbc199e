"""Expressions of meanings as values: at all points at once, and, of numbers alone, as a number."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, isnan
from typing import Any

import ml_dtypes
import numpy as np

from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Cast, Expr, Float, Int, Read, Var, children, is_element, reads, rebuild

REAL: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "reciprocal": lambda a: 1 / a, "tanh": np.tanh,
    "erf": np.vectorize(erf, otypes=[float]), "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "pow": np.power, "trunc": np.trunc, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sign": np.sign,
    "fmod": np.fmod}
WHOLES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
WHOLE: dict[str, Callable[..., Any]] = {
    "idiv": lambda a, b: (a - np.fmod(a, b)) // b, "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "bitnot": np.invert, "shl": np.left_shift, "shr": np.right_shift}
CASTS = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "int64": np.int64, "int8": np.int8, "uint8": np.uint8,
         "int16": np.int16, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_,
         "bf16": ml_dtypes.bfloat16}


def value_at(e: Expr, points: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> Any:
    """Return the value of an expression at all points at once."""
    if isinstance(e, (Int, Float)):
        return e.value
    if isinstance(e, Var):
        return points[e.name]
    if isinstance(e, Read):
        return values[e.buffer][tuple(_index(i, n, points, values) for i, n in zip(e.indices, values[e.buffer].shape))]
    if isinstance(e, Cast):
        return np.asarray(value_at(e.value, points, values)).astype(CASTS[e.dtype]).astype(np.int64 if e.dtype in WHOLES else np.float64)
    if isinstance(e, Binary):
        return INT_OPS[e.op](value_at(e.left, points, values), value_at(e.right, points, values))
    assert isinstance(e, Call)
    if e.fn == "guard":
        return _evaluate_guarded(e, points, values)
    return {**INT_CALLS, **REAL, **WHOLE}[e.fn](*(value_at(a, points, values) for a in e.args))


def _index(e: Expr, size: int, points: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the places that an index names; where data say them, counted from the end where they are negative, the nearest that there
    are."""
    found = np.asarray(value_at(e, points, values)).astype(np.int64)
    return np.clip(np.where(found < 0, found + size, found), 0, size - 1) if reads(e) else found


def _evaluate_guarded(e: Call, points: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values of `X[...] else c`: c where an index is outside of X."""
    read, other = e.args
    assert isinstance(read, Read) and isinstance(other, (Int, Float))
    shape = values[read.buffer].shape
    indices = [np.asarray(value_at(i, points, values)) for i in read.indices]
    inside = np.logical_and.reduce(np.broadcast_arrays(*[(i >= 0) & (i < n) for i, n in zip(indices, shape)]))
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, shape))
    return np.where(inside, values[read.buffer][clipped], other.value)


def fold(e: Expr) -> Expr:
    """Return the expression with every part of numbers alone, one of them real, as its number: what attributes make has no instruction. A
    choice that numbers decide is what they choose. Indices stay as they are, and so does what is no number (0 / 0)."""
    if not isinstance(e, (Binary, Call, Cast)):
        return e
    e = rebuild(e, fold)
    parts = children(e)
    if isinstance(e, Call) and e.fn == "select" and isinstance(parts[0], (Int, Float)):
        return parts[1] if parts[0].value else parts[2]
    if not parts or not is_element(e) or not all(isinstance(part, (Int, Float)) for part in parts):
        return e
    value = _number(e, [part.value for part in parts if isinstance(part, (Int, Float))])
    return e if value is None or isnan(value) else Float(float(value)) if value.dtype.kind == "f" else Int(int(value))


def _number(e: Expr, given: Sequence[int | float]) -> np.ndarray | None:
    """Return what numbers make, in fp64. Return None for functions of whole numbers, which have instructions."""
    if isinstance(e, Cast):
        return np.asarray(value_at(e, {}, {}))
    assert isinstance(e, (Binary, Call))
    word = e.op if isinstance(e, Binary) else e.fn
    if word in WHOLE:
        return None
    with np.errstate(all="ignore"):
        return np.asarray({**INT_OPS, **INT_CALLS, **REAL}[word](*map(np.float64, given)))
