"""Training steps in time for tests of pictures and pages: one channel after the other, first come first served, without the search."""
from __future__ import annotations

from collections.abc import Sequence

from aoec.ir.training import BucketPlan, Gradient, StepSpan, StepTimeline, StepTrace


def trace(sizes: Sequence[int], backward_us: float = 9570.0, forward_us: float = 4700.0, optimiser_us: float = 310.0) -> StepTrace:
    """Gradients of these sizes, ready in even steps of the backward pass."""
    count = len(sizes)
    gradients = tuple(Gradient(f"layer{count - i}.weight", size, backward_us * (i + 1) / count, forward_us * (count - i - 1) / count)
                      for i, size in enumerate(sizes))
    return StepTrace(gradients, forward_us, backward_us, optimiser_us, "modelled")


def even_plan(count: int, buckets: int, channels: int = 1) -> BucketPlan:
    """Buckets of nearly as many gradients each."""
    return BucketPlan(tuple(count * (k + 1) // buckets - 1 for k in range(buckets)), "all_reduce", channels)


def step(t: StepTrace, plan: BucketPlan, start_us: float = 60.0, us_per_mb: float = 13.6) -> StepTimeline:
    """The step of all-reduces whose cost is a line, without contention."""
    begin, free = t.forward_us, [0.0] * plan.channels
    spans = [StepSpan("compute", "forward", "forward", 0.0, begin),
             StepSpan("compute", "backward", "backward", begin, begin + t.backward_us)]
    for k, numbers in enumerate(plan.ranges()):
        channel = k % plan.channels
        size = sum(t.gradients[n].size for n in numbers)
        at = max(begin + t.gradients[numbers[-1]].ready_us, free[channel])
        free[channel] = at + start_us + us_per_mb * size / 1e6
        spans.append(StepSpan(f"channel {channel}", "all_reduce", f"bucket {k}", at, free[channel]))
    update = max(begin + t.backward_us, *free)
    spans.append(StepSpan("compute", "optimiser", "optimiser", update, update + t.optimiser_us))
    return StepTimeline(tuple(spans), update + t.optimiser_us, t.compute_us)
