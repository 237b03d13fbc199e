"""`aoec deliver --read`: keep a device's profile as measured times, beside the modelled times of the bank's records of the same operators.

A single profile does not say which schedule ran: its times are the vendor's own. Two profiles, from before and after the schedules were
applied, can be compared. An operator with a tuned record of ours is a *hit* in two cases. It runs on another number of cores, or its time
changed by more than the times of operators without such a record. Its time after is then taken to be that of our schedule. Nothing in a
profile confirms this.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import log
from pathlib import Path
from statistics import median
from typing import Any

from aoec.bank.bank import Bank, statuses
from aoec.bank.measurements import Measured
from aoec.bank.record import NAME_LIMIT, Record
from aoec.base.errors import CheckError, one_line
from aoec.base.text import plural
from aoec.cann.op_summary_join import Timed, join, list_timed, share
from aoec.cann.op_summary_read import Profile, read
from aoec.jobs.bank.row_funcs import Known
from aoec.jobs.calibrate.calibrate_say import banks
from aoec.jobs.deliver.joined import clip
from aoec.options.exchange import DeliverOptions
from aoec.report.deliver import LABEL
from aoec.report.reasons import table
from aoec.target.machine import Machine, load

STEADY = 0.03  # of a time, by which two profiles of one kernel differ at the most
SPREADS = 3.0  # and by how many times the median change of what nothing was delivered for
SHOWN = 40
HEADS = ("operator", "calls", "before µs", "µs", "change", "modelled: default", "ours", "change", "measured/modelled")


@dataclass(frozen=True)
class Back:
    """An operator of the profile. `before`: its time in the profile before, if there is one and it is in it; `record`: ours of the same
    work. `what`: hit or not (of an operator with a tuned record, in two profiles), else ""."""

    now: Timed
    before: Timed | None
    record: Record | None
    what: str
    ticks_us: float

    @property
    def change(self) -> float | None:
        """Return the time after divided by the time before: 0.9 is a tenth faster. Return None where there is no time before."""
        return self.now.us / self.before.us if self.before else None

    @property
    def modelled_us(self) -> float | None:
        """Return what is held against the measured time: of a hit our schedule's, else the default's."""
        if self.record is None:
            return None
        return (self.record.ticks if self.what == "hit" else self.record.default_ticks) * self.ticks_us

    @property
    def off(self) -> float:
        """Return how far model and chip differ, as a logarithm. Return 0 where nothing is modelled."""
        return abs(log(self.now.us / self.modelled_us)) if self.modelled_us else 0.0


def read_back(path: str, options: DeliverOptions) -> tuple[dict[str, Any], str, list[str]]:
    """Return (facts, words, notes); the bank has the measured times then."""
    machine = load(options.target) if options.target else load()
    profiles = [read_profile(p) for p in (path, options.before) if p]
    if len({p.digest for p in profiles}) < len(profiles):
        raise CheckError("the profiles before and after are the same file", source=options.before or path)
    found = backs(profiles, banks(options, machine), machine)
    kept = Bank.open(options.bank_path).measurements.put_all(records(profiles, found, machine, datetime.now(UTC)))
    said = facts(found, profiles, machine) | {"bank": str(options.bank_path), "kept": statuses(kept)}
    return said, describe_reading(found, said), [line for p in profiles for line in (*p.notes, *other_chip(p, machine))]


def read_profile(path: str) -> Profile:
    """Return the profile in a file. Raise CheckError where its times are not a device's."""
    profile = read(path)
    if profile.kind != "measured":
        raise CheckError("the times of this profile are modelled, as its column source says; a device's are needed", source=path)
    return profile


def other_chip(p: Profile, machine: Machine) -> list[str]:
    """Return a note where a task ran on more cores than the machine has of a kind."""
    most = max(kind.count for kind in machine.cores.values())
    beyond = next((r for r in p.rows if (r.cores or 0) > most), None)
    return [f"{p.source}, line {beyond.line}: {plural(beyond.cores or 0, 'core')}, and {machine.name} has {most} of a kind; another chip's "
            "profile? --target names it"] if beyond else []


