"""Cyclic garbage, which Python looks for each time so many objects were made: a fifth of the time where most of what is made stays."""
from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MADE = 100_000  # objects, some ten MB, after which it is looked for


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Nothing; within it, or a function that it decorates, garbage is looked for after MADE objects, or where that was more already, as
    before."""
    was = gc.get_threshold()
    if was[0]:  # else somebody wants none looked for
        gc.set_threshold(max(was[0], MADE), *was[1:])
    try:
        yield
    finally:
        gc.set_threshold(*was)
