"""The structure of a sketch in words: what makes it another sketch and not another number."""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from aoec.ir.schedule import Step, Trace

ON_CHIP = ("L1", "UB")  # where what a loop loads is kept for several uses


def structure(trace: Trace) -> str:
    """Describe a sketch: its serial loops, outermost first; where operands are loaded; how cores share the work."""
    bound = names(trace, "bind", "loop")
    order = next((loops(s) for s in trace.steps if s.primitive == "reorder"), ())
    inner = frozenset(names(trace, "tensorize", "loop"))
    serial = [v for v in until(order, inner) if v not in bound]
    phrases = [f"loops {' '.join(serial)}"] if serial else []
    return "; ".join([*phrases, *loads(trace), *spread(trace, bound)])


def names(trace: Trace, primitive: str, field: str) -> list[str]:
    """Return what the steps of one primitive say in one field."""
    return [str(s[field]) for s in trace.steps if s.primitive == primitive]


def loops(step: Step) -> tuple[str, ...]:
    """Return the loops that a step orders."""
    found = step["loops"]
    assert isinstance(found, tuple)
    return found


def until(items: Iterable[str], ends: frozenset[str]) -> Iterator[str]:
    """Yield the items before the first of those that end them."""
    for item in items:
        if item in ends:
            return
        yield item


def loads(trace: Trace) -> list[str]:
    """Return where each operand is brought on chip."""
    at: dict[tuple[str, str], list[str]] = {}
    for s in trace.steps:
        if s.primitive == "cache_read" and s["scope"] in ON_CHIP:
            at.setdefault((str(s["buffer"]), str(s["scope"])), []).append(str(s["at"]))
    return [f"{buffer} in {scope} at {', '.join(places)}" for (buffer, scope), places in at.items()]


def spread(trace: Trace, bound: list[str]) -> list[str]:
    """Return how cores share the work, and what else is done for it."""
    done = {s.primitive for s in trace.steps}
    dealt = any(s.primitive == "split" and dict(s.fields).get("deal") == "cyclic" for s in trace.steps)
    said = {"add_parts": "parts added in GM", "rotate": "staggered starts", "swizzle": "walked by L2 tiles", "preload": "loads ahead"}
    return [f"cores {' '.join(bound)}{' in turn' if dealt else ''}"] * bool(bound) + [text for name, text in said.items() if name in done]
