"""Trace: a schedule, as a list of steps. A step is a primitive's name with fields; primitives.check gives it meaning."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from aoec.ir.index import Expr, fill, holes

Value = Union[Expr, str, tuple[str, ...]]  # a number or hole, a name, a list of names


@dataclass(frozen=True, slots=True)
class Step:
    primitive: str
    fields: tuple[tuple[str, Value], ...]

    def __getitem__(self, name: str) -> Value:
        return dict(self.fields)[name]


@dataclass(frozen=True, slots=True)
class Trace:
    """A candidate if it has no holes, a sketch otherwise."""

    steps: tuple[Step, ...]


def trace_holes(t: Trace) -> dict[str, tuple[int, ...]]:
    """Hole name -> choices, in order of first mention."""
    out: dict[str, tuple[int, ...]] = {}
    for s in t.steps:
        for _, v in s.fields:
            if isinstance(v, Expr):
                for name, choices in holes(v).items():
                    out[name] = choices or out.get(name, ())
    return out


def fill_trace(t: Trace, values: dict[str, int]) -> Trace:
    """The trace with holes replaced by integers."""
    return Trace(tuple(
        Step(s.primitive, tuple((k, fill(v, values) if isinstance(v, Expr) else v) for k, v in s.fields)) for s in t.steps))
