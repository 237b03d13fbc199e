"""Machines of the same formulas as one whose numbers are columns: what works on columns of rows so does for rows on several machines."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from aoec.target.machine import Machine

APART = ("hash", "sources", "merged", "timing", "scopes")  # what a stack has of its first machine: no numbers, or none that vary


@lru_cache(maxsize=8)
def stack_machines(machines: tuple[Machine, ...]) -> Machine:
    """Return the first of the machines with each number in which they differ as a column of all theirs.
    They have the same formulas, pipes, counts and sizes (target/vary.py: vary_machine). It is for calculations with columns, and stands
    for no target."""
    return replace(machines[0], **{f.name: _join_values([getattr(m, f.name) for m in machines])
                                   for f in fields(Machine) if f.name not in APART})


def take_rows(stack: Machine, which: np.ndarray) -> Machine:
    """Return a stack in which each column has one number a row: that of the row's machine, `which` [row]."""
    return replace(stack, **{f.name: _map_columns(getattr(stack, f.name), lambda column: column[which])
                             for f in fields(Machine) if f.name not in APART})


def _join_values(values: Sequence[Any]) -> Any:
    """Join what several machines say at one place: numbers that differ become a column."""
    first = values[0]
    if isinstance(first, dict):
        return {key: _join_values([v[key] for v in values]) for key in first}
    if isinstance(first, tuple):
        return tuple(_join_values(parts) for parts in zip(*values, strict=True))
    if is_dataclass(first):
        return replace(first, **{f.name: _join_values([getattr(v, f.name) for v in values]) for f in fields(first)})  # type: ignore[type-var]
    return first if all(v == first for v in values) else np.array(values)


def _map_columns(value: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Change each column of a value."""
    if isinstance(value, np.ndarray):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_columns(v, change) for key, v in value.items()}
    if isinstance(value, tuple):
        return tuple(_map_columns(v, change) for v in value)
    if is_dataclass(value):
        return replace(value, **{f.name: _map_columns(getattr(value, f.name), change) for f in fields(value)})  # type: ignore[type-var]
    return value
