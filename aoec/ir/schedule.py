"""Trace: a schedule, as a list of steps. A step is a primitive's name with fields; primitives.check gives it meaning."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from aoec.ir.index import Expr

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
