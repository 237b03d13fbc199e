"""Intervals of an index: what a tiled loop visits, one interval a trip; and what of a tensor's dimension that touches."""
from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from aoec.search.fused.chain import Index

Array = np.ndarray[Any, np.dtype[np.int64]]


class Spans:
    """Half-open intervals in the order of their visits. Two of one content are one object, so that they compare by identity.

    `box`: the longest. `overlap`: the most that one has in common with those before it.
    """

    __slots__ = ("box", "hi", "lo", "overlap", "total", "trips")

    def __init__(self, lo: Array, hi: Array) -> None:
        self.lo, self.hi = lo, hi
        self.trips, self.total, self.box = len(lo), int((hi - lo).sum()), int((hi - lo).max())
        self.overlap = int(max(0, (np.minimum(np.maximum.accumulate(hi)[:-1], hi[1:]) - lo[1:]).max(initial=0)))

    def pairs(self) -> list[tuple[int, int]]:
        """Return the intervals as (start, stop)."""
        return [(int(a), int(b)) for a, b in zip(self.lo, self.hi, strict=True)]


_ALL: dict[tuple[bytes, bytes], Spans] = {}


def spans(lo: Array, hi: Array) -> Spans:
    """Return the object of these intervals; an empty one begins where it ends."""
    hi = np.maximum(lo, hi)
    key = lo.tobytes(), hi.tobytes()
    found = _ALL.get(key)
    if found is None:
        if len(_ALL) > 1 << 16:
            _forget()
        found = _ALL[key] = Spans(lo, hi)
    return found


def _forget() -> None:
    _ALL.clear()
    for cached in (tile_loop, split, image, fresh, cover):
        cached.cache_clear()


@lru_cache(maxsize=1 << 16)
def tile_loop(extent: int, tile: int) -> Spans:
    """Return a loop cut into tiles; the last one may be shorter."""
    lo = np.arange(0, extent, tile, dtype=np.int64)
    return spans(lo, np.minimum(lo + tile, extent))


@lru_cache(maxsize=1 << 16)
def split(outer: Spans, tile: int) -> Spans:
    """Return each interval cut into tiles."""
    if tile >= outer.box:
        return outer
    counts = np.maximum(-(-(outer.hi - outer.lo) // tile), 1)
    first = np.cumsum(counts) - counts
    lo = np.repeat(outer.lo, counts) + tile * (np.arange(int(counts.sum())) - np.repeat(first, counts))
    return spans(lo, np.minimum(lo + tile, np.repeat(outer.hi, counts)))


@lru_cache(maxsize=1 << 17)
def image(index: Index, loops: tuple[Spans, ...], extent: int) -> Spans:
    """Return what of a dimension each combination of trips touches, the last loop of the index innermost, clipped to the dimension."""
    lo = np.full(1, index.offset, np.int64)
    hi = lo + 1
    for (_, step), of in zip(index.terms, loops, strict=True):
        empty = of.lo >= of.hi
        lo = np.add.outer(lo, step * of.lo).ravel()
        hi = np.add.outer(hi, np.where(empty, step * of.lo - 1, step * (of.hi - 1))).ravel()
    return spans(np.clip(lo, 0, extent), np.clip(hi, 0, extent))


@lru_cache(maxsize=1 << 16)
def fresh(of: Spans) -> Spans:
    """Return what of each interval no interval before it held."""
    seen = np.concatenate((of.lo[:1], np.maximum.accumulate(of.hi)[:-1]))
    return spans(np.maximum(of.lo, seen), of.hi)


@lru_cache(maxsize=1 << 16)
def cover(of: Spans, extent: int) -> Spans:
    """Return the intervals with what lies between two of them, or after the last, added to the one before; from 0 to the extent."""
    reach = np.maximum.accumulate(of.hi)
    until = np.append(of.lo[1:], extent)
    lo = of.lo.copy()
    lo[0] = 0
    return spans(lo, np.where(until > reach, until, of.hi))


@lru_cache(maxsize=1 << 12)
def divisors(n: int) -> tuple[int, ...]:
    """Return divisors from the largest."""
    low = [d for d in range(1, int(n ** 0.5) + 1) if n % d == 0]
    return tuple(sorted({*low, *(n // d for d in low)}, reverse=True))


def touches(index: Index, where: Mapping[str, Spans], extent: int) -> Spans:
    """Return what of a dimension is touched where each loop stands as given."""
    return image(index, tuple(where[v] for v, _ in index.terms), extent)
