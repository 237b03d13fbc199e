"""The kinds of tuning jobs, a file each. A kind is known by its file: no list names it, and its name is that of the file."""
from __future__ import annotations

import importlib
from functools import cache

from aoec.base.modules import module_names
from aoec.jobs.kind import Kind


def names() -> tuple[str, ...]:
    """Return the names of all kinds."""
    return module_names(__name__)


@cache
def load(name: str) -> Kind:
    """Return the kind of this name."""
    kind: Kind = importlib.import_module(f"{__name__}.{name}").KIND
    return kind


def describe_all() -> str:
    """Return what each kind does, in words."""
    return ". ".join(f"{name}: {load(name).about}" for name in names())
