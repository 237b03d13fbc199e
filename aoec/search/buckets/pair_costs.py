"""What each bucket of a trace costs: a collective's time as a function of bytes, over all pairs of cuts."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.training import SCHEMES, Scheme, StepTrace

EQUAL = 1e-9  # share of a step by which two steps differ at most that are called equal
KEPT = 2_500  # gradients up to which the costs of all buckets are kept, which takes 50 MB at most; beyond, they are asked for again
BLOCK = 4_000_000  # costs that are asked for at once
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
    """Return the µs of buckets of `sizes` bytes, as float64 of the same shape. Raises CheckError where a cost is negative or no number."""
    found = np.asarray(costs.us(collective, sizes.ravel()), np.float64).reshape(sizes.shape)
    wrong = ~((found >= 0) & (found < np.inf))
    if wrong.any():
        at = np.flatnonzero(wrong)[0]
        raise CheckError(f"{collective} of {sizes.ravel()[at]:,} bytes costs {found.ravel()[at]:g} µs; a cost is a number of µs that is "
                         "not negative")
    return found


def check_scheme(scheme: str, channels: int, costs: Costs) -> None:
    """Raises CheckError where there is no such scheme, no channel, or a contention below 1."""
    if scheme not in SCHEMES:
        raise CheckError(f"there is no scheme {scheme!r}; there are {', '.join(SCHEMES)}")
    if channels < 1:
        raise CheckError(f"{channels} channels; give one or more")
    if not 1.0 <= costs.contention < float("inf"):
        raise CheckError(f"a contention of {costs.contention:g}; give 1.0 (none) or more")


class PairCosts:
    """Costs of the buckets of n gradients under one collective. Cut i lies before gradient i, from 0 to n; the bucket (i, j) holds
    gradients i to j - 1. A bucket above `most_bytes` costs inf, but for one of a single gradient, which cannot be made smaller."""

    def __init__(self, trace: StepTrace, costs: Costs, collective: str, most_bytes: int | None = None) -> None:
        sizes = np.array([g.size for g in trace.gradients], np.int64)
        self.count, self.cut = len(sizes), np.concatenate(([0], np.cumsum(sizes)))
        self.costs, self.collective, self.most_bytes, self.least = costs, collective, most_bytes, int(sizes.min())
        self._kept: np.ndarray | None = None
        if self.count <= KEPT:
            self._kept = self._find(np.arange(self.count + 1))

    def _find(self, ends: np.ndarray) -> np.ndarray:
        last = int(ends.max()) if len(ends) else 0
        sizes = self.cut[ends][:, None] - self.cut[None, :last]
        behind = np.arange(last)[None, :] >= ends[:, None]
        found = np.full((len(ends), self.count), np.inf)
        inner = found[:, :last]
        if last:
            inner[~behind] = price(self.costs, self.collective, sizes[~behind])
        if self.most_bytes is not None:
            inner[(sizes > self.most_bytes) & (np.arange(last)[None, :] != ends[:, None] - 1)] = np.inf
        return found

    def columns(self, ends: np.ndarray) -> np.ndarray:
        """Return the costs of all buckets that end at each cut of `ends`: shape (len(ends), n), by the cut that they begin at; inf where
        there is no such bucket. Ask for at most `block` of them."""
        return self._find(ends) if self._kept is None else self._kept[ends]

    @property
    def block(self) -> int:
        """How many ends to ask for at once."""
        return max(1, BLOCK // max(self.count, 1))

    def by_end(self, backward: bool = False) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each cut from 1 to n, or from n to 1, with the costs of all buckets that end there: shape (n,), as `columns` has them."""
        cuts = np.arange(self.count, 0, -1) if backward else np.arange(1, self.count + 1)
        for begin in range(0, self.count, self.block):
            ends = cuts[begin:begin + self.block]
            yield from zip(ends.tolist(), self.columns(ends), strict=True)

    def one(self, begin: int, end: int) -> float:
        """Return the cost of one bucket."""
        return float(self.columns(np.array([end]))[0, begin])

    def row(self, begin: int) -> np.ndarray:
        """Return the costs of all buckets that begin at a cut: shape (n + 1,), by the cut that they end at."""
        if self._kept is not None:
            return self._kept[:, begin]
        found = np.full(self.count + 1, np.inf)
        sizes = self.cut[begin + 1:] - self.cut[begin]
        found[begin + 1:] = price(self.costs, self.collective, sizes)
        if self.most_bytes is not None:
            found[begin + 2:][sizes[1:] > self.most_bytes] = np.inf
        return found
