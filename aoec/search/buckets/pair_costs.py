"""What each bucket of a trace costs: a collective's time as a function of bytes, over all pairs of cuts."""
from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Protocol

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.training import SCHEMES, Scheme, StepTrace

EQUAL = 1e-9  # share of a step by which two steps differ at most that are called equal
KEPT = 2_500  # gradients up to which the costs of all buckets are kept, which takes 50 MB at most; beyond, they are asked for again
BLOCK, SMALL_BLOCK = 4_000_000, 64  # costs that are asked for at once; ends of buckets at least
COLLECTIVES: dict[Scheme, tuple[str, ...]] = {
    "all_reduce": ("all_reduce",), "split": ("reduce_scatter", "all_gather"), "sharded": ("reduce_scatter", "all_gather")}


class Costs(Protocol):
    """The times of collectives on a system. `contention`: compute takes so many times as long while a collective runs; 1.0 for none."""

    @property
    def ranks(self) -> int: ...

    @property
    def contention(self) -> float: ...

    def us(self, collective: str, sizes: np.ndarray) -> np.ndarray:
        """Return µs of "all_reduce", "reduce_scatter" or "all_gather" of so many bytes each, of the whole tensor and not of a shard."""
        ...


def price(costs: Costs, collective: str, sizes: np.ndarray) -> np.ndarray:
    """Return the µs of buckets of `sizes` bytes, as float64 of the same shape. Raise CheckError where a cost is negative or no number."""
    found = np.asarray(costs.us(collective, sizes.ravel()), np.float64).reshape(sizes.shape)
    wrong = ~((found >= 0) & (found < np.inf))
    if wrong.any():
        at = np.flatnonzero(wrong)[0]
        raise CheckError(f"{collective} of {sizes.ravel()[at]:,} bytes costs {found.ravel()[at]:g} µs; a cost is a number of µs that is "
                         "not negative")
    return found


def check_scheme(scheme: str, channels: int, costs: Costs) -> None:
    """Raise CheckError where there is no such scheme, no channel, or a contention below 1."""
    if scheme not in SCHEMES:
        raise CheckError(f"there is no scheme {scheme!r}; there are {', '.join(SCHEMES)}")
    if channels < 1:
        raise CheckError(f"{channels} channels; give one or more")
    if not 1.0 <= costs.contention < float("inf"):
        raise CheckError(f"a contention of {costs.contention:g}; give 1.0 (none) or more")


class PairCosts:
    """Costs of the buckets of n gradients under one collective. Cut i lies before gradient i, from 0 to n; the bucket (i, j) holds
    gradients i to j - 1. Buckets above `most_bytes` are none, but for those of a single gradient, which cannot be made smaller.
    `first`: the least cut at which a bucket that ends at each cut may begin, shape (n + 1,)."""

    def __init__(self, trace: StepTrace, costs: Costs, collective: str, most_bytes: int | None = None) -> None:
        sizes = np.array([g.size for g in trace.gradients], np.int64)
        self.count, self.cut = len(sizes), np.concatenate(([0], np.cumsum(sizes)))
        self.costs, self.collective = costs, collective
        self.first = np.zeros(self.count + 1, np.int64)
        if most_bytes is not None:
            self.first[1:] = np.minimum(np.searchsorted(self.cut, self.cut[1:] - most_bytes), np.arange(self.count))
        self._kept: np.ndarray | None = None
        if self.count <= KEPT:
            self._kept = self._find(np.arange(self.count + 1), 0, self.count)

    @property
    def block(self) -> int:
        """Return how many ends to ask for at once."""
        widest = int((np.arange(self.count + 1) - self.first).max())
        return max(1, min(BLOCK // self.count, max(SMALL_BLOCK, widest)))

    def narrow(self, first: np.ndarray) -> PairCosts:
        """Return the costs of those buckets alone that begin at `first` or behind it, by the cut that they end at, shape (n + 1,)."""
        out = copy(self)
        out.first = np.maximum(self.first, first)
        return out

    def _find(self, ends: np.ndarray, low: int, high: int) -> np.ndarray:
        begins = np.arange(low, high)
        there = (begins < ends[:, None]) & (begins >= self.first[ends][:, None])
        found = np.full(there.shape, np.inf)
        found[there] = price(self.costs, self.collective, (self.cut[ends][:, None] - self.cut[low:high])[there])
        return found

    def window(self, ends: np.ndarray) -> tuple[int, np.ndarray]:
        """Return a cut, and the costs of all buckets that end at each cut of `ends` by the cut that they begin at, from that one on: shape
        (len(ends), w); inf where there is no such bucket. None of them begins in front of that cut. Ask for at most `block` ends."""
        low, high = int(self.first[ends].min()), int(ends.max())
        return low, self._find(ends, low, high) if self._kept is None else self._kept[ends, low:high]

    def by_end(self, backward: bool = False) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield each cut j from 1 to n, or from n to 1, with the least cut i where a bucket that ends there begins, and the costs of those
        from i, i + 1, ... j - 1 on: shape (j - i,)."""
        cuts = np.arange(self.count, 0, -1) if backward else np.arange(1, self.count + 1)
        block = self.block
        for begin in range(0, self.count, block):
            ends = cuts[begin:begin + block]
            low, found = self.window(ends)
            for j, row in zip(ends.tolist(), found, strict=True):
                i = int(self.first[j])
                yield j, i, row[i - low:j - low]

    def column(self, end: int) -> np.ndarray:
        """Return the costs of all buckets that end at a cut: shape (n,), by the cut that they begin at; inf where there is none."""
        return self._find(np.array([end]), 0, self.count)[0] if self._kept is None else self._kept[end]

    def row(self, begin: int) -> np.ndarray:
        """Return the costs of all buckets that begin at a cut: shape (n + 1,), by the cut that they end at; inf where there is none."""
        if self._kept is not None:
            return self._kept[:, begin]
        found = np.full(self.count + 1, np.inf)
        ends = begin + 1 + np.flatnonzero(self.first[begin + 1:] <= begin)
        found[ends] = price(self.costs, self.collective, self.cut[ends] - self.cut[begin])
        return found
