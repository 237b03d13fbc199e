"""Runs a meaning on arrays, statement by statement. Tests compare it with the references.

It is plain rather than fast. A statement is evaluated over the whole box of its loops, with one array axis for each loop. It is reduced
over the loops that its target does not name. Elements are computed in fp64.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.index import Binary, Int, Read, Var, variables
from aoec.ops.expressions import value_at
from aoec.ops.meanings import loops

LIMIT_POINTS = 1 << 34  # of one statement: some minutes
LIMIT_HELD = 1 << 22  # of them at a time: arrays of this many fp64 elements
IDENTITY = {"+=": 0.0, "max=": -np.inf, "min=": np.inf}
REDUCE: dict[str, Any] = {"+=": np.add, "max=": np.maximum, "min=": np.minimum}


def interpret(m: Meaning, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of a meaning whose extents are bound (ops.meaning), in fp64, or in int64 of whole numbers."""
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
    points = _points({v: range(extents[v]) for v in kept})
    result = _product(s, kept, values)
    if result is None:
        result = _reduce(s, kept, {v: range(extents[v]) for v in (*kept, *extents)}, values)
    if s.op != "=":
        start = IDENTITY[s.op] if s.init is None else value_at(s.init, points, values)
        result = np.asarray(REDUCE[s.op](result, start))
    at = tuple(np.broadcast_to(value_at(i, points, values), [extents[v] for v in kept]) for i in s.target.indices)
    if s.target.buffer not in values:
        values[s.target.buffer] = np.full([extents[i.name] for i in s.target.indices if isinstance(i, Var)], np.nan)
    if result.dtype.kind in "iub" and values[s.target.buffer].dtype.kind == "f" and np.isnan(values[s.target.buffer]).all():
        values[s.target.buffer] = np.full(values[s.target.buffer].shape, np.iinfo(np.int64).min)  # what no statement writes shows
    values[s.target.buffer][at] = result


def _points(ranges: Mapping[str, range]) -> dict[str, np.ndarray]:
    """Return loop -> its values, along an axis of its own."""
    return {v: np.arange(r.start, r.stop).reshape([-1 if v == w else 1 for w in ranges]) for v, r in ranges.items()}


def _reduce(s: Statement, kept: Sequence[str], ranges: Mapping[str, range], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the values over ranges of loops, reduced over those that are not kept; by halves where they are too many to hold at once."""
    if prod(map(len, ranges.values())) > LIMIT_HELD:
        longest = max(ranges, key=lambda v: len(ranges[v]))
        middle = (ranges[longest].start + ranges[longest].stop) // 2
        halves = [range(ranges[longest].start, middle), range(middle, ranges[longest].stop)]
        low, high = (_reduce(s, kept, {**ranges, longest: half}, values) for half in halves)
        return np.concatenate([low, high], kept.index(longest)) if longest in kept else np.asarray(REDUCE[s.op](low, high))
    box = np.broadcast_to(np.asarray(value_at(s.value, _points(ranges), values)), [len(r) for r in ranges.values()])
    return box if s.op == "=" else np.asarray(REDUCE[s.op].reduce(box, axis=tuple(range(len(kept), box.ndim))))


def _product(s: Statement, kept: Sequence[str], values: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Return the sum of products of two tensors' elements at loops alone, by NumPy's own. Return None for any other statement."""
    e = s.value
    found = [e.left, e.right] if s.op == "+=" and isinstance(e, Binary) and e.op == "*" else []
    plain = [r for r in found if isinstance(r, Read) and all(isinstance(i, Var) for i in r.indices)]
    if len(plain) < 2:
        return None
    numbers: dict[str, int] = {}
    labels = [[numbers.setdefault(i.name, len(numbers)) for i in r.indices if isinstance(i, Var)] for r in plain]
    if not numbers.keys() >= set(kept):
        return None
    a, b = (values[r.buffer] for r in plain)
    return np.asarray(np.einsum(a, labels[0], b, labels[1], [numbers[v] for v in kept], optimize=True))
