"""One training step out of several iterations of a trace: warm-up dropped, the median of the rest."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.text import plural
from aoec.ir.training import Gradient, StepTrace, check_trace

WARM_FROM = 3  # iterations, from which on the first is taken for warm-up


@dataclass(frozen=True, slots=True)
class Iteration:
    """One iteration. `ready_us`: of each gradient, in µs from the begin of the backward pass. None where a file does not say a pass."""

    ready_us: np.ndarray
    forward_us: float | None = None
    backward_us: float | None = None
    optimiser_us: float | None = None


@dataclass(frozen=True, slots=True)
class TraceRead:
    """A trace as read, and what is to be said of it."""

    trace: StepTrace
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent, whatever the iteration: name, bytes, and when its parameter is first read in the forward pass (µs)."""

    name: str
    size: int
    read_us: float = 0.0


def average_trace(sent: Sequence[Sent], iterations: Sequence[Iteration], source: str, times: str = "measured") -> TraceRead:
    """Return the step that iterations have in common. Of three or more the first is dropped; each time is the median of the others, which
    rises where each iteration's times do. Raise CheckError where the result can be no step. `times`: "measured" or "modelled"."""
    if not sent or not iterations:
        raise CheckError("the trace has no gradients", source=source)
    kept = iterations[1:] if len(iterations) >= WARM_FROM else iterations
    ready = np.median(np.stack([i.ready_us for i in kept]), axis=0)
    backward = [i.backward_us for i in kept if i.backward_us is not None]
    gradients = tuple(Gradient(s.name, s.size, float(us), s.read_us) for s, us in zip(sent, ready))
    trace = StepTrace(gradients, middle([i.forward_us for i in kept]),
                      max(middle(backward), float(ready[-1])) if backward else float(ready[-1]),
                      middle([i.optimiser_us for i in kept]), times)
    check_trace(trace, source)
    return TraceRead(trace, (*count_words(len(iterations), len(kept), times), *missing_words(kept)))


def middle(times: Sequence[float | None]) -> float:
    """Return the median of the times that are said. Return 0 where none is."""
    found = [t for t in times if t is not None]
    return float(np.median(found)) if found else 0.0


def count_words(there: int, kept: int, times: str) -> tuple[str, ...]:
    """Return how many iterations a trace is of."""
    dropped = ", the first one dropped as warm-up" if kept < there else ""
    how = f"times are the median of {plural(kept, 'iteration')}{dropped}" if there > 1 else "times are of one iteration"
    return (f"{how}, {times}",)


def missing_words(kept: Sequence[Iteration]) -> tuple[str, ...]:
    """Return what a trace leaves out, and what that does to a share of the step."""
    forward, optimiser = (all(getattr(i, name) is None for i in kept) for name in ("forward_us", "optimiser_us"))
    said = " and no ".join(name for name, lacks in (("forward pass", forward), ("optimiser", optimiser)) if lacks)
    return (f"the trace has no {said}: the step is counted without, so shares of it are too large",) if said else ()
