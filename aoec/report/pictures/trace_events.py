"""Events of the Chrome trace format, as Perfetto and chrome://tracing read it (the public "Trace Event Format" document).

`ts` and `dur` are microseconds. Viewers keep whole nanoseconds: both ends of a span are rounded to them alike, so that spans that follow
each other never overlap.
"""
from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def name_event(what: str, pid: int, tid: int, **args: Any) -> Event:
    """Return the event that names or sorts a process or a thread."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def span_event(name: str, kind: str, pid: int, tid: int, start_ns: int, end_ns: int, args: Event, colour: str = "") -> Event:
    """Return the event of a span. `colour`: a name that the format knows, or "" for the viewer's own."""
    return {"ph": "X", "name": name, "cat": kind, "pid": pid, "tid": tid, "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000,
            **({"cname": colour} if colour else {}), "args": args}
