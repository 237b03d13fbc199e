"""Name -> operator for every word that a module of this folder declares in its `OPS`."""
from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from aoec.base.errors import UnsupportedError
from aoec.base.text import nearest
from aoec.ops.declare import Op

# modules that use operators and declare none
_MACHINERY = {"check", "control", "declare", "gradient", "host", "host_recurrent", "host_reference", "host_resize",
              "host_windows", "interpret",
              "meanings", "narrowed", "own", "registry", "resizing", "run", "slices", "typed"}


def _load() -> dict[str, Op]:
    modules = sorted(m.name for m in iter_modules([str(Path(__file__).parent)]) if m.name not in _MACHINERY)
    return {op.name: op for name in modules for op in import_module(f"aoec.ops.{name}").OPS}


OPS: dict[str, Op] = _load()


def get(name: str) -> Op:
    """The operator of that name; UnsupportedError where the dictionary has none."""
    if name not in OPS:
        raise UnsupportedError(f"operator {name} is not in the dictionary{nearest(name, OPS)}")
    return OPS[name]
