"""Which gradients are sent together: the plan of the shortest step, with its proof."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.training import BucketPlan, Scheme, StepTimeline, StepTrace, check_trace
from aoec.search.buckets.bucket_spaces import ready_times, space_of
from aoec.search.buckets.label_search import search
from aoec.search.buckets.one_channel import Chain, earliest_ends, fewest_cuts, least_end_within, walk_end
from aoec.search.buckets.pair_costs import COLLECTIVES, EQUAL, Costs, PairCosts, check_scheme
from aoec.search.buckets.step_timeline import timeline


@dataclass(frozen=True, slots=True)
class Limits:
    """The plans that are searched: their scheme and channels, and the most buckets and bytes of a bucket. A gradient above `most_bytes` is
    sent alone."""

    most_segments: int | None = None
    most_bytes: int | None = None
    scheme: Scheme = "all_reduce"
    channels: int = 1

    def check(self) -> None:
        """Raise CheckError where a limit is not above zero."""
        for name, limit in (("segments", self.most_segments), ("bytes of a bucket", self.most_bytes)):
            if limit is not None and limit < 1:
                raise CheckError(f"at most {limit} {name}: give one or more")


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, its step, and what is proved of it. `lower_bound_us`: no step of the plans that `proof` speaks of is shorter. `is_optimal`:
    the step is no longer than that, but for a share of `EQUAL`."""

    plan: BucketPlan
    timeline: StepTimeline
    lower_bound_us: float
    is_optimal: bool
    proof: str

    @property
    def gap(self) -> float:
        """Return by what share the step is longer than the lower bound."""
        return max(0.0, self.timeline.step_us / self.lower_bound_us - 1) if self.lower_bound_us else 0.0


def plan(trace: StepTrace, costs: Costs, limits: Limits) -> Planned:
    """Return the plan of the shortest step; among steps that differ by a share of at most `EQUAL`, one of the fewest buckets.

    On one channel of all-reduces without contention, one time describes a plan that has reached a cut, and the best plan of each cut is
    enough. Else several numbers describe it, and all plans that none beats are kept, up to a count. Where more are dropped, and one of them
    could have led to a shorter step, `is_optimal` is false and the gap is given. For several channels under contention, the bound is that
    of no contention, and the plan is the best of a few. Raise CheckError where the trace, a cost or a limit is none, or where the limits
    leave no plan.
    """
    check_trace(trace)
    limits.check()
    check_scheme(limits.scheme, limits.channels, costs)
    packed = _pack(trace, limits.most_bytes)
    if limits.most_segments is not None and len(packed) > limits.most_segments:
        raise CheckError(f"{len(packed):,} buckets of at most {limits.most_bytes:,} bytes are needed, and the limit is "
                         f"{limits.most_segments:,}; allow more buckets or larger ones")
    pairs = [PairCosts(trace, costs, collective, limits.most_bytes) for collective in COLLECTIVES[limits.scheme]]
    if limits.scheme == "all_reduce" and limits.channels == 1 and costs.contention == 1.0:
        return _plan_by_ends(trace, costs, limits, Chain(ready_times(trace), pairs[0]), packed)
    return _plan_by_labels(trace, costs, limits, pairs, packed)


def _pack(trace: StepTrace, most_bytes: int | None) -> tuple[int, ...]:
    """Return the cuts of the plan of the fewest buckets of at most so many bytes."""
    cuts, held = [], 0
    for number, g in enumerate(trace.gradients):
        if most_bytes is not None and held and held + g.size > most_bytes:
            cuts.append(number)
            held = 0
        held += g.size
    return (*cuts, len(trace.gradients))


