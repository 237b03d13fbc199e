"""The cuts of one channel whose last collective ends first, by dynamic programming over cuts.

A plan that has reached cut j is known by when its last bucket ends, f. The next bucket (i, j) ends at max(f[i], ready[j]) + cost(i, j),
which never falls where f[i] grows. So the least f at each cut is enough, whatever the costs are: they may jump and dip.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.search.buckets.pair_costs import PairCosts

FEW = 12  # buckets beyond which one more look at all of them, to leave out those that come too late, is worth its time
CACHED = 1 << 15  # numbers that are worked on at once, which a core's cache holds
SLACK = 1e-12  # share of an end by which two ways to sum up differ at most


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


def without_late(chain: Chain, earliest: np.ndarray, until_us: float) -> Chain:
    """Return the chain without buckets that are in no plan that ends by `until_us`: for each cut, those in front of the first bucket that
    may be. `earliest`: the least ends at cuts."""
    first, latest = np.zeros(chain.costs.count + 1, np.int64), latest_ends(chain, None, until_us)
    for j, i, us in chain.costs.by_end():
        in_time = np.maximum(earliest[i:j], chain.ready[j]) + us <= latest[j] + SLACK * abs(until_us)
        first[j] = i + int(np.argmax(in_time)) if in_time.any() else j - 1
    return Chain(chain.ready, chain.costs.narrow(first))


def least_end_within(chain: Chain, earliest: np.ndarray, most: int, known_us: float) -> float:
    """Return the least end of plans of at most `most` buckets, of which one ends by `known_us`. `earliest`: the least ends at cuts."""
    if most > FEW:
        chain = without_late(chain, earliest, known_us)
    f = np.full((chain.costs.count + 1, most + 1), np.inf)  # f[j, k]: with at most k buckets up to cut j
    f[0], rows = 0.0, max(1, CACHED // most)
    for j, i, us in chain.costs.by_end():
        for begin in range(i, j, rows):
            part = np.maximum(f[begin:min(begin + rows, j), :-1], chain.ready[j])
            part += us[begin - i:begin - i + rows, None]
            f[j, 1:] = np.minimum(f[j, 1:], part.min(0))
    return float(f[-1, most])


def walk_end(chain: Chain, cuts: tuple[int, ...]) -> float:
    """Return when the last bucket of a plan ends."""
    end_us, at = 0.0, 0
    for cut in cuts:
        end_us, at = max(end_us, float(chain.ready[cut])) + float(chain.costs.column(cut)[at]), cut
    return end_us


def fewest_cuts(chain: Chain, earliest: np.ndarray, until_us: float) -> tuple[int, ...]:
    """Return the cuts behind each bucket of the plan that has the fewest buckets of all that end by `until_us`, given the least ends at
    cuts. Of several, each bucket in turn is the one that leaves the most time to spare, the shorter one among equals.

    Buckets are counted from the end: layer k has the latest time at which each cut may have ended so that k more buckets end in time."""
    n, ready = chain.costs.count, chain.ready
    latest = np.full(n + 1, -np.inf)
    latest[n] = until_us
    layers, active = [latest], np.array([n])
    while latest[0] < 0:
        if len(layers) == FEW:
            chain = without_late(chain, earliest, until_us)
        new, block = latest.copy(), chain.costs.block
        for begin in range(0, len(active), block):
            ends = active[begin:begin + block]
            low, us = chain.costs.window(ends)
            by = latest[ends][:, None] - us
            by[by < ready[ends][:, None]] = -np.inf
            new[low:low + us.shape[1]] = np.maximum(new[low:low + us.shape[1]], by.max(0))
        active = np.flatnonzero((new > latest) & (earliest <= new))
        assert len(active), "a plan that ends by then was there"
        latest = new
        layers.append(latest)
    cuts, at, end_us = [], 0, 0.0
    for latest in layers[-2::-1]:
        us = np.maximum(end_us, ready[at + 1:]) + chain.costs.row(at)[at + 1:]
        chosen = int(np.argmax(np.where(np.isfinite(us), latest[at + 1:] - us, -np.inf)))
        at, end_us = at + 1 + chosen, float(us[chosen])
        cuts.append(at)
    return tuple(cuts)
