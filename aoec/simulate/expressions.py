"""Integer expressions as the kernels evaluate them: as little of them as ranges of variables leave, and that as seldom as loops allow.

What ranges of loops decide is decided here: of `min(512 - i*64, 64)` with i below 8 remains 64. A sum of multiples of variables is written
as such. All others become postfix code, which the interpreter evaluates where the innermost of their loops steps on, into a place of
their own in the environment: instructions then read a variable. Only what a counter moves, or what may divide by zero, is evaluated where
it stands.
"""
from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from aoec.base.errors import CheckError, UnsupportedError
from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Int, Var
from aoec.kernels import tile

Run = list[tuple[int, int]]  # postfix code: (number in EXPR_OPS, its argument)
Sum = dict[int, int]  # place of a variable -> its factor; CONSTANT -> what is added
CONSTANT = -1
LIMIT = 1 << 63  # of the kernels' numbers
MOST = 1 << 62  # beyond this the kernels' int64 may wrap where Python's numbers do not; as a range it says that nothing is known
DIVISIONS, COMPARISONS = ("//", "%", "ceildiv"), ("==", "!=", "<", "<=", ">", ">=")
NUMBER_OF = {op: i for i, op in enumerate(tile.EXPR_OPS)}


class Term(NamedTuple):
    """An expression, or part of one: the sum that it is, or None; its range; its postfix code."""

    sum: Sum | None
    low: int
    high: int
    run: Run

    @property
    def number(self) -> int | None:
        """Its value, where that is known."""
        return self.low if self.low == self.high and self.sum is not None else None


