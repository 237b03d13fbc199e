"""The spaces of plans of each scheme: what passes a bucket takes, and what a step is made of."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from aoec.ir.training import StepTrace
from aoec.search.buckets.label_search import Space, Step
from aoec.search.buckets.one_channel import Chain
from aoec.search.buckets.pair_costs import Costs, PairCosts


def ready_times(trace: StepTrace) -> np.ndarray:
    """Return when the gradients in front of each cut are made: shape (n + 1,), from 0."""
    return np.array([0.0, *(min(g.ready_us, trace.backward_us) for g in trace.gradients)])


def place_times(trace: StepTrace, cut: np.ndarray, is_split: bool) -> np.ndarray:
    """Return the work of the forward pass in front of which a bucket that ends at each cut must have arrived: shape (n + 1,), never rising.
    `cut`: bytes in front of each cut. With `is_split`, updates of buckets that arrive earlier are work of the pass."""
    reads = np.minimum.accumulate([trace.forward_us, *(g.read_us for g in trace.gradients)])
    return reads + trace.optimiser_us * (1 - cut / cut[-1]) if is_split else reads


def space_of(trace: StepTrace, costs: Costs, scheme: str, channels: int, pairs: Sequence[PairCosts], delay: float) -> Space:
    """Return the space of a scheme. `delay`: the share of a collective's time by which compute comes later, 1 - 1 / contention.

    All that is ready at work r of the backward pass is made at r + delay * (sum of the collectives before), whatever lies between. Where
    collectives go on after the end of compute, this says no more than that they do. So a label holds that sum. All-gathers begin at A: the
    forward pass has begun, the reduce-scatters have ended. The last bucket is the first. Bucket k arrives at A + all-gathers of bucket k
    and of those behind it. From its place in the work of the forward pass, the wait is the maximum over k of arrival - A - place. That is
    an end by the rule of the backward pass, with -place as what is ready. The place depends only on the last cut of the bucket, because the
    pass waits for buckets in the order in which they arrive.
    """
    forward, backward, optimiser = trace.forward_us, trace.backward_us, trace.optimiser_us

    def all_reduce_step(ends: Sequence[np.ndarray], sums: Sequence[np.ndarray]) -> np.ndarray:
        return forward + optimiser + np.maximum(ends[0], backward + delay * sums[0])

    def split_step(ends: Sequence[np.ndarray], sums: Sequence[np.ndarray]) -> np.ndarray:
        begin = np.maximum(ends[0], backward + delay * sums[0])
        late = np.maximum(begin - backward + ends[1], delay * (sums[0] + sums[1]))
        return forward + backward + optimiser + np.maximum(late, 0.0)

    def shard_step(ends: Sequence[np.ndarray], sums: Sequence[np.ndarray]) -> np.ndarray:
        begin = np.maximum(ends[0], backward + delay * sums[0]) + optimiser / costs.ranks
        return begin + forward + np.maximum(np.maximum(ends[1], delay * sums[1]), 0.0)

    steps: dict[str, Step] = {"all_reduce": all_reduce_step, "split": split_step, "sharded": shard_step}
    first = Chain(ready_times(trace), pairs[0])
    if scheme == "all_reduce":
        return Space((first,), (0.0,), channels, delay, steps[scheme])
    second = Chain(-place_times(trace, pairs[0].cut, scheme == "split"), pairs[1])
    return Space((first, second), (0.0, -np.inf), channels, delay, steps[scheme])
