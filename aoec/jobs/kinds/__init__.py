"""The kinds of tuning jobs, a file each. A kind is known by its file: no list names it, and its name is that of the file."""
from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from aoec.jobs.kind import Kind


@cache
def names() -> tuple[str, ...]:
    """The names of all kinds."""
    return tuple(sorted(m.name for m in pkgutil.iter_modules(__path__)))


@cache
def load(name: str) -> Kind:
    """The kind of this name."""
    kind: Kind = importlib.import_module(f"{__name__}.{name}").KIND
    return kind


def describe_all() -> str:
    """What each kind does, in words."""
    return ". ".join(f"{name}: {load(name).about}" for name in names())
