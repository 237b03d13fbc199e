"""Result of a gradient tuning job, from which result files, the report and a delivery are made."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aoec.ir.training import StepTrace

if TYPE_CHECKING:
    from aoec.collectives.system import System
    from aoec.search.buckets import Planned


@dataclass(frozen=True)
class GdatFound:
    """A trace with its plans for a system. `name`: of the model or the trace's file. `target`: the chip. `batch`: images or rows of a
    step, None where that is not known. `planned`: the best plan of the scheme that was asked for. `baselines`: other plans under the
    same costs, by name, "ddp" among them. `segments`: the best plan by all-reduce with as many buckets as AOE's strategies may have.
    `whole`: the best plan by all-reduce under the limits that were asked for. `options`: these limits, by name. `notices`: what is to be
    said of the trace and the system."""

    name: str
    target: str
    batch: int | None
    trace: StepTrace
    planned: Planned
    whole: Planned
    segments: Planned
    baselines: Mapping[str, Planned]
    system: System
    options: Mapping[str, Any]
    notices: tuple[str, ...] = field(default=())

    @property
    def key(self) -> str:
        """Return a hash of everything that a plan depends on, the same on every computer. That is the names, sizes and times of the
        gradients, the system with its ranks, the batch and the limits."""
        return trace_key(self.trace, self.system.key, self.system.ranks, self.batch, self.options)


def trace_key(trace: StepTrace, system: str, ranks: int, batch: int | None, limits: Mapping[str, Any]) -> str:
    """Return 64 hex digits for these things. Times count to a nanosecond."""
    gradients = [[g.name, g.size, round(g.ready_us, 3), round(g.read_us, 3)] for g in trace.gradients]
    passes = [round(us, 3) for us in (trace.forward_us, trace.backward_us, trace.optimiser_us)]
    said = ["aoec gradient plan 1", gradients, passes, trace.source, system, ranks, batch, dict(sorted(limits.items()))]
    return hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()
