"""Name -> operator for every word that a module in words/ declares in its `OPS`."""
from __future__ import annotations

from importlib import import_module

from aoec.base.errors import UnsupportedError
from aoec.base.modules import module_names
from aoec.base.text import nearest
from aoec.ops.declare import Op

WORDS = "aoec.ops.words"


def _load() -> dict[str, Op]:
    return {op.name: op for name in module_names(WORDS) for op in import_module(f"{WORDS}.{name}").OPS}


OPS: dict[str, Op] = _load()


def get(name: str) -> Op:
    """Return the operator of that name. Raise UnsupportedError where the dictionary has none."""
    if name not in OPS:
        raise UnsupportedError(f"operator {name} is not in the dictionary{nearest(name, OPS)}")
    return OPS[name]
