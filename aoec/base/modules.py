"""Folders whose files are the entries of a dictionary: what is in them is known by their names, and no list repeats it."""
from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def module_names(package: str) -> tuple[str, ...]:
    """Return the names of a package's modules, sorted; none of them is imported."""
    return tuple(sorted(m.name for m in iter_modules(import_module(package).__path__)))
