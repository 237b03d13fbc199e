"""Reductions over stated axes, or all."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from math import inf, nan

import numpy as np

from aoec.base.errors import CheckError
from aoec.frontend.rules.movement import part
from aoec.frontend.rules.rule import KNOWN, Rule
from aoec.frontend.translate.node import Node
from aoec.ops.run import NUMPY, REALS

# our word for a reduction -> the operator of two arguments that does it to other dtypes than reals
WHOLE = {"reduce_sum": "add", "reduce_max": "maximum", "reduce_min": "minimum"}
SUMMING = ("reduce_sum", "reduce_mean")
IN_HALVES = {"bool": {"reduce_max": "either", "reduce_min": "both"}}
Over = Callable[[Node, str, Sequence[int]], str]


def reduce_axes(n: Node, word: str, x: str, axes: Sequence[int]) -> str:
    """Reduce the tensor over axes, which stay with one element.
    Reals that lie side by side are reduced at once, others one axis after the other. Sums on the way stay in fp32, so that the result is
    rounded once."""
    shape, words = n.draft.tensors[x].shape, IN_HALVES.get(n.draft.tensors[x].dtype, WHOLE)
    if n.draft.tensors[x].dtype != "fp32":
        for axis in axes:
            x = reduce_by_halves(n, words[word], x, axis)
        return x
    runs = neighbours([axis for axis in sorted(axes) if shape[axis] > 1])
    for left, side_by_side in reversed([*enumerate(runs)]):
        x = n.step(word, [x], {"axes": side_by_side})
        x = n.wide(x) if left and word in SUMMING else x
    return x


def neighbours(axes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the runs of consecutive numbers."""
    runs = groupby(enumerate(axes), lambda pair: pair[1] - pair[0])
    return [tuple(axis for _, axis in run) for _, run in runs]


def axes_of(n: Node) -> tuple[int, ...] | None:
    """Return the axes that are reduced, in order. Return None where they are not known."""
    rank = len(n.shape_of(0))
    if n.has(1) and not n.is_constant(1):
        return None
    given = n.integers("axes", n.constant_integers(1) if n.has(1) else ())
    if not given and n.integer("noop_with_empty_axes", 0):
        return ()
    if any(not -rank <= a < rank for a in given):
        raise CheckError(f"axes {list(given)} are not all of a tensor of {rank} dimensions")
    return tuple(sorted(a % rank for a in given)) if given else tuple(range(rank))


def _over(word: str) -> Over:
    return lambda n, x, axes: reduce_axes(n, word, x, axes)


def _reduction(over: Over, nothing: float) -> Rule:
    """Return a rule of a reduction. `over` gives the result with axes of one element. `nothing` is the result of no elements."""
    def rule(n: Node) -> bool:
        axes = axes_of(n)
        if axes is None or n.dtype_of(0) not in KNOWN:
            return False
        if 0 in n.shape_of(0):
            return n.emit_constant(np.full(n.shape(), empty(nothing, n.dtype())))
        return n.emit("reshape", [over(n, n.input(0), axes)], {"shape": n.shape()})
    return rule


def empty(nothing: float, dtype: str) -> float:
    """Return the result of reducing no elements. For whole numbers, it is the least or greatest number in place of infinity."""
    if dtype in REALS or abs(nothing) != inf:
        return nothing
    limits = np.iinfo(NUMPY[dtype]) if dtype != "bool" else None
    return (limits.max if limits else 1) if nothing > 0 else limits.min if limits else 0


def _mean(n: Node, x: str, axes: Sequence[int]) -> str:
    """Return the mean over both dimensions of an image is pooling, which takes channels in blocks."""
    if (len(n.shape_of(0)), tuple(axes)) == (4, (2, 3)):
        return n.step("global_avg_pool", [x])
    return reduce_axes(n, "reduce_mean", x, axes)


def _prod(n: Node, x: str, axes: Sequence[int]) -> str:
    for axis in axes:
        x = reduce_by_halves(n, "mul", x, axis)
    return x


def reduce_by_halves(n: Node, word: str, x: str, axis: int) -> str:
    """Reduce an axis to one element by an operator of two arguments, on halves until one element is left.
    What halves leave over comes at the end."""
    left: list[str] = []
    while (size := n.draft.tensors[x].shape[axis]) > 1:
        first, second = (n.step("slice", *part(n, x, axis, at, size // 2)) for at in (0, size // 2))
        left += [n.step("slice", *part(n, x, axis, size - 1, 1))] if size % 2 else []
        x = n.step(word, [first, second])
    for last in left:
        x = n.step(word, [x, last])
    return x


def _log_sum_exp(n: Node, x: str, axes: Sequence[int]) -> str:
    """Return the log of the sum of exp. The greatest element is subtracted first, so that nothing overflows, and added again. An infinite
    one is not subtracted, since that would leave NaN."""
    top = reduce_axes(n, "reduce_max", x, axes)
    top = n.step("where", [n.step("is_inf", [top], dtype="bool"), n.zeros("nothing", ()), top], dtype=n.made_dtype(top))
    total = reduce_axes(n, "reduce_sum", n.step("exp", [n.step("sub", [x, top])]), axes)
    return n.step("add", [n.step("log", [total]), top])


def _sum_of_squares(n: Node, x: str, axes: Sequence[int]) -> str:
    return reduce_axes(n, "reduce_sum", n.step("mul", [x, x]), axes)


RULES: dict[str, Rule] = {
    "ReduceL1": _reduction(lambda n, x, axes: reduce_axes(n, "reduce_sum", n.step("abs", [x]), axes), 0),
    "ReduceL2": _reduction(lambda n, x, axes: n.step("sqrt", [_sum_of_squares(n, x, axes)]), 0),
    "ReduceLogSum": _reduction(lambda n, x, axes: n.step("log", [reduce_axes(n, "reduce_sum", x, axes)]), -inf),
    "ReduceLogSumExp": _reduction(_log_sum_exp, -inf), "ReduceMax": _reduction(_over("reduce_max"), -inf),
    "ReduceMean": _reduction(_mean, nan), "ReduceMin": _reduction(_over("reduce_min"), inf), "ReduceProd": _reduction(_prod, 1),
    "ReduceSum": _reduction(_over("reduce_sum"), 0),
    "ReduceSumSquare": _reduction(_sum_of_squares, 0),
}
ANY_DTYPE = frozenset({"ReduceL1", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"})  # those that whole numbers have
