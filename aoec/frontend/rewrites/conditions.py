"""Conditions of rules that are no arithmetic on sizes: by name, each on tensors of a scene."""
from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from aoec.frontend.rewrites.scene import Scene

CONDITIONS: dict[str, Callable[..., bool]] = {}


def condition(test: Callable[..., bool]) -> Callable[..., bool]:
    """Return the function, which rules name from now on."""
    CONDITIONS[test.__name__] = test
    return test


MOST_BYTES = 16 << 20  # of a constant that is made of two smaller ones
MOST_TIMES = 8  # as large as both together


@condition
def join(scene: Scene, a: str, b: str) -> bool:
    """Return whether two constants can be added up to one: their sum must not be much larger than both, and must be a number where both
    are. The lowest number of a dtype is a mask, and twice that number would overflow. Two single numbers are added only if neither is lost.
    In 1 - x + 1e-8 the second keeps a logarithm finite where x is 1."""
    first, second = scene.draft.weights.get(a), scene.draft.weights.get(b)
    if first is None or second is None:
        return False
    try:
        size = prod(np.broadcast_shapes(first.shape, second.shape))
    except ValueError:
        return False
    if size * 4 > MOST_BYTES or size > MOST_TIMES * (first.size + second.size):
        return False
    with np.errstate(all="ignore"):
        total = (first.astype(np.float64) + second.astype(np.float64)).astype(np.float32)
        kept = np.isfinite(total) | ~np.isfinite(first) | ~np.isfinite(second)
    lost = size == 1 and loses(float(first.flat[0]), float(second.flat[0]))
    return bool(kept.all()) and not np.isnan(total).any() and not lost


def loses(a: float, b: float) -> bool:
    """Return whether the sum of two numbers in fp32 has less than ten bits of the smaller."""
    return a != 0 and b != 0 and abs(float(np.float32(a + b)) - (a + b)) > 2.0**-10 * min(abs(a), abs(b))
