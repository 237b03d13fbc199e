"""The cuts of one channel whose last collective ends first, by dynamic programming over cuts.

A plan that has reached cut j is known by when its last bucket ends, f. The next bucket (i, j) ends at max(f[i], ready[j]) + cost(i, j),
which never falls where f[i] grows. So the least f at each cut is enough, whatever the costs are: they may jump and dip.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.search.buckets.pair_costs import PairCosts


@dataclass(frozen=True, slots=True)
class Chain:
    """Buckets of one channel: when each cut's gradients are made (`ready`, shape (n + 1,), ready[0] = 0), and what buckets cost."""

    ready: np.ndarray
    costs: PairCosts


def earliest_ends(chain: Chain, delays: np.ndarray | None = None, begin_us: float = 0.0) -> np.ndarray:
    """Return the least time at which all buckets up to each cut can have ended: shape (n + 1,), inf where no plan reaches it. `delays`:
    by how many µs what is made comes later for a bucket that begins at each cut, shape (n + 1,)."""
    n = chain.costs.count
    f = np.full(n + 1, np.inf)
    f[0] = begin_us
    for j, i, us in chain.costs.by_end():
        ready = chain.ready[j] if delays is None else chain.ready[j] + delays[i:j]
        f[j] = (np.maximum(f[i:j], ready) + us).min()
    return f


def latest_ends(chain: Chain, delays: np.ndarray | None, until_us: float) -> np.ndarray:
    """Return the latest time at which buckets up to each cut may have ended so that the last one ends by `until_us`: shape (n + 1,), -inf
    where none does. `delays` as above."""
    n = chain.costs.count
    latest = np.full(n + 1, -np.inf)
    latest[n] = until_us
    for j, i, us in chain.costs.by_end(backward=True):
        if latest[j] > -np.inf:
            by = latest[j] - us
            by[by < (chain.ready[j] if delays is None else chain.ready[j] + delays[i:j])] = -np.inf
            latest[i:j] = np.maximum(latest[i:j], by)
    return latest


def sums_behind(chain: Chain) -> np.ndarray:
    """Return the least sum of costs of buckets up to each cut: shape (n + 1,)."""
    out = np.full(chain.costs.count + 1, np.inf)
    out[0] = 0.0
    for j, i, us in chain.costs.by_end():
        out[j] = (out[i:j] + us).min()
    return out


def sums_ahead(chain: Chain) -> np.ndarray:
    """Return the least sum of costs of buckets behind each cut: shape (n + 1,)."""
    out = np.full(chain.costs.count + 1, np.inf)
    out[-1] = 0.0
    for j, i, us in chain.costs.by_end(backward=True):
        out[i:j] = np.minimum(out[i:j], out[j] + us)
    return out


def least_end_within(chain: Chain, most: int) -> float:
    """Return the least end of plans of at most `most` buckets; inf where there is none."""
    n = chain.costs.count
    f = np.full((most + 1, n + 1), np.inf)  # f[k, j]: with at most k buckets up to cut j
    f[:, 0] = 0.0
    for j, i, us in chain.costs.by_end():
        f[1:, j] = (np.maximum(f[:-1, i:j], chain.ready[j]) + us).min(1)
    return float(f[most, n])


def fewest_cuts(chain: Chain, least: np.ndarray, until_us: float) -> tuple[int, ...]:
    """Return the cuts behind each bucket of the plan that has the fewest buckets of all that end by `until_us`, given the least ends at
    cuts. Of several, each bucket in turn is the one that leaves the most time to spare, the shorter one among equals.

    Buckets are counted from the end: by[k][i] is the latest time at which cut i may have ended so that k more buckets end in time."""
    n, ready = chain.costs.count, chain.ready
    latest = np.full(n + 1, -np.inf)
    latest[n] = until_us
    layers, active = [latest], np.array([n])
    while latest[0] < 0:
        new = latest.copy()
        for begin in range(0, len(active), chain.costs.block):
            ends = active[begin:begin + chain.costs.block]
            low, us = chain.costs.window(ends)
            by = latest[ends][:, None] - us
            by[by < ready[ends][:, None]] = -np.inf
            new[low:low + us.shape[1]] = np.maximum(new[low:low + us.shape[1]], by.max(0))
        active = np.flatnonzero((new > latest) & (least <= new))
        assert len(active), "a plan that ends by then was there"
        latest = new
        layers.append(latest)
    cuts, at, end_us = [], 0, 0.0
    for latest in layers[-2::-1]:
        row = np.maximum(end_us, ready) + chain.costs.row(at)
        spare = latest[at + 1:] - row[at + 1:]
        to = at + 1 + int(np.argmax(np.where(np.isfinite(row[at + 1:]), spare, -np.inf)))
        at, end_us = to, float(row[to])
        cuts.append(at)
    return tuple(cuts)
