"""`aoec bank diff`: what changed between two banks, record by record."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from aoec.bank.record import Record, flat
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.jobs.bank import SHOWN_DIGITS

UNSAID = ("created", "tool")  # what differs from run to run with nothing else


@dataclass(frozen=True)
class Change:
    """A record that one bank has and the other has not, or has with other fields; `before` None: added, `after` None: removed."""

    before: Record | None
    after: Record | None

    @property
    def what(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    @property
    def record(self) -> Record:
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def fields(self) -> list[str]:
        """The names of the fields that differ, of a changed one."""
        if self.before is None or self.after is None:
            return []
        old, new = flat(self.before), flat(self.after)
        return [n for n in old if old[n] != new[n] and n not in UNSAID]


def changes(before: Iterable[Record], after: Iterable[Record]) -> list[Change]:
    """What changed, sorted by key."""
    old, new = {r.key: r for r in before}, {r.key: r for r in after}
    found = (Change(old.get(k), new.get(k)) for k in sorted({*old, *new}))
    return [c for c in found if c.what != "changed" or c.fields]


def facts(found: Iterable[Change]) -> list[dict[str, Any]]:
    """The changes as a program reads them."""
    return [{"change": c.what, "fields": c.fields, "before": c.before and flat(c.before), "after": c.after and flat(c.after)}
            for c in found]


def told(found: list[Change]) -> str:
    """A line a change, and how many there are."""
    sign = {"added": "+", "removed": "-", "changed": "~"}
    rows = [f"{sign[c.what]} {c.record.key.func_key[:SHOWN_DIGITS]} {cycles(c):>24}  {c.record.key.target}, {c.record.label}, "
            f"{c.record.key.state}" + f" ({', '.join(c.fields)})" * bool(c.fields) for c in found]
    said = ", ".join(f"{sum(c.what == w for c in found):,} {w}" for w in sign)
    return "\n".join([*rows, f"{said}; cycles by kind"]) + "\n"


def cycles(c: Change) -> str:
    """The times of both records, or of the one that there is."""
    times = dict.fromkeys(f"{r.ticks / TICKS_PER_CYCLE:,.0f}" for r in (c.before, c.after) if r)
    return " -> ".join(times)
