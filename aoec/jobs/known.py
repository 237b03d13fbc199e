"""What earlier runs of this user made and this one looks up: see base/files/memo.py for why it may be believed."""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np

from aoec.base.files.memo import Memo, cache_folder
from aoec.jobs.version import source_version

T = TypeVar("T")


def recall(at: tuple[str, ...], make: Callable[[], T], to: Callable[[T], Any], back: Callable[[Any], T],
          whole: Callable[[], bool] = lambda: True) -> T:
    """Return what is kept under a key; where that is nothing, or nothing that can be used, what `make` makes, which is kept from now on.

    `to` and `back` turn it into plain values and back. The key names all that it follows from but the sources and packages of aoec. Where
    `whole` then says no, what was made is not kept.
    """
    kept = memo().get(*at)
    if kept is not None:
        try:
            return back(kept)
        except (ValueError, TypeError, LookupError, AttributeError):
            pass
    made = make()
    if whole():
        memo().put(to(made), *at)
    return made


@lru_cache(maxsize=1)
def memo() -> Memo:
    """Return what these sources, with this NumPy, have made."""
    return Memo(cache_folder() / "made", f"{version('aoec')}-{source_version()}-numpy{np.__version__}")