class Expressions:
    """The expressions of a program by number, equal ones shared; `name` is the program's, for messages."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ranges: list[tuple[int, int]] = []  # of each place in the environment
        self.moved: list[int | None] = []  # the row of code that moves it; None where that is anywhere
        self.runs: dict[tuple[tuple[int, int], ...], int] = {}
        self.code: list[tuple[int, int]] = []
        self.spans: list[tuple[int, int, int]] = []
        self.kept: dict[int, list[tuple[int, int]]] = {}  # row of code -> (expression, place): evaluated whenever the row steps on

    def variable(self, low: int, high: int, row: int | None) -> int:
        """The place of a new variable between low and high, which `row` moves."""
        self.ranges.append((low, max(low, high)))
        self.moved.append(row)
        return len(self.ranges) - 1

    def add(self, e: Expr, scope: Mapping[str, int]) -> int:
        """The number of an expression. `scope`: variable name -> place in the environment."""
        term = self.term(e, scope)
        if _depth(term.run) > tile.STACK:
            raise UnsupportedError(f"an expression of program {self.name} nests deeper than {tile.STACK}; write it from the left")
        return self._numbered(term)

    def fixed(self, number: int) -> int | None:
        """The value of an expression that has no variables; None of others."""
        kind, start, _ = self.spans[number]
        return self.code[start][1] if kind == tile.FIXED else None

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Code and spans, as `tile.value` reads them."""
        return np.array(self.code or [(0, 0)], np.int64), np.array(self.spans or [(0, 0, 1)], np.int64)

    def _numbered(self, term: Term) -> int:
        key = tuple(term.run)
        if key not in self.runs:
            number = self._written(*_code(term))
            row = self._row(term.run) if term.sum is None else None
            if row is not None:
                place = self.variable(-MOST, MOST, None)
                self.kept.setdefault(row, []).append((number, place))
                number = self._written(tile.VARIABLE, [(1, place)])
            self.runs[key] = number
        return self.runs[key]

    def _written(self, kind: int, rows: Run) -> int:
        for _, number in rows:
            if not -LIMIT <= number < LIMIT:
                raise CheckError(f"an expression of program {self.name} holds {number:,}, which does not fit 64 bits")
        self.spans.append((kind, len(self.code), len(self.code) + len(rows)))
        self.code += rows
        return len(self.spans) - 1

    def _row(self, run: Run) -> int | None:
        """The row of code that last moves what an expression depends on; None where it has to be evaluated where it stands."""
        rows = [self.moved[at] for op, at in run if op == 1]
        divisors = [before for before, (op, _) in pairwise(run) if tile.EXPR_OPS[op] in DIVISIONS]
        safe = all(op == 0 and number != 0 for op, number in divisors)
        known = [row for row in rows if row is not None]
        return max(known) if safe and known and len(known) == len(rows) else None

    # ------------------------------------------------------------ what ranges decide

    def term(self, e: Expr, scope: Mapping[str, int]) -> Term:
        """An expression as far as it is known; CheckError where it names what is no variable."""
        if isinstance(e, Int):
            return self._of({CONSTANT: e.value})
        if isinstance(e, Var) and e.name in scope:
            return self._of({scope[e.name]: 1})
        if isinstance(e, Binary) and e.op in NUMBER_OF:
            return self._applied(e.op, [self.term(e.left, scope), self.term(e.right, scope)])
        if not isinstance(e, Call) or e.fn not in NUMBER_OF:
            raise CheckError(f"program {self.name} cannot be executed: {e!r} is no variable in scope and no integer expression")
        given = [self.term(a, scope) for a in e.args]
        if e.fn in ("select", "not", "abs"):
            return self._applied(e.fn, given)
        made = given[0]
        for term in given[1:]:
            made = self._applied(e.fn, [made, term])
        return made

    def _of(self, total: Sum) -> Term:
        """A sum; of one that int64 may not hold nothing is known but its code."""
        still = {v: self.ranges[v][0] for v in total if v != CONSTANT and self.ranges[v][0] == self.ranges[v][1]}
        if still:
            start = total.get(CONSTANT, 0) + sum(total[v] * at for v, at in still.items())
            total = {v: c for v, c in total.items() if v not in still} | {CONSTANT: start}
        ends = [[c * end for end in self.ranges[v]] for v, c in total.items() if v != CONSTANT]
        start = total.get(CONSTANT, 0)
        low, high = start + sum(map(min, ends)), start + sum(map(max, ends))
        run = _run_of(total)
        within = -MOST < low <= high < MOST and all(abs(c) < MOST for c in total.values())
        return Term({v: c for v, c in total.items() if c}, low, high, run) if within else Term(None, -MOST, MOST, run)

    def _applied(self, op: str, given: list[Term]) -> Term:
        """What an operation makes of terms."""
        made = self._sum(op, given) or self._chosen(op, given)
        if made is not None:
            return made
        low, high = _range(op, given)
        return Term(None, max(low, -MOST), min(high, MOST), [x for t in given for x in t.run] + [(NUMBER_OF[op], 0)])

    def _sum(self, op: str, given: list[Term]) -> Term | None:
        """The sum that it makes of sums, where it makes one."""
        numbers, sums = [t.number for t in given], [t.sum for t in given if t.sum is not None]
        if len(sums) < len(given):
            return None
        if None not in numbers and not (op in DIVISIONS and numbers[1] == 0):
            return self._of({CONSTANT: int(INT_OPS[op](*numbers) if op in INT_OPS else INT_CALLS[op](*numbers))})
        if op in ("+", "-"):
            return self._of(_added(sums[0], sums[1], 1 if op == "+" else -1))
        if op == "*" and (numbers[0] is not None or numbers[1] is not None):
            factor, other = (numbers[0], sums[1]) if numbers[0] is not None else (numbers[1], sums[0])
            return self._of({v: factor * c for v, c in other.items()})  # type: ignore[operator]
        if op in ("//", "ceildiv") and numbers[1] and all(c % numbers[1] == 0 for c in sums[0].values()):
            return self._of({v: c // numbers[1] for v, c in sums[0].items()})
        return None

    def _chosen(self, op: str, given: list[Term]) -> Term | None:
        """Which of its terms an operation gives, or which number, where ranges decide that."""
        if op == "select" and (given[0].low > 0 or given[0].high < 0 or given[0].low == given[0].high):
            return given[1] if given[0].low or given[0].high else given[2]
        if len(given) != 2:
            return None
        a, b = given
        low, high = a.low - b.high, a.high - b.low
        if a.sum is not None and b.sum is not None:
            apart = self._of(_added(a.sum, b.sum, -1))
            low, high = max(low, apart.low), min(high, apart.high)
        if op in ("min", "max") and (high <= 0 or low >= 0):
            return a if (high <= 0) == (op == "min") else b
        if op in COMPARISONS and (truth := _compared(op, low, high)) is not None:
            return self._of({CONSTANT: truth})
        if op in DIVISIONS and b.number and b.number > 0 and a.sum is not None:
            parts = [INT_OPS["//"](end + (b.number - 1) * (op == "ceildiv"), b.number) for end in (a.low, a.high)]
            if parts[0] == parts[1]:
                return self._of({CONSTANT: parts[0]} if op != "%" else _added(a.sum, {CONSTANT: parts[0] * b.number}, -1))
        return None


def _added(a: Sum, b: Sum, sign: int) -> Sum:
    return {v: a.get(v, 0) + sign * b.get(v, 0) for v in a.keys() | b.keys()}


def _compared(op: str, low: int, high: int) -> int | None:
    """The truth of a comparison whose left side lies from `low` to `high` above its right side; None where that does not decide it."""
    if op in ("==", "!="):
        return None if low <= 0 <= high and low != high else int((low == high == 0) == (op == "=="))
    ends = {int(INT_OPS[op](end, 0)) for end in (low, high)}
    return ends.pop() if len(ends) == 1 else None


def _range(op: str, given: list[Term]) -> tuple[int, int]:
    """Between which numbers the result of an operation lies."""
    if op in (*COMPARISONS, "and", "or", "not"):
        return 0, 1
    if op == "select":
        return min(given[1].low, given[2].low), max(given[1].high, given[2].high)
    if len(given) != 2:
        return -MOST, MOST
    (a, b), divisor = given, given[1].number
    if op in ("+", "-"):
        return (a.low + b.low, a.high + b.high) if op == "+" else (a.low - b.high, a.high - b.low)
    if op in ("min", "max"):
        pick = min if op == "min" else max
        return pick(a.low, b.low), pick(a.high, b.high)
    if op == "*":
        ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
        return min(ends), max(ends)
    if divisor is None or divisor <= 0:
        return -MOST, MOST
    if op == "%":
        return 0, divisor - 1
    more = divisor - 1 if op == "ceildiv" else 0
    return (a.low + more) // divisor, (a.high + more) // divisor


# ---------------------------------------------------------------- code

def _run_of(total: Sum) -> Run:
    """A sum as postfix code."""
    out: Run = [(0, total[CONSTANT])] if total.get(CONSTANT) else []
    for v, c in sorted((v, c) for v, c in total.items() if c and v != CONSTANT):
        term: Run = [(1, v)] if c == 1 else [(1, v), (0, c), (NUMBER_OF["*"], 0)]
        out += [*term, (NUMBER_OF["+"], 0)] if out else term
    return out or [(0, 0)]


def _depth(run: Run) -> int:
    """The most values that a postfix run keeps on the stack."""
    top = most = 0
    for op, _ in run:
        top += 1 if op < 2 else -2 if op == NUMBER_OF["select"] else 0 if op > NUMBER_OF["select"] else -1
        most = max(most, top)
    return most


def _code(term: Term) -> tuple[int, Run]:
    """How a term is written, and its code, as `tile.value` reads it."""
    if term.sum is None:
        return tile.POSTFIX, term.run
    if len(term.run) == 1:
        return (tile.FIXED if term.run[0][0] == 0 else tile.VARIABLE), term.run
    return tile.SUM, [(0, term.sum.get(CONSTANT, 0)), *sorted((c, v) for v, c in term.sum.items() if v != CONSTANT)]
