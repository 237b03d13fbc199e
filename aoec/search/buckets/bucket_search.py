"""Which gradients are sent together: the plan of the shortest step, with its proof."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aoec.base.errors import CheckError
from aoec.ir.training import BucketPlan, Scheme, StepTimeline, StepTrace, check_trace
from aoec.search.buckets.one_channel import Chain, fewest_cuts, least_end_within, least_ends
from aoec.search.buckets.pair_costs import Costs, PairCosts, check_scheme
from aoec.search.buckets.step_timeline import timeline

EQUAL = 1e-9  # share of a step by which two steps differ at most that are called equal


@dataclass(frozen=True, slots=True)
class Limits:
    """The plans that are searched: their scheme and channels, and the most buckets and bytes of a bucket. A gradient above `most_bytes` is
    sent alone."""

    most_segments: int | None = None
    most_bytes: int | None = None
    scheme: Scheme = "all_reduce"
    channels: int = 1

    def check(self) -> None:
        """Raises CheckError where a limit is not above zero."""
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
        """By what share the step is longer than the lower bound."""
        return max(0.0, self.timeline.step_us / self.lower_bound_us - 1) if self.lower_bound_us else 0.0


def plan(trace: StepTrace, costs: Costs, limits: Limits) -> Planned:
    """Return the plan of the shortest step; among steps that differ by a share of at most `EQUAL`, one of the fewest buckets.
    Raises CheckError where the trace, a cost or a limit is none, or where the limits leave no plan."""
    check_trace(trace)
    limits.check()
    check_scheme(limits.scheme, limits.channels, costs)
    ready = np.array([0.0, *(min(g.ready_us, trace.backward_us) for g in trace.gradients)])
    pairs = PairCosts(trace, costs, "all_reduce", limits.most_bytes)
    return _plan_chain(trace, costs, limits, Chain(ready, pairs))


def _plan_chain(trace: StepTrace, costs: Costs, limits: Limits, chain: Chain) -> Planned:
    least = least_ends(chain)
    end_us = float(least[-1])
    cuts = fewest_cuts(chain, least, _latest_equal(trace, end_us))
    if limits.most_segments is not None and len(cuts) > limits.most_segments:
        end_us = least_end_within(chain, limits.most_segments)
        if end_us == np.inf:
            raise CheckError(f"no plan has at most {limits.most_segments} buckets of at most {limits.most_bytes:,} bytes; "
                             "allow more buckets or larger ones")
        cuts = fewest_cuts(chain, least, _latest_equal(trace, end_us))
    bound = trace.forward_us + max(trace.backward_us, end_us) + trace.optimiser_us
    return _prove(trace, costs, limits, tuple(c - 1 for c in cuts), bound)


def _latest_equal(trace: StepTrace, end_us: float) -> float:
    """The latest end of a step's collectives that gives a step equal to one in which they end at `end_us`."""
    end_us = max(trace.backward_us, end_us)
    return end_us + EQUAL / 2 * (trace.forward_us + end_us + trace.optimiser_us)


def _prove(trace: StepTrace, costs: Costs, limits: Limits, ends: tuple[int, ...], bound_us: float, is_exact: bool = True) -> Planned:
    """A plan with its step, beside the bound of all plans within the limits."""
    found = BucketPlan(ends, limits.scheme, limits.channels)
    step = timeline(trace, found, costs)
    is_optimal = is_exact and step.step_us <= bound_us * (1 + EQUAL)
    space = [f"{limits.scheme.replace('_', '-')} on {limits.channels} channel{'s' * (limits.channels > 1)}"]
    if limits.most_segments is not None:
        space.append(f"at most {limits.most_segments} buckets")
    if limits.most_bytes is not None:
        space.append(f"at most {limits.most_bytes:,} bytes a bucket")
    plans = f"plan of {len(trace.gradients):,} gradients ({', '.join(space)})"
    if is_optimal:
        proof = f"No {plans} has a step below {bound_us:,.3f} us under these costs, and none so short has fewer than {len(ends)} buckets."
    else:
        gap = 100 * (step.step_us / bound_us - 1) if bound_us else 0.0
        proof = f"No {plans} has a step below {bound_us:,.3f} us under these costs; this one takes {gap:.3f} % more at most."
    return Planned(found, step, bound_us, is_optimal, proof)
