"""The folder where Numba keeps compiled kernels. Numba runs what it finds there, so no other user may be able to write to it.

Numba takes $NUMBA_CACHE_DIR, else a folder beside the kernels' source, else one in the user's cache. Where another user may have
written to that folder, kernels are kept in a folder of aoec's own in the user's cache. Where that is not safe either, they are kept in
a temporary one. It is named in $NUMBA_CACHE_DIR, which processes that are started later read.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path

from aoec.base.files.memo import cache_folder
from aoec.base.files.ownership import why_not_own

VARIABLE = "NUMBA_CACHE_DIR"
ENDINGS = (".nbi", ".nbc")  # Numba's index of a function and its code


@dataclass(frozen=True)
class Choice:
    """The folder that kernels are kept in, and why it is not the one that Numba would take; "" where it is."""

    folder: Path
    why: str = ""


def settle() -> Choice:
    """Return where kernels are kept; Numba keeps them there from now on, in this process and in those that it starts."""
    found = choose_folder()
    if found.why and os.environ.get(VARIABLE) != str(found.folder):
        _make_private(found.folder)
        os.environ[VARIABLE] = str(found.folder)
        if "numba" in sys.modules:
            sys.modules["numba"].config.CACHE_DIR = str(found.folder)
    return found


@lru_cache(maxsize=1)
def choose_folder() -> Choice:
    """Return where kernels are to be kept; nothing is made but, where no safe folder is, a temporary one."""
    folder = numbas_own()
    why = why_not_own(_cache_subfolder(folder), ENDINGS)
    if not why and _can_write(folder):
        return Choice(folder)
    why = why or f"{folder} cannot be written"
    private = cache_folder().absolute() / "kernels"
    if _can_write(private) and not why_not_own(_cache_subfolder(private), ENDINGS):
        return Choice(private, why)
    temporary = tempfile.mkdtemp(prefix="aoec-kernels-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Choice(Path(temporary), f"{why}, and no folder in the user's cache can be used: kernels are compiled anew by each command")


def _make_private(folder: Path) -> None:
    """Make the folder where there is none. Only this user may look into what had to be made for it."""
    with contextlib.suppress(OSError):  # Numba then says why it cannot write there
        for path in (*reversed(folder.parents), folder, _cache_subfolder(folder)):
            if not path.exists():
                path.mkdir(mode=0o700)


def numbas_own() -> Path:
    """Return where Numba would keep kernels: $NUMBA_CACHE_DIR, beside their source, or in the user's cache where that is read-only."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    beside = kernel_sources() / "__pycache__"
    if _can_write(beside):
        return beside
    from platformdirs import user_cache_path
    return user_cache_path("numba", appauthor=False)


def kernel_sources() -> Path:
    """Return the folder of the kernels' sources."""
    spec = find_spec("aoec.kernels")
    assert spec is not None and spec.origin is not None  # a part of this package
    return Path(spec.origin).parent


def _cache_subfolder(folder: Path) -> Path:
    """Return the folder that contains the kernels' files (numba.core.caching, get_suitable_cache_subpath). Beside the source it is that
    folder itself. Elsewhere it is a subfolder named by the source's place."""
    sources = kernel_sources()
    if folder == sources / "__pycache__":
        return folder
    path = os.path.abspath(sources)
    return folder / f"{os.path.basename(path)}_{sha1(path.encode()).hexdigest()}"


def _can_write(folder: Path) -> bool:
    """Return whether files can be made in a folder, which may be made first."""
    there = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
