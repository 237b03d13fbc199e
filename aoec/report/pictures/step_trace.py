"""A training step under several plans in the Chrome trace format, as Perfetto and chrome://tracing read it: a process per plan, a thread
per lane."""
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from aoec.ir.training import StepSpan, StepTrace
from aoec.report.pictures.step_timeline import Step, bucket_of
from aoec.report.pictures.step_times import COMPUTE, channels, fold, ready_times, waits
from aoec.report.pictures.trace_events import Event, name_event, span_event

READY = "gradients"  # the lane of marks


def events(trace: StepTrace, steps: Sequence[Step], about: dict[str, Any]) -> str:
    """Return the text of the trace. `about`: more facts for the trace, as plain values."""
    listed = [e for pid, step in enumerate(steps) for e in _step(trace, pid, step)]
    head = {"displayTimeUnit": "ms", "otherData": {"times": trace.source, **about}}
    return json.dumps({**head, "traceEvents": listed}, separators=(",", ":"), allow_nan=False) + "\n"


def _step(trace: StepTrace, pid: int, step: Step) -> Iterator[Event]:
    """Yield names first, then the spans of each lane in order of time, waits, and marks where gradients are ready."""
    timeline = fold(step.timeline)
    lanes = {lane: tid for tid, lane in enumerate((COMPUTE, READY, *channels(timeline)))}
    yield name_event("process_name", pid, 0, name=f"{step.title}: {timeline.step_us:,.1f} µs")
    yield name_event("process_sort_index", pid, 0, sort_index=pid)
    for lane, tid in lanes.items():
        yield name_event("thread_name", pid, tid, name=lane)
        yield name_event("thread_sort_index", pid, tid, sort_index=tid)
    ranges = step.plan.ranges()
    for s in sorted(timeline.spans, key=lambda s: (lanes[s.lane], s.begin_us, s.end_us)):
        yield span_event(s.name or s.kind, s.kind, pid, lanes[s.lane], _ns(s.begin_us), _ns(s.end_us), _bucket(trace, ranges, s))
    for begin, end in waits(timeline):
        yield span_event("waits for communication", "wait", pid, lanes[COMPUTE], _ns(begin), _ns(end), {}, "terrible")
    for g, us in zip(trace.gradients, ready_times(trace, timeline)):
        yield {"ph": "i", "s": "t", "name": g.name, "cat": "ready", "pid": pid, "tid": lanes[READY], "ts": _ns(us) / 1000,
               "args": {"bytes": g.size}}


def _bucket(trace: StepTrace, ranges: Sequence[range], s: StepSpan) -> dict[str, Any]:
    """Return the gradients and bytes that a collective sends."""
    number = bucket_of(s) if s.lane != COMPUTE else None
    if number is None or number >= len(ranges):
        return {}
    mine = ranges[number]
    return {"gradients": len(mine), "bytes": sum(trace.gradients[i].size for i in mine), "first": mine[0], "last": mine[-1]}


def _ns(us: float) -> int:
    return round(us * 1000)
