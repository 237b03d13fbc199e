"""Integer expressions as the kernels evaluate them: simplified by the ranges of variables, and evaluated as seldom as loops allow.

First, expressions are simplified by the ranges of loops (ir/ranges.py): `min(512 - i*64, 64)` with i below 8 becomes 64. A sum of multiples
of variables is written as such. All others become postfix code. The interpreter evaluates it when the innermost of the loops that it
depends on takes a step. The value goes to a place of its own in the environment, and instructions then read a variable. Only what a counter
moves, or what may divide by zero, is evaluated at its use.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir import ranges
from aoec.ir.index import Expr
from aoec.ir.ranges import CONSTANT, DIVISIONS, MOST, Ranges, Sum
from aoec.kernels import tile

Run = list[tuple[int, int]]  # postfix code: (number in EXPR_OPS, its argument)
Term = ranges.Term[Run]
LIMIT = 1 << 63  # of the kernels' numbers
NUMBER_OF = {op: i for i, op in enumerate(tile.EXPR_OPS)}


class Expressions(Ranges[Run]):
    """The expressions of a program by number, equal ones shared; `name` is the program's, for messages."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.moved: list[int | None] = []  # the row of code that moves it; None where that is anywhere
        self.runs: dict[tuple[tuple[int, int], ...], int] = {}
        self.code: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int, int]] = []
        self.kept: dict[int, list[tuple[int, int]]] = {}  # row of code -> (expression, place): evaluated whenever the row steps on

    def variable(self, low: int, high: int, row: int | None) -> int:
        """Return the place of a new variable between low and high, which `row` moves."""
        self.moved.append(row)
        return self.place(low, high)

    def add(self, e: Expr, scope: Mapping[str, int]) -> int:
        """Return the number of an expression. `scope`: variable name -> place in the environment."""
        term = self.term(e, scope)
        if _depth(term.run) > tile.STACK:
            raise UnsupportedError(f"an expression of program {self.name} nests deeper than {tile.STACK}; write it from the left")
        return self._intern(term)

    def constant_value(self, number: int) -> int | None:
        """Return the value of an expression that has no variables; None of others."""
        kind, start, _ = self.spans[number]
        return self.code[start][1] if kind == tile.FIXED else None

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return code and spans, as `tile.value` reads them."""
        return np.array(self.code or [(0, 0)], np.int64), np.array(self.spans or [(0, 0, 1)], np.int64)

    def _intern(self, term: Term) -> int:
        key = tuple(term.run)
        if key not in self.runs:
            number = self._append(*_code(term))
            row = self._row(term.run) if term.sum is None else None
            if row is not None:
                place = self.variable(-MOST, MOST, None)
                self.kept.setdefault(row, []).append((number, place))
                number = self._append(tile.VARIABLE, [(1, place)])
            self.runs[key] = number
        return self.runs[key]

    def _append(self, kind: int, rows: Run) -> int:
        for _, number in rows:
            if not -LIMIT <= number < LIMIT:
                raise CheckError(f"an expression of program {self.name} holds {number:,}, which does not fit 64 bits")
        self.spans.append((kind, len(self.code), len(self.code) + len(rows)))
        self.code += rows
        return len(self.spans) - 1

    def _row(self, run: Run) -> int | None:
        """Return the row of code that last moves what an expression depends on; None where it has to be evaluated where it stands."""
        rows = [self.moved[at] for op, at in run if op == 1]
        divisors = [before for before, (op, _) in pairwise(run) if tile.EXPR_OPS[op] in DIVISIONS]
        safe = all(op == 0 and number != 0 for op, number in divisors)
        known = [row for row in rows if row is not None]
        return max(known) if safe and known and len(known) == len(rows) else None

    # ------------------------------------------------------------ how a term is written

    def write_sum(self, total: Sum) -> Run:
        return _run_of(total)

    def write_operation(self, op: str, given: Sequence[Term]) -> Run:
        return [x for t in given for x in t.run] + [(NUMBER_OF[op], 0)]

    def knows(self, op: str) -> bool:
        return op in NUMBER_OF

    def other(self, e: Expr, scope: Mapping[str, int]) -> Term:
        raise CheckError(f"program {self.name} cannot be executed: {e!r} is no variable in scope and no integer expression")


# ---------------------------------------------------------------- code

def _run_of(total: Sum) -> Run:
    """Return a sum as postfix code."""
    out: Run = [(0, total[CONSTANT])] if total.get(CONSTANT) else []
    for v, c in sorted((v, c) for v, c in total.items() if c and v != CONSTANT):
        term: Run = [(1, v)] if c == 1 else [(1, v), (0, c), (NUMBER_OF["*"], 0)]
        out += [*term, (NUMBER_OF["+"], 0)] if out else term
    return out or [(0, 0)]


def _depth(run: Run) -> int:
    """Return the most values that a postfix run keeps on the stack."""
    top = most = 0
    for op, _ in run:
        top += 1 if op < 2 else -2 if op == NUMBER_OF["select"] else 0 if op > NUMBER_OF["select"] else -1
        most = max(most, top)
    return most


def _code(term: Term) -> tuple[int, Run]:
    """Return how a term is written, and its code, as `tile.value` reads it."""
    if term.sum is None:
        return tile.POSTFIX, term.run
    if len(term.run) == 1:
        return (tile.FIXED if term.run[0][0] == 0 else tile.VARIABLE), term.run
    return tile.SUM, [(0, term.sum.get(CONSTANT, 0)), *sorted((c, v) for v, c in term.sum.items() if v != CONSTANT)]
