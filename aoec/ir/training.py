"""The nouns of gradient tuning: a training step in time, and which of its gradients are sent together.

A step without communication is a `StepTrace`. A `BucketPlan` says how its gradients are sent. A `StepTimeline` is what both give under
the costs of a system. Times are in µs, sizes in bytes. Where a time comes from is said beside it ("modelled" or "measured").
"""
from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from aoec.base.errors import CheckError

MOST_GRADIENTS = 1_000_000  # of a trace; more is taken for a damaged file
Scheme = Literal["all_reduce", "split", "sharded"]
SCHEMES: dict[Scheme, str] = {
    "all_reduce": "each bucket by one all-reduce, under the backward pass",
    "split": "each bucket by a reduce-scatter under the backward pass and an all-gather under the next forward pass",
    "sharded": "each bucket by a reduce-scatter; each rank updates its shard; parameters by an all-gather under the next forward pass",
}


@dataclass(frozen=True, slots=True)
class Gradient:
    """One gradient: `size` in bytes as it is sent. `ready_us`: from the begin of the backward pass until it is made. `read_us`: from the
    begin of the forward pass until its parameter is first read."""

    name: str
    size: int
    ready_us: float
    read_us: float = 0.0


@dataclass(frozen=True, slots=True)
class StepTrace:
    """A training step without communication. `gradients` are in the order in which the backward pass makes them. `source`: where the times
    come from, "modelled" or "measured"."""

    gradients: tuple[Gradient, ...]
    forward_us: float
    backward_us: float
    optimiser_us: float
    source: str

    @property
    def compute_us(self) -> float:
        """Return what the step takes without communication."""
        return self.forward_us + self.backward_us + self.optimiser_us

    @property
    def size(self) -> int:
        """Return bytes of all gradients."""
        return sum(g.size for g in self.gradients)


@dataclass(frozen=True, slots=True)
class BucketPlan:
    """Which gradients are sent together: bucket k holds those behind `ends[k - 1]` up to and with `ends[k]`, numbers in the order of the
    trace, from 0. Bucket k is sent on channel k modulo `channels`."""

    ends: tuple[int, ...]
    scheme: Scheme = "all_reduce"
    channels: int = 1

    def ranges(self) -> list[range]:
        """Return the gradients of each bucket, as numbers."""
        return [range(a + 1, b + 1) for a, b in pairwise((-1, *self.ends))]

    def check(self, count: int) -> None:
        """Raises CheckError where the plan is none of `count` gradients."""
        if not self.ends or self.ends[-1] != count - 1 or any(a >= b for a, b in pairwise((-1, *self.ends))):
            raise CheckError(f"buckets end at gradients {list(self.ends)}: give ascending numbers from 0, the last of them {count - 1}")


@dataclass(frozen=True, slots=True)
class StepSpan:
    """A stretch of a step. `lane`: "compute" or "channel 0", "channel 1", ... `kind`: forward, backward, optimiser, or the collective."""

    lane: str
    kind: str
    name: str
    begin_us: float
    end_us: float


@dataclass(frozen=True, slots=True)
class StepTimeline:
    """A step in its steady state, in time. `step_us`: from one step's begin to the next one's. `exposed_us`: the part of it in which
    compute waits for communication. `compute_us`: what it takes without communication."""

    spans: tuple[StepSpan, ...]
    step_us: float
    compute_us: float

    @property
    def exposed_us(self) -> float:
        return self.step_us - self.compute_us


def check_trace(trace: StepTrace, source: str = "") -> None:
    """Raise CheckError, with the gradient, where a trace cannot be one of a step. That is so if it has no gradients, if a size is not
    positive, or if a time is negative, no number, or falls. It is also so if a gradient is ready after the end of the backward pass."""
    if not trace.gradients:
        raise CheckError("the trace has no gradients", source=source)
    if len(trace.gradients) > MOST_GRADIENTS:
        raise CheckError(f"the trace has {len(trace.gradients):,} gradients; the limit is {MOST_GRADIENTS:,}", source=source)
    before = 0.0
    for number, g in enumerate(trace.gradients):
        where = f"gradient {number} ({g.name})"
        if g.size <= 0:
            raise CheckError(f"{where} has {g.size:,} bytes; a size is above zero", source=source)
        if not 0 <= g.ready_us < float("inf") or not 0 <= g.read_us < float("inf"):
            raise CheckError(f"{where}: a time is a number of µs that is not negative, not {g.ready_us} or {g.read_us}", source=source)
        if g.ready_us < before:
            raise CheckError(f"{where} is ready at {g.ready_us:g} µs, before the one in front of it at {before:g}: times must not fall",
                             source=source)
        before = g.ready_us
    for name, us in (("forward", trace.forward_us), ("backward", trace.backward_us), ("optimiser", trace.optimiser_us)):
        if not 0 <= us < float("inf"):
            raise CheckError(f"the {name} pass takes {us} µs; give a number that is not negative", source=source)
    if before > trace.backward_us * (1 + 1e-9):
        raise CheckError(f"the last gradient is ready at {before:g} µs, after the backward pass, which takes {trace.backward_us:g}",
                         source=source)
