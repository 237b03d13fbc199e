"""Cyclic garbage, which Python looks for each time so many objects were made: a fifth of the time where most of what is made stays."""
from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MADE = 100_000  # objects, some ten MB, after which it is looked for


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage less often within this context, or within a function that it decorates. The threshold becomes MADE objects, or
    stays where it was higher already."""
    _within.enter()
    try:
        yield
    finally:
        _within.leave()


class _Within:
    """How many are within it now, of all threads, and what was set before the first came."""

    def __init__(self) -> None:
        self.lock, self.count, self.was = threading.Lock(), 0, gc.get_threshold()

    def enter(self) -> None:
        with self.lock:
            if not self.count:
                self.was = gc.get_threshold()
                if self.was[0]:  # else somebody wants none looked for
                    gc.set_threshold(max(self.was[0], MADE), *self.was[1:])
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count:
                gc.set_threshold(*self.was)


_within = _Within()
