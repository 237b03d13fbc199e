"""Gradient traces that were measured, kept beside the records: measured once, they are planned for again at any later build.

A trace is named by the sizes of its gradients, whatever their order and names: a profiler knows no names, and the order may differ from
run to run. AOE names its record by types and sizes too. What a batch was is not known here: the newest trace of a key stays.
"""
from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from aoec.bank.rows import Kind, Rows, block, hex_digits

TRACE_LIMIT = 3 << 19  # characters; a line of an export may have twice as many and some more
KEY = ("sizes_key", "target")


@dataclass(frozen=True, order=True)
class GradientTrace:
    """`sizes_key`: a hash of the gradients' sizes. `target`: the chip that it was measured on, as the user said. `trace`: its text
    (jobs/gdat/trace_json.py). `after_ns`: what a step takes without communication. `label`: the file that it came from."""

    sizes_key: str
    target: str
    label: str
    gradients: int
    after_ns: int
    trace: str
    tool: str = ""
    created: str = ""


def sizes_key(sizes: Iterable[int]) -> str:
    """Return 64 hex digits for the sizes of gradients in bytes, in any order."""
    return hashlib.sha256(",".join(map(str, sorted(sizes))).encode()).hexdigest()


def newer_trace(a: GradientTrace, b: GradientTrace) -> GradientTrace:
    """Return what stays of two traces of one key: the newer, then always the same."""
    return max(a, b, key=lambda t: (t.created, t))


GRADIENT_TRACES = Kind(GradientTrace, KEY, "gradient_traces", "gradient trace", 1, "a gradient trace",
                       {"sizes_key": hex_digits(64), "trace": block(TRACE_LIMIT)}, {"gradients": 1}, lambda t: "", newer_trace)


class GradientTraces(Rows[GradientTrace]):
    """The measured traces in a bank's file."""

    def find(self, target: str, key: str) -> GradientTrace | None:
        """Return the trace of a key; None where there is none."""
        return next(iter(self.of(target, sizes_key=key)), None)
