"""`aoec bank diff`: what changed between two banks: record by record, with plans and what was measured."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from aoec.bank.bank import KINDS, Kept
from aoec.bank.gradient_traces import GradientTrace
from aoec.bank.measurements import Measured
from aoec.bank.plans import SlicePlan
from aoec.bank.record import Record, flat
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.jobs.bank.bank import SHOWN_DIGITS

UNSAID = ("created", "tool")  # what differs from run to run with nothing else
WORDS = ("record", *(kind.word for kind in KINDS))


@dataclass(frozen=True)
class Change:
    """What one bank has and the other has not, or has with other fields; `before` None: added, `after` None: removed."""

    before: Kept | None
    after: Kept | None

    @property
    def what(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    @property
    def row(self) -> Kept:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def fields(self) -> list[str]:
        """Return the names of the fields that differ, of a changed one."""
        if self.before is None or self.after is None:
            return []
        old, new = every(self.before), every(self.after)
        return [n for n in old if old[n] != new[n] and n not in UNSAID]


def changes(before: Iterable[Kept], after: Iterable[Kept]) -> list[Change]:
    """Return what changed: records, then what was measured, then plans, each sorted by key."""
    old, new = {identity_of(k): k for k in before}, {identity_of(k): k for k in after}
    found = (Change(old.get(k), new.get(k)) for k in sorted({*old, *new}))
    return [c for c in found if c.what != "changed" or c.fields]


def identity_of(k: Kept) -> tuple[Any, ...]:
    """Return what tells one from all others of a bank: its kind and its key."""
    if isinstance(k, Record):
        return 0, k.key
    nth, kind = next((i, kind) for i, kind in enumerate(KINDS, 1) if type(k) is kind.row)
    return nth, *kind.identity(k)


def every(k: Kept) -> dict[str, Any]:
    """Return all fields of a record, plan or measured time, by name."""
    return flat(k) if isinstance(k, Record) else asdict(k)


def target_of(k: Kept) -> str:
    """Return the machine that it is of."""
    return k.key.target if isinstance(k, Record) else k.target


def facts(found: Iterable[Change]) -> list[dict[str, Any]]:
    """Return the changes as a program reads them."""
    return [{"change": c.what, "kind": WORDS[identity_of(c.row)[0]], "fields": c.fields, "before": c.before and every(c.before),
             "after": c.after and every(c.after)} for c in found]


def describe_changes(found: list[Change]) -> str:
    """Return a line a change, and how many there are."""
    sign = {"added": "+", "removed": "-", "changed": "~"}
    rows = [f"{sign[c.what]} {key:{SHOWN_DIGITS}} {times(c):>24}  {words}" + f" ({', '.join(c.fields)})" * bool(c.fields)
            for c in found for key, words in [show_key(c.row)]]
    said = ", ".join(f"{sum(c.what == w for c in found):,} {w}" for w in sign)
    units = "; cycles by kind" + "; plans and what was measured: us" * any(not isinstance(c.row, Record) for c in found)
    return "\n".join([*rows, said + units]) + "\n"


def show_key(k: Kept) -> tuple[str, str]:
    """Return the first digits of what it is kept under, and what it is of."""
    if isinstance(k, Record):
        return k.key.func_key[:SHOWN_DIGITS], f"{k.key.target}, {k.label}, {k.key.state}"
    if isinstance(k, SlicePlan):
        return k.graph_key[:SHOWN_DIGITS], f"{k.target}, {k.label}, plan of slices: {k.regions or 'none'}"
    if isinstance(k, Measured):
        return k.digest[:SHOWN_DIGITS], f"{k.target}, {k.work}, measured, {k.source}:{k.line}"
    if isinstance(k, GradientTrace):
        return k.sizes_key[:SHOWN_DIGITS], f"{k.target}, {k.label}, measured step of {k.gradients:,} gradients"
    return k.graph_key[:SHOWN_DIGITS], f"{k.target}, {k.label}, plan of the model by {k.metric}{': none' * (not k.plan)}"


def times(c: Change) -> str:
    """Return the times of both, or of the one that there is: cycles of records, us of others."""
    return " -> ".join(dict.fromkeys(time_of(k) for k in (c.before, c.after) if k))


def time_of(k: Kept) -> str:
    if isinstance(k, Record):
        return f"{k.ticks / TICKS_PER_CYCLE:,.0f}"
    return f"{(k.time_ns if isinstance(k, Measured) else k.after_ns) / 1e3:,.2f}"
