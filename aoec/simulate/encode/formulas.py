"""Whole-number expressions of a program's holes, for many rows.

NumPy evaluates them, one after the other, until they have been asked for some times. From then on they are noted on a tape, which a kernel
replays for all rows in one call.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.index import Expr, evaluate, hole_names
from aoec.kernels import columns as kernel
from aoec.simulate.encode.tape import Tape

Array = np.ndarray[Any, Any]
SELDOM = 6  # how often NumPy is asked before it pays to note what it does


class Formulas:
    """Expressions and, once they have been noted, their tape."""

    def __init__(self, expressions: Sequence[Expr]) -> None:
        self.expressions, self.asked = list(expressions), 0
        self.noted: _Noted | None = None

    def __call__(self, rows: Mapping[str, Array], count: int) -> Array:
        """Return int64[row, expression]; a quotient by 0 is 0."""
        self.asked += 1
        if self.asked == SELDOM:
            self.noted = _note(self.expressions)
        return self.noted(rows, count) if self.noted else self.plain(rows, count)

    def plain(self, rows: Mapping[str, Array], count: int) -> Array:
        """Return the same by NumPy."""
        out = np.zeros((count, len(self.expressions)), np.int64)
        with np.errstate(divide="ignore", invalid="ignore"):
            for i, e in enumerate(self.expressions):
                out[:, i] = evaluate(e, rows)
        return out


class _Noted:
    """A tape of whole numbers, its inputs by name, and where its results are."""

    def __init__(self, expressions: Sequence[Expr]) -> None:
        tape, names = Tape(), sorted(set().union(*map(hole_names, expressions)))
        inputs = {name: tape.input() for name in names}
        wanted = np.array([tape.either(evaluate(e, inputs), False).register for e in expressions], np.int64)
        packed = tape.pack(np.unique(np.append(wanted, [x.register for x in inputs.values()])))
        if any(op >= kernel.REAL_ADD and op != kernel.SELECT for op in packed.code[:, 0].tolist()):
            raise UnsupportedError("a tape of whole numbers holds reals")
        self.names, self.packed = names, packed
        self.input_at = packed.place[[x.register for x in inputs.values()]].astype(np.int32)
        self.out_at = packed.place[wanted].astype(np.int32)

    def __call__(self, rows: Mapping[str, Array], count: int) -> Array:
        given = np.empty((len(self.names), count), np.int64)
        for i, name in enumerate(self.names):
            given[i] = rows[name]
        p, out = self.packed, np.empty((count, len(self.out_at)), np.int64)
        kernel.fill_ints(p.code, p.pool, p.constant_at, p.constant, self.input_at, self.out_at, given,
                     np.empty((max(1, p.registers), kernel.LANES), np.int64), out)
        return out


def _note(expressions: Sequence[Expr]) -> _Noted | None:
    """Return the tape of some expressions; None where there are none, or where it cannot say them."""
    try:
        return _Noted(expressions) if expressions else None
    except UnsupportedError:
        return None
