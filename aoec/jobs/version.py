"""The version of the model: which sources a modelled time depends on. Records of another version are stale."""
from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

# packages whose text decides a modelled time: what is emitted, and how it is timed
PARTS = ("aoec.ir", "aoec.primitives", "aoec.lowering", "aoec.simulate", "aoec.target", "aoec.kernels")
# that make what is kept: graphs, programs, times of default schedules
ROOMS = (*PARTS, "aoec.base", "aoec.grammars", "aoec.ops", "aoec.frontend", "aoec.frontend.passes", "aoec.frontend.rules", "aoec.search",
         "aoec.jobs")


@lru_cache(maxsize=1)
def model_version() -> str:
    """The first 16 hex digits of the hash over the Python sources of emission, primitives and timing."""
    return _hashed(PARTS)


@lru_cache(maxsize=1)
def source_version() -> str:
    """The first 16 hex digits of the hash over the sources and grammars of all that makes what is kept for later runs."""
    return _hashed(ROOMS, (".py", ".lark"))


@lru_cache(maxsize=1)
def language_version() -> str:
    """The first 16 hex digits of the hash over the grammars in which schedules are written."""
    folder = find_spec("aoec.grammars")
    assert folder is not None and folder.submodule_search_locations is not None  # a part of this package
    texts = [(Path(folder.submodule_search_locations[0]) / f"{name}.lark").read_bytes() for name in ("common", "index", "schedule")]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def _hashed(packages: tuple[str, ...], suffixes: tuple[str, ...] = (".py",)) -> str:
    h = hashlib.sha256()
    for package in packages:
        spec = find_spec(package)  # and nothing is imported for it
        assert spec is not None and spec.submodule_search_locations is not None  # a part of this package
        for f in sorted(Path(spec.submodule_search_locations[0]).iterdir(), key=lambda f: f.name):
            if f.name.endswith(suffixes):
                h.update(f"{package}/{f.name}\n".encode() + f.read_bytes())
    return h.hexdigest()[:16]
