"""An open Ascend Optimization Engine.

`aoec.compile` makes a compiled model of an ONNX model, and `aoec.Session` runs one. Both raise `aoec.AoecError` where something is wrong
with what they are given. `aoec.backend` is ONNX's backend interface. Each is imported when it is first asked for.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aoec import backend
    from aoec.api import Session, compile
    from aoec.base.errors import AoecError

    __version__: str

__all__ = ["AoecError", "Session", "__version__", "backend", "compile"]


def __getattr__(name: str) -> Any:
    """Import and return what a public name stands for."""
    if name not in __all__:
        raise AttributeError(f"module aoec has no attribute {name}")
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version
        try:
            return version("aoec")
        except PackageNotFoundError:  # the sources are on the path and nothing is installed
            return "unknown"
    if name == "backend":
        from importlib import import_module
        return import_module("aoec.backend")
    if name == "AoecError":
        from aoec.base.errors import AoecError
        return AoecError
    from aoec import api
    return getattr(api, name)


def __dir__() -> list[str]:
    """Return the public names, imported already or not, and those that Python gives every module."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
