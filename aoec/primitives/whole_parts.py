"""Whether a block writes a part of its buffer whole. A region is a box that may be larger than what is written in it."""
from __future__ import annotations

from collections import Counter

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Block, Loop
from aoec.ir.index import Binary, Expr, Int, affine, variables, walk


def check_whole_part(block: Block, above: tuple[Loop, ...], depth: int) -> None:
    """Raise ScheduleError where the part that a block writes in one iteration of the first `depth` loops around it has gaps.

    A part of quotients and remainders is taken as whole. It is whole where tiles begin at whole units, which only filled holes show.
    """
    outer, inner = [loop.var for loop in above[:depth]], above[depth:]
    for index in block.target.indices:
        check_steps(block, index, outer, [loop.var for loop in inner if loop.extent != Int(1)])
        check_wraps(block, index, outer, {loop.var for loop in inner})


def check_steps(block: Block, index: Expr, outer: list[str], inner: list[str]) -> None:
    """Raise ScheduleError where an inner loop steps over what iterations of an outer one write."""
    steps, _ = affine(index, frozenset((*outer, *inner))) or ({}, None)
    for v in (v for v in inner if v in steps):
        passed = [o for o in outer if o in steps and is_larger_multiple(steps[v], steps[o])]
        if passed:
            raise ScheduleError(f"{block.name} writes {block.target.buffer} with gaps in one iteration of {passed[-1]}; "
                                f"copy inside {v}, which steps over them")


def check_wraps(block: Block, index: Expr, outer: list[str], inner: set[str]) -> None:
    """Raise ScheduleError where a part may begin at the end of a dimension and go on at its start."""
    for e in walk(index):
        if not (isinstance(e, Binary) and e.op == "%"):
            continue
        names = variables(e.left)
        turns = [o for o in outer if o in names]
        unit = Binary("//", e.left, e.right)
        if turns and names & inner and not any(unit in walk(other) for other in block.target.indices):
            raise ScheduleError(f"what {block.name} writes to {block.target.buffer} in one iteration of {turns[-1]} may be two parts, "
                                "at the end and at the start; take this step before the loop is rotated or swizzled")


def is_larger_multiple(a: Expr, b: Expr) -> bool:
    """Return whether `a` is `b` times something that is not known to be 1."""
    left, right = factors(a), factors(b)
    if left[0] % right[0] or left == right:
        return False
    return not Counter(right[1]) - Counter(left[1])


def factors(e: Expr) -> tuple[int, tuple[Expr, ...]]:
    """Return (the number in a product, its other factors)."""
    if isinstance(e, Int):
        return e.value, ()
    if isinstance(e, Binary) and e.op == "*":
        (n, own), (m, more) = factors(e.left), factors(e.right)
        return n * m, (*own, *more)
    return 1, (e,)
