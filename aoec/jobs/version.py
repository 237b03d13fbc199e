"""The version of the model, of the languages and of the sources. Records of another model version are stale.

The model version changes when a modelled time can change. It is a hash of what the sources mean (base/source_meaning.py): names, files,
docstrings, messages and types do not count. The hash takes seconds to compute, once for each state of the sources.
"""
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from aoec.base.files.memo import Memo, cache_folder
from aoec.base.process.garbage import seldom_collected
from aoec.base.source_meaning import hash_sources

# packages that decide a modelled time: what is emitted, and how it is timed
TIMING = ("aoec.ir", "aoec.ops", "aoec.primitives", "aoec.lowering", "aoec.simulate", "aoec.target", "aoec.kernels")
# of which they import modules
BELOW = ("aoec.base",)
# packages that make what is kept: graphs, programs, times of default schedules
MAKING = (*TIMING, *BELOW, "aoec.grammars", "aoec.frontend", "aoec.search", "aoec.jobs")
FORMAT = "2"  # of the hash


@lru_cache(maxsize=1)
def model_version() -> str:
    """Return 16 hex digits for what the sources of emission, primitives and timing mean, with the modules that they import."""
    memo, state = Memo(cache_folder() / "model_version", FORMAT), _hash_files((*TIMING, *BELOW))
    found = memo.get(state)
    if not isinstance(found, str):
        found = version_of(model_sources())
        memo.put(found, state)
    return found


def model_sources() -> dict[str, str]:
    """Return the sources that can decide a modelled time, by module name; those of packages end in ".__init__"."""
    return {name: path.read_text("utf-8") for name, path in _modules((*TIMING, *BELOW))}


@seldom_collected()
def version_of(sources: dict[str, str]) -> str:
    """Return the model version that sources have, of which some may not decide a time."""
    return hash_sources(sources, [name for name in sources if name.startswith(TIMING)])


@lru_cache(maxsize=1)
def source_version() -> str:
    """Return the first 16 hex digits of a hash over the sources, grammars and rewrites. It covers all that makes data kept for later
    runs."""
    return _hash_files(MAKING, (".py", ".lark", ".rules"))


@lru_cache(maxsize=1)
def language_version() -> str:
    """Return the first 16 hex digits of the hash over the grammars in which schedules are written."""
    texts = [(_folder("aoec.grammars") / f"{name}.lark").read_bytes() for name in ("common", "index", "schedule")]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def _hash_files(packages: Iterable[str], suffixes: tuple[str, ...] = (".py",)) -> str:
    h = hashlib.sha256()
    for name, path in _modules(packages, suffixes):
        h.update(f"{name}\n".encode() + path.read_bytes())
    return h.hexdigest()[:16]


def _modules(packages: Iterable[str], suffixes: tuple[str, ...] = (".py",)) -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, file) of each file of packages with such a suffix, in the order of names."""
    for package in packages:
        folder = _folder(package)
        files = {".".join((package, *path.relative_to(folder).with_suffix("").parts)): path
                 for path in folder.rglob("*") if path.suffix in suffixes}
        yield from sorted(files.items())


def _folder(package: str) -> Path:
    """Return where a part of this package is; nothing is imported for it."""
    spec = find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])
