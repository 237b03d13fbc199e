"""Plans: which groups of a subgraph run in slices, kept beside the records. Like these a plan is a claim: what it says is timed again in a
model before it is taken.

A subgraph is named by the canonical text of its groups, without the values of constants; a plan names groups by their place in it.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from aoec.bank.record import TEXT_LIMIT
from aoec.bank.rows import Kind, Rows, any_of, hex_digits
from aoec.base.errors import BankError, ParseError
from aoec.base.regions import regions

METRICS = ("latency", "throughput")
KEY = ("graph_key", "target", "machine_hash", "model_version", "schedules", "metric")
P = TypeVar("P")


@dataclass(frozen=True, order=True)
class SlicePlan:
    """`schedules`: a hash of those that the groups had whole when the plan was looked for; `metric`: by what a model with it was held
    against one without. `regions`: as `--slices` takes them, groups being g0, g1, ... in order; "" where nothing is faster in slices.
    `before_ns`, `after_ns`: modelled, of the subgraph in one inference, or of the time between two, by the metric, whole and with the
    plan."""

    graph_key: str
    target: str
    machine_hash: str
    model_version: str
    schedules: str
    metric: str
    label: str
    regions: str
    before_ns: int
    after_ns: int
    tool: str = ""
    created: str = ""

    @property
    def is_faster(self) -> bool:
        """Return whether something is faster in slices; a plan in which nothing is says that it was looked for in vain."""
        return bool(self.regions)


class Plans(Rows[P]):
    """The plans of one kind in a bank's file."""

    def list(self, target: str | None = None, graph_key: str = "") -> tuple[P, ...]:
        """Return plans, sorted. `target` selects by name, `graph_key` by the beginning of the key. A bank of an older aoec has none."""
        return self.of(target, graph_key=graph_key)


def faster_slices(a: SlicePlan, b: SlicePlan) -> SlicePlan:
    """Return what stays of two plans of one key."""
    return min(a, b, key=_order)


def _order(p: SlicePlan) -> tuple[object, ...]:
    """Return which of two of one key stays, the lesser one: faster, then always the same."""
    return p.after_ns, p.regions, p.before_ns, p.label, p.tool, not p.created, p.created


def _fault(p: SlicePlan) -> str:
    """Return why the times of a plan cannot be; "" where they can."""
    slower = p.after_ns > p.before_ns or p.regions and p.after_ns == p.before_ns
    return f"is faster than none: {p.before_ns}, {p.after_ns}" if slower else ""


def _good_regions(text: str) -> bool:
    if not text.isprintable() or len(text) > TEXT_LIMIT:
        return False
    return not text or all(re.fullmatch("g[0-9]+", g) for first, last, _ in _regions(text) for g in (first, last))


def _regions(text: str) -> tuple[tuple[str, str, int], ...]:
    try:
        return regions(text)
    except ParseError as e:
        raise BankError(f"a plan of slices names its regions: {e.message}") from None


SLICE_PLANS = Kind(SlicePlan, KEY, "plans", "plan", 1, "a plan of slices",
                   {"graph_key": hex_digits(64), "schedules": hex_digits(16), "metric": any_of(METRICS), "regions": _good_regions},
                   {"before_ns": 1, "after_ns": 1}, _fault, faster_slices)