def backs(profiles: Sequence[Profile], known: Sequence[Known], machine: Machine) -> list[Back]:
    """Return the operators of the profile (after), with what the one before and the banks have of them."""
    now, *before = map(list_timed, profiles)
    met = best_of(now, known)
    old = dict(join(now, before[0])) if before else {}
    pairs = [(t, before[0][old[i]] if i in old else None, met.get(i)) for i, t in enumerate(now)]
    steady = changes([p for p in pairs if p[2] is None or not p[2].is_faster])
    return [Back(t, b, r, what(t, b, r, steady) if before else "", machine.us_per_tick) for t, b, r in pairs]


def best_of(now: Sequence[Timed], known: Sequence[Known]) -> dict[int, Record]:
    """Return place of an operator -> the record of the same work. Of several (memory states, older models) it is the one with the largest
    gain."""
    ranked = sorted(known, key=lambda k: k.record.ticks / max(k.record.default_ticks, 1))
    return {i: ranked[j].record for i, j in join(now, [k.timed for k in ranked])}


def changes(untouched: Sequence[tuple[Timed, Timed | None, Record | None]]) -> float:
    """Return by how much times change for which nothing was delivered, as a logarithm. A hit's change must be above this."""
    found = [abs(log(t.us / b.us)) for t, b, _ in untouched if b]
    return max(STEADY, SPREADS * median(found)) if found else STEADY


def what(now: Timed, before: Timed | None, record: Record | None, steady: float) -> str:
    """Return "hit" or "not hit" for an operator with a tuned record. Return "" where this cannot be told."""
    if before is None or record is None or not record.is_faster:
        return ""
    moved = abs(log(now.us / before.us)) > steady
    return "hit" if moved or now.cores != before.cores else "not hit"


def records(profiles: Sequence[Profile], found: Sequence[Back], machine: Machine, at: datetime) -> list[Measured]:
    """Return what the bank keeps: every operator of each profile."""
    out = [measured_row(profiles[0], b.now, b.record, "after" if len(profiles) > 1 else "", b.what == "hit", machine, at) for b in found]
    first = {id(b.before): b.record for b in found if b.before}
    for p in profiles[1:]:
        matched = {b.before.lines[0]: first[id(b.before)] for b in found if b.before}
        out += [measured_row(p, t, matched.get(t.lines[0]), "before", False, machine, at) for t in list_timed(p)]
    return out


def measured_row(p: Profile, t: Timed, record: Record | None, when: str, ours: bool, machine: Machine, at: datetime) -> Measured:
    """Return a measured time for the bank."""
    ns = [max(round(us * 1e3), 1) for us in (t.us, t.least_us, t.most_us)]
    work, types, name, source = (one_line(w)[:NAME_LIMIT] for w in (
        str(t.work or "+".join(t.types)), "+".join(t.types), t.names[0], Path(p.source).name))
    func_key, trace = (record.key.func_key, record.trace * ours) if record else ("", "")
    return Measured(machine.name, p.digest, t.lines[0], func_key, trace, work, types, name, when, ns[0], ns[1], ns[2], t.calls,
                    t.cores or 0, source, f"{at:%Y-%m-%dT%H:%M:%SZ}")


# ---------------------------------------------------------------- for people and programs

