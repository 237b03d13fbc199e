"""Sizes and numbers of a rule: what its lists and expressions are for a match, and what a shape or an attribute tells of them."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, inf, log, pow, prod, sqrt
from typing import Any, Union

from aoec.base.errors import CheckError
from aoec.ir.graph.rule import OF_LISTS, List, Spread
from aoec.ir.index import INT_CALLS, INT_OPS, Binary, Call, Expr, Float, Int, Var

Given = Union[int, float, str, tuple[Any, ...]]
Values = dict[str, Given]
REAL_CALLS: dict[str, Callable[..., Any]] = {
    "sqrt": sqrt, "exp": exp, "log": log, "pow": pow, "floor": lambda x: float(int(x // 1)), "reciprocal": lambda x: 1.0 / x,
    "rsqrt": lambda x: 1.0 / sqrt(x)}


class Open(Exception):
    """A name that has no value yet."""


class Misfit(Exception):
    """A shape, attribute or condition that does not fit."""


def evaluate(e: Expr | str, values: Mapping[str, Given]) -> Given:
    """Return the value of an expression. Raise Open where a name has none. Raise Misfit where it has none that is a number (1 / 0)."""
    if isinstance(e, str):
        return e
    if isinstance(e, Int | Float):
        return e.value
    if isinstance(e, Var):
        if e.name not in values:
            raise Open(e.name)
        return values[e.name]
    try:
        if isinstance(e, Binary):
            return INT_OPS[e.op](_number(e.left, values), _number(e.right, values))  # type: ignore[no-any-return]
        if isinstance(e, Call):
            if e.fn in OF_LISTS:
                return (len if e.fn == "len" else prod)(_list(evaluate(e.args[0], values)))
            args = [_number(a, values) for a in e.args]
            calls: Mapping[str, Callable[..., Any]] = INT_CALLS if e.fn in INT_CALLS else REAL_CALLS
            return calls[e.fn](*args)  # type: ignore[no-any-return]
    except (ArithmeticError, TypeError, ValueError, KeyError, CheckError) as fault:
        raise Misfit(str(fault)) from fault
    raise Misfit(type(e).__name__)


def _number(e: Expr, values: Mapping[str, Given]) -> int | float:
    """Return the value of an expression that is a number: of a list nothing is calculated."""
    value = evaluate(e, values)
    if not isinstance(value, int | float):
        raise Misfit("no number")
    return value


def _list(value: Given) -> tuple[Any, ...]:
    if not isinstance(value, tuple):
        raise Misfit("no list")
    return value


def numbers_of(items: List, values: Mapping[str, Given]) -> tuple[Any, ...]:
    """Return the list that items say. Raise Open where a name has no value."""
    out: list[Any] = []
    for item in items:
        if not isinstance(item, Spread):
            out.append(evaluate(item, values))
            continue
        if item.name not in values:
            raise Open(item.name)
        of = _list(values[item.name])
        out += {"": of, "zeros": (0,) * len(of), "ones": (1,) * len(of), "axes": tuple(range(len(of)))}[item.fill]
    return tuple(out)


def unify(value: Expr | List | str, given: Given, values: Values) -> None:
    """Give unknown names of the value the numbers that make it equal to what is given. Raise Misfit where no numbers do, and Open where
    more has to be known first."""
    if isinstance(value, tuple):
        if not isinstance(given, tuple):
            raise Misfit("a list")
        _unify_list(value, given, values)
    elif isinstance(value, Var) and value.name not in values:
        values[value.name] = given
    elif (factor := _linear(value, values)) is not None and not isinstance(given, tuple | str):
        name, by = factor
        if by == 0 or given % by:
            raise Misfit(name)
        values[name] = given // by
    elif evaluate(value, values) != given:
        raise Misfit("another value")


def _linear(e: Expr | str, values: Values) -> tuple[str, int] | None:
    """Return (name, factor) of a product of a whole number and a name without a value."""
    if isinstance(e, Binary) and e.op == "*":
        for factor, name in ((e.left, e.right), (e.right, e.left)):
            if isinstance(factor, Int) and isinstance(name, Var) and name.name not in values:
                return name.name, factor.value
    return None


def _unify_list(items: List, given: tuple[Any, ...], values: Values) -> None:
    lengths = [1 if not isinstance(i, Spread) else len(_list(values[i.name])) if i.name in values else -1 for i in items]
    free = lengths.count(-1)
    rest = len(given) - sum(n for n in lengths if n >= 0)
    if free > 1:
        raise Open("two lists")
    if rest < 0 or not free and rest:
        raise Misfit("another length")
    start, open_ = 0, ""
    for item, length in zip(items, lengths):
        part = given[start:start + (rest if length < 0 else length)]
        start += len(part)
        if isinstance(item, Spread) and length < 0:
            if item.fill and (item.fill != "ones" or any(n != 1 for n in part)):
                raise Open(item.name)
            values[item.name] = part
        elif isinstance(item, Spread):
            if numbers_of((item,), values) != part:
                raise Misfit(item.name)
        else:
            try:
                unify(item, part[0], values)
            except Open as fault:
                open_ = str(fault)
        if isinstance(item, Spread) and item.wide:
            _check_wide(item, values)
    if open_:
        raise Open(open_)


def _check_wide(item: Spread, values: Values) -> None:
    if item.wide not in values:
        raise Open(item.wide)
    own, wide = values[item.name], values[item.wide]
    if not isinstance(own, tuple) or not isinstance(wide, tuple) or len(own) > len(wide) or any(
            a not in (1, b) for a, b in zip(reversed(own), reversed(wide))):
        raise Misfit(item.name)


def is_near(a: float, b: float, near: bool) -> bool:
    """Return whether two numbers are the same; `near`: within 1 / 10,000."""
    return a == b or abs(a - b) <= (1e-4 if near else 1e-12) * max(abs(a), abs(b)) < inf
