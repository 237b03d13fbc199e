"""Results of this user's earlier runs, looked up instead of made again. base/files/memo.py says why they can be trusted."""
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
    """Return the value that is kept under a key. Where there is none, or none that can be used, make it with `make` and keep it.

    `to` and `back` turn it into plain values and back. The key names everything that it depends on but the sources and packages of aoec. A
    value that was made is not kept where `whole` then returns False.
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
