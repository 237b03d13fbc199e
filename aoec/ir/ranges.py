"""What ranges of variables decide of integer expressions: of `min(512 - i*64, 64)` with i below 8 remains 64.

Two read it: what runs programs for values (simulate/encode/expressions.py), in postfix code, and what shows them (ir/text/simplify.py),
as text. A *term* is an expression with its range and, where it is a sum of multiples of variables, that sum. How a term is written is a
subclass's.
"""
from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Int, Var

Sum = dict[int, int]  # place of a variable -> its factor; CONSTANT -> what is added
CONSTANT = -1
MOST = 1 << 62  # beyond this the kernels' int64 may wrap where Python's numbers do not; as a range it says that nothing is known
DIVISIONS, COMPARISONS = ("//", "%", "ceildiv"), ("==", "!=", "<", "<=", ">", ">=")
Run = TypeVar("Run")


class Term(NamedTuple, Generic[Run]):
    """An expression, or part of one: the sum that it is, or None; its range; how it is written."""

    sum: Sum | None
    low: int
    high: int
    run: Run

    @property
    def number(self) -> int | None:
        """Return its value, where that is known."""
        return self.low if self.low == self.high and self.sum is not None else None


class Ranges(Generic[Run]):
    """Variables by place with their ranges, and the terms that expressions of them are."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []  # of each place

    def place(self, low: int, high: int) -> int:
        """Return the place of a new variable between low and high."""
        self.ranges.append((low, max(low, high)))
        return len(self.ranges) - 1

    @abstractmethod
    def write_sum(self, total: Sum) -> Run:
        """Write a sum."""

    @abstractmethod
    def write_operation(self, op: str, given: Sequence[Term[Run]]) -> Run:
        """Write an operation."""

    @abstractmethod
    def other(self, e: Expr, scope: Mapping[str, int]) -> Term[Run]:
        """Return the term of what is no number, variable or operation on whole numbers."""

    @abstractmethod
    def knows(self, op: str) -> bool:
        """Return True where an operator or function can be written."""

    def term(self, e: Expr, scope: Mapping[str, int]) -> Term[Run]:
        """Return an expression as far as it is known. `scope`: variable name -> place."""
        if isinstance(e, Int):
            return self.of({CONSTANT: e.value})
        if isinstance(e, Var) and e.name in scope:
            return self.of({scope[e.name]: 1})
        if isinstance(e, Binary) and self.knows(e.op):
            return self.apply(e.op, [self.term(e.left, scope), self.term(e.right, scope)])
        if not isinstance(e, Call) or not self.knows(e.fn):
            return self.other(e, scope)
        given = [self.term(a, scope) for a in e.args]
        if e.fn in ("select", "not", "abs"):
            return self.apply(e.fn, given)
        found = given[0]
        for term in given[1:]:
            found = self.apply(e.fn, [found, term])
        return found

    def of(self, total: Sum) -> Term[Run]:
        """Return a sum; of one that int64 may not hold nothing is known but how it is written."""
        still = {v: self.ranges[v][0] for v in total if v != CONSTANT and self.ranges[v][0] == self.ranges[v][1]}
        if still:
            start = total.get(CONSTANT, 0) + sum(total[v] * at for v, at in still.items())
            total = {v: c for v, c in total.items() if v not in still} | {CONSTANT: start}
        ends = [[c * end for end in self.ranges[v]] for v, c in total.items() if v != CONSTANT]
        start = total.get(CONSTANT, 0)
        low, high = start + sum(map(min, ends)), start + sum(map(max, ends))
        run = self.write_sum(total)
        within = -MOST < low <= high < MOST and all(abs(c) < MOST for c in total.values())
        return Term({v: c for v, c in total.items() if c}, low, high, run) if within else Term(None, -MOST, MOST, run)

    def apply(self, op: str, given: list[Term[Run]]) -> Term[Run]:
        """Apply an operation to terms."""
        found = self._sum(op, given) or self._choose_term(op, given)
        if found is not None:
            return found
        low, high = _range(op, given)
        return Term(None, max(low, -MOST), min(high, MOST), self.write_operation(op, given))

    def _sum(self, op: str, given: list[Term[Run]]) -> Term[Run] | None:
        """Return the sum that it makes of sums, where it makes one."""
        numbers, sums = [t.number for t in given], [t.sum for t in given if t.sum is not None]
        if len(sums) < len(given):
            return None
        if None not in numbers and not (op in DIVISIONS and numbers[1] == 0):
            return self.of({CONSTANT: int(INT_OPS[op](*numbers) if op in INT_OPS else INT_CALLS[op](*numbers))})
        if op in ("+", "-"):
            return self.of(_add_sums(sums[0], sums[1], 1 if op == "+" else -1))
        if op == "*" and (numbers[0] is not None or numbers[1] is not None):
            factor, other = (numbers[0], sums[1]) if numbers[0] is not None else (numbers[1], sums[0])
            return self.of({v: factor * c for v, c in other.items()})  # type: ignore[operator]
        if op in ("//", "ceildiv") and numbers[1] and all(c % numbers[1] == 0 for c in sums[0].values()):
            return self.of({v: c // numbers[1] for v, c in sums[0].items()})
        return None

    def _choose_term(self, op: str, given: list[Term[Run]]) -> Term[Run] | None:
        """Return the term or number that an operation gives, where ranges decide that."""
        if op == "select" and (given[0].low > 0 or given[0].high < 0 or given[0].low == given[0].high):
            return given[1] if given[0].low or given[0].high else given[2]
        if len(given) != 2:
            return None
        a, b = given
        low, high = a.low - b.high, a.high - b.low
        if a.sum is not None and b.sum is not None:
            apart = self.of(_add_sums(a.sum, b.sum, -1))
            low, high = max(low, apart.low), min(high, apart.high)
        if op in ("min", "max") and (high <= 0 or low >= 0):
            return a if (high <= 0) == (op == "min") else b
        if op in COMPARISONS and (truth := _compare(op, low, high)) is not None:
            return self.of({CONSTANT: truth})
        if op in DIVISIONS and b.number and b.number > 0 and a.sum is not None:
            parts = [INT_OPS["//"](end + (b.number - 1) * (op == "ceildiv"), b.number) for end in (a.low, a.high)]
            if parts[0] == parts[1]:
                return self.of({CONSTANT: parts[0]} if op != "%" else _add_sums(a.sum, {CONSTANT: parts[0] * b.number}, -1))
        return None


def _add_sums(a: Sum, b: Sum, sign: int) -> Sum:
    return {v: a.get(v, 0) + sign * b.get(v, 0) for v in a.keys() | b.keys()}


def _compare(op: str, low: int, high: int) -> int | None:
    """Return the truth of a comparison whose left side lies from `low` to `high` above its right side; None where that does not decide
    it."""
    if op in ("==", "!="):
        return None if low <= 0 <= high and low != high else int((low == high == 0) == (op == "=="))
    ends = {int(INT_OPS[op](end, 0)) for end in (low, high)}
    return ends.pop() if len(ends) == 1 else None


def _range(op: str, given: Sequence[Term[Run]]) -> tuple[int, int]:
    """Return the least and the greatest possible result of an operation."""
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
