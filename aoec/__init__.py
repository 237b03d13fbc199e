"""An open Ascend Optimization Engine: `aoec.compile` makes a compiled model of an ONNX model, `aoec.Session` runs one, `aoec.backend` is
ONNX's backend interface. Each is imported when it is first asked for."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aoec.api import Session, compile

__all__ = ["Session", "compile"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module aoec has no attribute {name}")
    from aoec import api
    return getattr(api, name)
