"""Memory that is used again and again.

Without it, getting a megabyte from the system, touching it for the first time and giving it back took longer than timing ten rows. An arena
keeps what it has, and knows how much all that was cut off it took together.
"""
from __future__ import annotations

from math import prod
from threading import local
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SMALL_BYTES, LINE_BYTES = 4096, 64  # what the allocator has at hand anyway; where arrays begin


class Arena:
    """Arrays by NumPy's own words, cut off one block of memory, until `begin` takes all of them back."""

    def __init__(self) -> None:
        self.block, self.used, self.wanted = np.empty(0, np.uint8), 0, 0

    def begin(self) -> Arena:
        """Take back all arrays, and return the arena. The next arrays overwrite the earlier ones, which nobody may use any more."""
        if self.wanted > len(self.block):
            self.block = np.empty(self.wanted, np.uint8)
        self.used = self.wanted = 0
        return self

    def empty(self, shape: Any, dtype: Any) -> Array:
        """Return an array of whatever was there."""
        size = prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize
        if size < SMALL_BYTES:
            return np.empty(shape, dtype)
        start, room = self.used, -(-size // LINE_BYTES) * LINE_BYTES
        self.wanted += room
        if start + room > len(self.block):
            return np.empty(shape, dtype)
        self.used += room
        return self.block[start:start + size].view(dtype).reshape(shape)

    def zeros(self, shape: Any, dtype: Any) -> Array:
        """Return an array of zeros."""
        out = self.empty(shape, dtype)
        out.fill(0)
        return out


_mine = local()


def of_this_thread() -> Arena:
    """Return the arena of this thread, begun anew."""
    if not hasattr(_mine, "arena"):
        _mine.arena = Arena()
    arena: Arena = _mine.arena
    return arena.begin()
