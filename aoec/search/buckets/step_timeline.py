"""One step in its steady state, walked event by event.

It shares nothing with the search of a plan but the costs: what a plan is said to take is what this walk finds.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from aoec.ir.training import BucketPlan, StepSpan, StepTimeline, StepTrace
from aoec.search.buckets.pair_costs import COLLECTIVES, Costs, check_scheme, price

NEVER = float("inf")


@dataclass(slots=True)
class _Send:
    """A collective of one bucket. It may begin once compute has done `after_us` of work, and the sends `behind` have ended."""

    kind: str
    bucket: int
    us: float
    after_us: float
    behind: int = 0  # how many sends of the first kind must have ended


@dataclass(slots=True)
class _Work:
    """A stretch of compute. It may begin once all sends of the first kind have ended (`waits_all`), or the second send of a bucket has."""

    kind: str
    name: str
    us: float
    waits_all: bool = False
    waits_for: int = -1


@dataclass(slots=True)
class _Walk:
    """A walk through compute and channels. `rate`: how fast compute goes while a collective runs."""

    works: list[_Work]
    queues: list[list[_Send]]
    buckets: int
    rate: float
    now: float = 0.0
    done_us: float = 0.0
    spans: list[StepSpan] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)  # when each work has ended
    arrived: set[int] = field(default_factory=set)
    first_ended: int = 0

    def run(self) -> None:
        """Walk until compute has done all its work."""
        heads, running = [0] * len(self.queues), [(NEVER, -1)] * len(self.queues)
        for work in self.works:
            end_work = self.done_us + work.us
            began: float | None = None
            while True:
                free = (not work.waits_all or self.first_ended == self.buckets) and (work.waits_for < 0 or work.waits_for in self.arrived)
                began = self.now if free and began is None else began
                self._begin(heads, running)
                if free and self.done_us >= end_work:
                    break
                self._advance(heads, running, end_work if free else self.done_us)
            self.ends.append(self.now)
            if work.us > 0 and began is not None:
                self.spans.append(StepSpan("compute", work.kind, work.name, began, self.now))

    def _begin(self, heads: list[int], running: list[tuple[float, int]]) -> None:
        """Begin each send whose channel is free and whose gradients are there."""
        for channel, queue in enumerate(self.queues):
            while running[channel][1] < 0 and heads[channel] < len(queue):
                send = queue[heads[channel]]
                if self.done_us < send.after_us or self.first_ended < send.behind:
                    break
                running[channel] = (self.now + send.us, heads[channel])
                self.spans.append(StepSpan(f"channel {channel}", send.kind, f"bucket {send.bucket}", self.now, self.now + send.us))
                heads[channel] += 1

    def _end(self, channel: int, running: list[tuple[float, int]]) -> None:
        send = self.queues[channel][running[channel][1]]
        running[channel] = (NEVER, -1)
        if send.behind:
            self.arrived.add(send.bucket)
        else:
            self.first_ended += 1

    def _advance(self, heads: list[int], running: list[tuple[float, int]], until_us: float) -> None:
        """Go on to what happens next: a send ends, compute reaches what a send waits for, or compute reaches `until_us`."""
        ends = min(running)[0]
        rate = self.rate if ends < NEVER else 1.0
        target = until_us
        for channel, queue in enumerate(self.queues):
            if running[channel][1] < 0 and heads[channel] < len(queue) and self.done_us < queue[heads[channel]].after_us:
                target = min(target, queue[heads[channel]].after_us)
        reached = self.now + (target - self.done_us) / rate if target > self.done_us else NEVER
        assert min(reached, ends) < NEVER, "nothing is left to wait for"
        if reached <= ends:
            self.now, self.done_us = reached, target
            return
        if target > self.done_us:
            self.done_us = min(target, self.done_us + (ends - self.now) * rate)
        self.now = ends
        for channel, (end, _) in enumerate(running):
            if end == ends:
                self._end(channel, running)


def read_places(trace: StepTrace, plan: BucketPlan) -> list[float]:
    """Return, for each bucket, the µs of the forward pass before which its parameters must have arrived: the first read of any parameter
    in it or in a bucket that arrives later. It never rises from bucket to bucket."""
    places, least = [], trace.forward_us
    for members in plan.ranges():
        least = min(least, *(trace.gradients[g].read_us for g in members))
        places.append(least)
    return places


def timeline(trace: StepTrace, plan: BucketPlan, costs: Costs) -> StepTimeline:
    """Return one steady-state step of a plan, from the begin of its forward pass.

    Modelled: compute is one lane: forward, backward, optimiser. A collective begins when its last gradient is made and its channel has
    ended the one before. Channels are in order, and do not slow each other. While a collective runs anywhere, compute takes
    `costs.contention` times as long, so that later gradients are ready later.

    all_reduce: the optimiser waits for the last all-reduce, the next forward pass for the optimiser.
    split: reduce-scatters under the backward pass. The next forward pass begins at once. All-gathers begin when it has begun and all
    reduce-scatters have ended, the last bucket first. Forward waits for a bucket before the first read of a parameter in it or in one that
    arrives later. The optimiser updates a bucket right there, in a time by its share of all bytes.
    sharded: the optimiser waits for all reduce-scatters, and takes 1 / `costs.ranks` of its time. All-gathers begin with the next forward
    pass, the last bucket first. Forward waits as above.

    Not modelled: copies into and out of buckets, the host, links that channels share, ranks that are late, gradients in parts.
    A send that ends behind `step_us` runs into the next step. Raise CheckError where the plan does not fit the trace."""
    plan.check(len(trace.gradients))
    check_scheme(plan.scheme, plan.channels, costs)
    ranges, kinds = plan.ranges(), COLLECTIVES[plan.scheme]
    sizes = np.array([sum(trace.gradients[g].size for g in members) for members in ranges], np.int64)
    firsts = price(costs, kinds[0], sizes)
    queues: list[list[_Send]] = [[] for _ in range(plan.channels)]
    for k, members in enumerate(ranges):
        ready_us = min(trace.gradients[members[-1]].ready_us, trace.backward_us)
        queues[k % plan.channels].append(_Send(kinds[0], k, float(firsts[k]), ready_us))
    works, shard_us = [_Work("backward", "backward", trace.backward_us)], trace.optimiser_us / costs.ranks
    if plan.scheme == "all_reduce":
        works += [_Work("optimiser", "optimiser", trace.optimiser_us, waits_all=True), _Work("forward", "forward", trace.forward_us)]
        before = 2
    else:
        if plan.scheme == "sharded":
            works.append(_Work("optimiser", "optimiser", shard_us, waits_all=True))
        before = len(works)
        begin_us = sum(w.us for w in works)
        for k, us in zip(reversed(range(len(ranges))), price(costs, kinds[1], sizes)[::-1], strict=True):
            queues[k % plan.channels].append(_Send(kinds[1], k, float(us), begin_us, len(ranges)))
        works += _forward(trace, plan, sizes)
    walk = _Walk(works, queues, len(ranges), 1 / costs.contention)
    walk.run()
    compute_us = trace.forward_us + trace.backward_us + (shard_us if plan.scheme == "sharded" else trace.optimiser_us)
    in_backward = {kinds[0]} if plan.scheme != "split" else set()
    return _from_forward(walk, walk.ends[before - 1], compute_us, in_backward)


def _forward(trace: StepTrace, plan: BucketPlan, sizes: np.ndarray) -> list[_Work]:
    """Return the forward pass in stretches between the places where it waits for a bucket."""
    works: list[_Work] = []
    at, places = 0.0, read_places(trace, plan)
    waits = -1
    for k in reversed(range(len(places))):
        works.append(_Work("forward", "forward", places[k] - at, waits_for=waits))
        at, waits = places[k], k
        if plan.scheme == "split":
            works.append(_Work("optimiser", f"bucket {k}", trace.optimiser_us * float(sizes[k]) / trace.size, waits_for=k))
    return [*works, _Work("forward", "forward", trace.forward_us - at, waits_for=waits)]


def _from_forward(walk: _Walk, turn_us: float, compute_us: float, in_backward: set[str]) -> StepTimeline:
    """Return a walk that begins with the backward pass, as a step that begins with the forward pass, which it came to at `turn_us`. Kinds
    of spans `in_backward` end before that."""
    spans, step_us = [], walk.now
    for s in walk.spans:
        by = step_us - turn_us if s.begin_us < turn_us or s.kind in in_backward else -turn_us
        spans.append(StepSpan(s.lane, s.kind, s.name, s.begin_us + by, s.end_us + by))
    return StepTimeline(tuple(sorted(spans, key=lambda s: (s.lane, s.begin_us, s.end_us))), step_us, compute_us)
