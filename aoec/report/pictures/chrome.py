"""A timeline in the Chrome trace format, as Perfetto and chrome://tracing read it: a process per core, a thread per lane.

Exact cycles stand in `args`.
"""
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from aoec.report.pictures.timeline import FLOW_LANE, ORDER, Arrow, Core, Slice, Timeline
from aoec.report.pictures.trace_events import Event, name_event, span_event

COLOURS = {"wait": "terrible", "stall": "bad", "issue": "grey"}  # names that the format knows


def trace(timeline: Timeline) -> str:
    """Return the text of the trace."""
    events = [e for pid, core in enumerate(timeline.cores) for e in _core(timeline, pid, core)]
    head = {"displayTimeUnit": "ns", "otherData": _about(timeline)}
    return json.dumps({**head, "traceEvents": events}, separators=(",", ":")) + "\n"


def _about(timeline: Timeline) -> dict[str, Any]:
    facts = {k: v for k, v in timeline.measure.items() if not isinstance(v, (dict, list, tuple))}
    verdict = timeline.measure["verdict"]
    notes = [c.note for c in timeline.cores if c.note]
    return {"program": timeline.program, "target": timeline.target, "times": "modelled", "clock_mhz": timeline.clock_mhz, **facts,
            "verdict": verdict["sentence"], **({"left_out": notes} if notes else {})}


def _core(timeline: Timeline, pid: int, core: Core) -> Iterator[Event]:
    """Yield names first, then the slices of each lane in order of time, flags and arrows."""
    yield name_event("process_name", pid, 0, name=f"{core.process} ({core.name})")
    yield name_event("process_sort_index", pid, 0, sort_index=pid)
    threads = {lane: ORDER.index(lane) for lane in (*core.lanes, FLOW_LANE)}
    for lane, tid in sorted(threads.items(), key=lambda x: x[1]):
        yield name_event("thread_name", pid, tid, name=lane)
        yield name_event("thread_sort_index", pid, tid, sort_index=tid)
    for lane, slices in core.lanes.items():
        for s in slices:
            yield _slice(timeline, pid, threads[lane], s)
    for at, flag in core.sets:
        yield {"ph": "i", "s": "t", "name": f"set_flag {flag}", "cat": "flag", "pid": pid, "tid": threads[FLOW_LANE],
               "ts": _ns(timeline, at) / 1000, "args": {"cycle": at}}
    for number, arrow in enumerate(core.arrows):
        yield from _arrow(timeline, pid, threads, f"{pid}.{number}", arrow)


def _slice(timeline: Timeline, pid: int, tid: int, s: Slice) -> Event:
    start, end = _ns(timeline, s.start), _ns(timeline, s.end)
    args: dict[str, Any] = {"start_cycle": s.start, "cycles": s.end - s.start, "text": s.what, **s.facts}
    if s.kind == "run":
        args |= {"done_cycle": s.done, "own_cycles": s.own}
    name = f"{s.op} {s.label}" if s.kind == "run" and s.label != s.op else s.label
    return span_event(name, s.kind, pid, tid, start, end, args, COLOURS.get(s.kind, ""))


def _arrow(timeline: Timeline, pid: int, threads: dict[str, int], number: str, arrow: Arrow) -> Iterator[Event]:
    """Yield the two events of an arrow: from the slice that sets the flag (or the last slice before) to the wait that the flag ends."""
    for phase, lane, at in (("s", arrow.source, arrow.set_at), ("f", arrow.target, arrow.go_at)):
        event = {"ph": phase, "id": number, "name": arrow.flag, "cat": "flag", "pid": pid, "tid": threads[lane],
                 "ts": max(_ns(timeline, at) - 1, 0) / 1000}
        yield event | ({"bp": "e"} if phase == "f" else {})


def _ns(timeline: Timeline, cycles: float) -> int:
    return round(timeline.us(cycles) * 1000)
