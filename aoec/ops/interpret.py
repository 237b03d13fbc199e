"""A meaning run on arrays, statement by statement: what holds index notation equal to the references.

Plain rather than fast: a statement is evaluated over the whole box of its loops, one array axis for each loop, and reduced over
those that its target does not name. Elements are computed in fp64.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import erf, prod
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Cast, Expr, Float, Int, Read, Var, variables
from aoec.ir.meaning import Meaning, Statement
from aoec.ops.meanings import loops

LIMIT_POINTS = 1 << 24  # of one statement: arrays of this many fp64 elements
IDENTITY = {"+=": 0.0, "max=": -np.inf, "min=": np.inf}
REDUCE: dict[str, Any] = {"+=": np.add, "max=": np.maximum, "min=": np.minimum}
REAL: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "reciprocal": lambda a: 1 / a, "tanh": np.tanh,
    "erf": np.vectorize(erf, otypes=[float]), "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "floor": np.floor, "ceil": np.ceil,
    "round": np.rint, "pow": np.power, "trunc": np.trunc, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sign": np.sign}
WHOLES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
WHOLE: dict[str, Callable[..., Any]] = {
    "idiv": lambda a, b: (a - np.fmod(a, b)) // b, "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "bitnot": np.invert, "shl": np.left_shift, "shr": np.right_shift}
CASTS = {"fp32": np.float32, "fp16": np.float16, "int32": np.int32, "int64": np.int64, "int8": np.int8, "uint8": np.uint8,
         "int16": np.int16, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64, "bool": np.bool_}


def interpret(m: Meaning, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a meaning whose extents are bound (ops.meaning), in fp64, or in int64 of whole numbers."""
    values = {a.name: np.asarray(x, np.int64 if np.asarray(x).dtype.kind in "iub" else np.float64) for a, x in zip(m.inputs, inputs)}
    for o in m.outputs:
        values[o.name] = np.full([d.extent.value for d in o.dims if isinstance(d.extent, Int)], np.nan)
    with np.errstate(all="ignore"):
        for s in m.statements:
            _run(m, s, values)
    return [values[o.name] for o in m.outputs]


def _run(m: Meaning, s: Statement, values: dict[str, np.ndarray]) -> None:
    extents = loops(m, s)
    if prod(extents.values()) > LIMIT_POINTS:
        raise CheckError(f"{m.name}: {prod(extents.values()):,} points are too many to interpret; the limit is {LIMIT_POINTS:,}")
    kept = [v for v in extents if any(v in variables(i) for i in s.target.indices)]
    order = kept + [v for v in extents if v not in kept]
    points = {v: np.arange(extents[v]).reshape([-1 if v == w else 1 for w in order]) for v in order}
    box = np.broadcast_to(np.asarray(_value(s.value, points, values)), [extents[v] for v in order])
    result = _reduce(s, box, len(kept), {v: points[v].reshape(points[v].shape[:len(kept)]) for v in kept}, values)
    at = tuple(np.broadcast_to(_value(i, points, values), [extents[v] if v in kept else 1 for v in order]).reshape(
        [extents[v] for v in kept]) for i in s.target.indices)
    if s.target.buffer not in values:
        values[s.target.buffer] = np.full([extents[i.name] for i in s.target.indices if isinstance(i, Var)], np.nan)
    if result.dtype.kind in "iub" and values[s.target.buffer].dtype.kind == "f" and np.isnan(values[s.target.buffer]).all():
        values[s.target.buffer] = np.full(values[s.target.buffer].shape, np.iinfo(np.int64).min)  # what no statement writes shows
    values[s.target.buffer][at] = result


def _reduce(s: Statement, box: np.ndarray, rank: int, points: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """The box with all axes from `rank` on reduced, on top of what the reducer starts from."""
    if s.op == "=":
        return box.reshape(box.shape[:rank])
    start = IDENTITY[s.op] if s.init is None else _value(s.init, points, values)
    return np.asarray(REDUCE[s.op](REDUCE[s.op].reduce(box, axis=tuple(range(rank, box.ndim))), start))


def _value(e: Expr, points: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> Any:
    """The value of an expression at all points at once."""
    if isinstance(e, (Int, Float)):
        return e.value
    if isinstance(e, Var):
        return points[e.name]
    if isinstance(e, Read):
        return values[e.buffer][tuple(np.asarray(_value(i, points, values)).astype(np.int64) for i in e.indices)]
    if isinstance(e, Cast):
        return np.asarray(_value(e.value, points, values)).astype(CASTS[e.dtype]).astype(np.int64 if e.dtype in WHOLES else np.float64)
    if isinstance(e, Binary):
        return INT_OPS[e.op](_value(e.left, points, values), _value(e.right, points, values))
    assert isinstance(e, Call)
    if e.fn == "guard":
        return _guarded(e, points, values)
    return {**INT_CALLS, **REAL, **WHOLE}[e.fn](*(_value(a, points, values) for a in e.args))


def _guarded(e: Call, points: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """`X[...] else c`: c where an index lies outside of X."""
    read, other = e.args
    assert isinstance(read, Read) and isinstance(other, (Int, Float))
    shape = values[read.buffer].shape
    indices = [np.asarray(_value(i, points, values)) for i in read.indices]
    inside = np.logical_and.reduce(np.broadcast_arrays(*[(i >= 0) & (i < n) for i, n in zip(indices, shape)]))
    clipped = tuple(np.clip(i, 0, n - 1) for i, n in zip(indices, shape))
    return np.where(inside, values[read.buffer][clipped], other.value)