def facts(found: Sequence[Back], profiles: Sequence[Profile], machine: Machine) -> dict[str, Any]:
    """Return all of it as plain values."""
    hits = [b for b in found if b.what == "hit"]
    joined = [i for i, b in enumerate(found) if b.record]
    pairs = [b for b in found if b.before]
    return {
        "target": machine.name, "profiles": [{"source": p.source, "sha256": p.digest, "kind": p.kind} for p in profiles],
        "label": LABEL, "operators": len(found), "with_record": len(joined), "share_with_record": share([b.now for b in found], joined),
        "hits": len(hits), "not_hit": sum(b.what == "not hit" for b in found), "wins": sum((b.change or 1) < 1 for b in hits),
        "regressions": sum((b.change or 1) > 1 for b in hits),
        "before_us": sum(b.before.us * b.now.calls for b in pairs if b.before), "after_us": sum(b.now.us * b.now.calls for b in pairs),
        "rows": [{"work": str(b.now.work or "+".join(b.now.types)), "names": list(b.now.names[:8]), "calls": b.now.calls,
                  "measured_us": b.now.us, "measured_before_us": b.before.us if b.before else None, "change": b.change, "what": b.what,
                  "modelled_us": b.modelled_us, "modelled_default_us": b.record.default_ticks * b.ticks_us if b.record else None,
                  "modelled_ours_us": b.record.ticks * b.ticks_us if b.record else None,
                  "func_key": b.record.key.func_key if b.record else "", "inputs": [asdict(o) for o in b.now.inputs]}
                 for b in sorted(found, key=lambda b: -b.off)],
    }


def describe_reading(found: Sequence[Back], said: Mapping[str, Any]) -> str:
    """Return the reading for people."""
    files = [p["source"] for p in said["profiles"]]
    sources = f"{files[0]} (after) and {files[1]} (before)" if len(files) > 1 else files[0]
    lines = [f"{sources}, measured, on {said['target']}: {said['operators']} different operators, {said['with_record']} of them with a "
             f"record of the bank, {said['share_with_record']:.1%} of the time",
             f"kept in {said['bank']}: {said['kept']}"]
    if len(said["profiles"]) > 1:
        lines += [f"hit by what was delivered: {said['hits']} ({said['wins']} faster, {said['regressions']} slower), not hit: "
                  f"{said['not_hit']}; operators that are in both: {said['before_us']:,.1f} µs before, {said['after_us']:,.1f} after",
                  *name_lines("slower than before", [b for b in found if b.what == "hit" and (b.change or 1) > 1]),
                  *name_lines("not hit", [b for b in found if b.what == "not hit"])]
    off = sorted((b for b in found if b.record), key=lambda b: -b.off)
    if off:
        lines += ["", "where model and chip differ most:", *(f"  {line}" for line in table(HEADS, [row(b) for b in off[:SHOWN]]))]
    lines += [f"  and {len(off) - SHOWN} more; --json has all"] if len(off) > SHOWN else []
    return "\n".join([*lines, "", LEGEND]) + "\n"


LEGEND = ("before µs, µs: measured, the median of calls. Modelled: of the bank's record; measured/modelled holds a hit against our\n"
          "schedule and any other against the default. That an operator was hit is concluded from its times and cores. What aoec delivers\n"
          f"is {LABEL}: please send both op_summary files and deliver.json.")


def name_lines(what: str, of: Sequence[Back]) -> list[str]:
    """Return a line that names operators; none where there are none."""
    names = [f"{b.now.work} ({b.change:.2f})" for b in of[:8] if b.change]
    return [f"{what}: {', '.join(names)}{f' and {len(of) - 8} more' if len(of) > 8 else ''}"] if of else []


def row(b: Back) -> tuple[str, ...]:
    """Return an operator's line."""
    r = b.record
    assert r is not None  # others have no line
    default_us, ours_us = r.default_ticks * b.ticks_us, r.ticks * b.ticks_us
    return (clip(str(b.now.work)), f"{b.now.calls:,}", f"{b.before.us:,.2f}" if b.before else "-", f"{b.now.us:,.2f}",
            f"{b.change:.3f} {b.what}".rstrip() if b.change else "-", f"{default_us:,.2f}", f"{ours_us:,.2f}",
            f"{r.ticks / r.default_ticks:.3f}", f"{b.now.us / (b.modelled_us or b.now.us):.2f}")
