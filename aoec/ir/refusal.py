"""Why candidates are illegal: which constraint they break, and by how much."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoec.ir.func.tir import Constraint
from aoec.ir.index import Binary, Expr, Int, evaluate

WORDS = {"<=": "needs {:,} of {:,}", "<": "is {:,}, must be below {:,}", ">=": "is {:,}, must be {:,} or more",
         ">": "is {:,}, must be above {:,}", "==": "is {:,}, must be {:,}", "!=": "is {:,}, must not be {:,}"}


@dataclass(frozen=True)
class Shortfall:
    """Of each row: whether a condition is broken, and by how much in words ("" where no comparison says it)."""

    broken: np.ndarray
    words: list[str]


def refusals(constraint: Constraint, rows: Mapping[str, Any], count: int) -> list[str]:
    """Return the constraint's reason for each row of hole values, with the numbers that break it. An example: `L0A holds 65536 bytes:
    A_L0A need more (needs 98,304 of 65,536); use smaller tiles or fewer slots`. The reason is empty for rows that keep the constraint."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = shortfall(constraint.condition, rows, count)
    head, mark, help_ = constraint.reason.partition(";")
    return [f"{head}{f' ({w})' if w else ''}{mark}{help_}" if yes else "" for yes, w in zip(found.broken, found.words)]


def shortfall(e: Expr, rows: Mapping[str, Any], count: int) -> Shortfall:
    """Return how each row breaks a condition: of an `and` its first broken part says it, of an `or` the first that can."""
    if not isinstance(e, Binary) or e.op not in (*WORDS, "and", "or"):
        return Shortfall(column(e, rows, count) == 0, [""] * count)
    if e.op in WORDS:
        return find_shortfall(e, rows, count)
    one, other = shortfall(e.left, rows, count), shortfall(e.right, rows, count)
    if e.op == "and":
        return Shortfall(one.broken | other.broken, [a if yes else b for yes, a, b in zip(one.broken, one.words, other.words)])
    return Shortfall(one.broken & other.broken, [a or b for a, b in zip(one.words, other.words)])


def find_shortfall(e: Binary, rows: Mapping[str, Any], count: int) -> Shortfall:
    """Return how each row breaks a comparison. For whole multiples it names the number and not the remainder."""
    whole = e.op == "==" and e.right == Int(0) and isinstance(e.left, Binary) and e.left.op == "%"
    of = e.left if whole and isinstance(e.left, Binary) else e
    form = "is {:,}, no multiple of {:,}" if whole else WORDS[e.op]
    sides = zip(column(of.left, rows, count).tolist(), column(of.right, rows, count).tolist())
    return Shortfall(column(e, rows, count) == 0, [form.format(*pair) for pair in sides])


def column(e: Expr, rows: Mapping[str, Any], count: int) -> np.ndarray:
    """Return the values of an expression, one a row."""
    return np.broadcast_to(np.asarray(evaluate(e, rows)), (count,))
