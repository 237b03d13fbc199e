"""Grid axes over which iterations are dealt out in turn: the first cores of such an axis have one iteration more than the others."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from aoec.ir.index import Call, Expr, Var, children, evaluate, variables
from aoec.ir.program import For, Item, Stream


def dealt(stream: Stream) -> dict[str, Expr]:
    """Return axis -> the trip count that is dealt out over it: one that depends on it and on no loop, otherwise than by a cut at its
    end."""
    found: dict[str, Expr] = {}
    for trips in _trips(stream.body):
        for axis, _ in stream.grid:
            if variables(trips) == {axis} and _uncut(trips, axis):
                found.setdefault(axis, trips)
    return found


def longer(trips: Expr, axis: str, extent: Expr, env: Mapping[str, Any]) -> Any:
    """Return how many of the first coordinates of an axis have the trips of the very first; int64[row], `env` giving holes by row."""
    n = np.atleast_1d(np.asarray(evaluate(extent, env), np.int64))[:, None]
    columns = {name: np.atleast_1d(np.asarray(v))[:, None] for name, v in env.items()}
    places = np.arange(max(1, int(n.max())))[None, :]
    values = np.atleast_2d(evaluate(trips, {**columns, axis: places}))
    other = (values != values[:, :1]) | (places >= n)  # the count of cores may be one for all rows, and so may the trips
    return np.where(other.any(axis=1), other.argmax(axis=1), np.broadcast_to(n[:, 0], len(other)))


def _trips(items: Iterable[Item]) -> Iterator[Expr]:
    for item in items:
        if isinstance(item, For):
            yield item.trips
            yield from _trips(item.body)


def _uncut(e: Expr, axis: str) -> bool:
    """Return whether the axis occurs outside a minimum."""
    if isinstance(e, Call) and e.fn == "min":
        return False
    return e == Var(axis) or any(_uncut(c, axis) for c in children(e))