def _even(trace: StepTrace, limits: Limits) -> tuple[int, ...]:
    """Return the cuts of as many buckets as may be, of nearly the same bytes; none where one of them would be above the limit."""
    sums = np.cumsum([g.size for g in trace.gradients])
    most = min(limits.most_segments or len(sums), len(sums))
    ends = np.unique(np.searchsorted(sums, sums[-1] * np.arange(1, most + 1) / most) + 1)
    ends = np.minimum(ends, len(sums))
    sizes = np.diff(sums[ends - 1], prepend=0)
    return tuple(dict.fromkeys(ends.tolist())) if limits.most_bytes is None or sizes.max() <= limits.most_bytes else ()


def _plan_by_ends(trace: StepTrace, costs: Costs, limits: Limits, chain: Chain, packed: tuple[int, ...]) -> Planned:
    """Return the plan of one channel of all-reduces without contention."""
    least = earliest_ends(chain)
    end_us = float(least[-1])
    cuts = fewest_cuts(chain, least, _latest_equal(trace, end_us))
    if limits.most_segments is not None and len(cuts) > limits.most_segments:
        known_us = min(walk_end(chain, cuts) for cuts in (packed, _even(trace, limits)) if cuts)
        end_us = least_end_within(chain, least, limits.most_segments, known_us * (1 + EQUAL))
        cuts = fewest_cuts(chain, least, _latest_equal(trace, end_us))
    bound = trace.forward_us + max(trace.backward_us, end_us) + trace.optimiser_us
    return _prove(trace, costs, limits, cuts, bound)


def _latest_equal(trace: StepTrace, end_us: float) -> float:
    """Return the latest end of a step's collectives that gives a step equal to one in which they end at `end_us`."""
    end_us = max(trace.backward_us, end_us)
    return end_us + EQUAL / 2 * (trace.forward_us + end_us + trace.optimiser_us)


def _plan_by_labels(trace: StepTrace, costs: Costs, limits: Limits, pairs: Sequence[PairCosts], packed: tuple[int, ...]) -> Planned:
    """Return the plan of any other space."""
    delay = 1 - 1 / costs.contention
    is_sum = not delay or limits.channels == 1  # what collectives of several channels delay is no sum of theirs
    found = search(space_of(trace, costs, limits.scheme, limits.channels, pairs, delay if is_sum else 0.0), packed, limits.most_segments)
    if is_sum:
        return _prove(trace, costs, limits, found.cuts, found.bound_us, found.is_fewest)
    alone = search(space_of(trace, costs, limits.scheme, 1, pairs, delay), packed, limits.most_segments)
    best = min((found.cuts, alone.cuts, packed), key=lambda cuts: timeline(trace, _plan_of(cuts, limits), costs).step_us)
    return _prove(trace, costs, limits, best, found.bound_us, False)


def _plan_of(cuts: Sequence[int], limits: Limits) -> BucketPlan:
    """Return the plan whose buckets end in front of `cuts`."""
    return BucketPlan(tuple(c - 1 for c in cuts), limits.scheme, limits.channels)


def _prove(trace: StepTrace, costs: Costs, limits: Limits, cuts: Sequence[int], bound_us: float, is_fewest: bool = True) -> Planned:
    """Return a plan with its step, beside the bound of all plans within the limits."""
    found = _plan_of(cuts, limits)
    step = timeline(trace, found, costs)
    is_optimal = step.step_us <= bound_us * (1 + EQUAL)
    space = [f"{limits.scheme.replace('_', '-')} on {limits.channels} channel{'s' * (limits.channels > 1)}"]
    if limits.most_segments is not None:
        space.append(f"at most {limits.most_segments} buckets")
    if limits.most_bytes is not None:
        space.append(f"at most {limits.most_bytes:,} bytes a bucket")
    proof = (f"No plan of {len(trace.gradients):,} gradients ({', '.join(space)}) has a step below {bound_us:,.3f} us under these modelled "
             "costs")
    if not is_optimal:
        proof += f"; this one takes {100 * (step.step_us / bound_us - 1):.3f} % more"
    elif is_fewest:
        proof += f", and none of an equal step has fewer than {len(cuts)} buckets"
    return Planned(found, step, bound_us, is_optimal, proof + ".")
