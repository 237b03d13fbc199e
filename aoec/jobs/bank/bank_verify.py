"""`aoec bank verify`: the schedule of each record timed again on the machine as it is now."""
from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aoec.bank.record import Record, flat
from aoec.base.errors import AoecError, CheckError
from aoec.base.text import plural
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.func.tir import Func
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_func
from aoec.jobs.bank.bank import SHOWN_DIGITS
from aoec.jobs.bank.shelf import Machines, age, machine_of
from aoec.jobs.states import state_of
from aoec.jobs.tune.made import measure_trace
from aoec.jobs.tune.solve import total_ticks
from aoec.target.machine import Machine

CHANGED = "another program has changed it since it was written; no compile takes it, aoec bank prune removes it"


@dataclass(frozen=True)
class Verified:
    """The outcome for a record. `state` is equal, differs (a fresh record with another time), changed (its checksum does not hold), stale
    (`ticks`: its present time), illegal (it has no program any more) or unknown. `why` is the reason in words."""

    record: Record
    state: str
    ticks: int | None = None
    why: str = ""

    @property
    def wrong(self) -> bool:
        """Return whether the record says what is not so, of the machine and the model as they are."""
        return self.state in ("differs", "changed") or self.state == "illegal" and not self.why.startswith("stale")


def verify_records(records: Iterable[Record], machines: Machines, changed: Collection[Record] = ()) -> list[Verified]:
    """Return what became of each record, in order: timed again, but for those that another program has `changed`."""
    records, other = list(records), set(changed)
    funcs = {r.key.func_key: r.func for r in records if r.func}
    return [Verified(r, "changed", why=CHANGED) if r in other else one(r, r.func or funcs.get(r.key.func_key, ""), machines)
            for r in records]


def one(record: Record, func: str, machines: Machines) -> Verified:
    """Return a record timed again; `func`: the text of its func."""
    machine = machine_of(record.key.target, machines)
    why = age(record, machines)
    if record.key.kind != "modelled":
        return Verified(record, "unknown", why="measured on a device")
    if machine is None:
        return Verified(record, "unknown", why=why)
    if not func:
        return Verified(record, "unknown", why="its func is not kept: an older schema wrote it")
    found = retime(record, func, machine)
    if isinstance(found, str):
        return Verified(record, "illegal", why=f"{why}; {found}" if why else found)
    return Verified(record, "stale" if why else "equal" if found == record.ticks else "differs", found, why)


def retime(record: Record, func: str, machine: Machine) -> int | str:
    """Return modelled ticks of the record's schedule, launch included; or why there are none."""
    try:
        return total_ticks(measure_trace(func_of(func, record.key.func_key), record.trace, machine, state_of(record.key.state)), machine)
    except AoecError as e:
        return str(e).splitlines()[0]


@lru_cache(maxsize=64)
def func_of(text: str, func_key: str) -> Func:
    """Return the func of a text that may come from anybody. Raise CheckError where it is not the key's."""
    func = parse_func(text)
    if key(func) != func_key:
        raise CheckError("its func is not the one of its key")
    return func


def facts(found: Iterable[Verified]) -> list[dict[str, Any]]:
    """Return the results as a program reads them."""
    return [{"result": v.state, "why": v.why, "ticks_now": v.ticks, **flat(v.record)} for v in found]


def describe_verified(found: list[Verified], unmarked: int = 0) -> str:
    """Return a line for each record that is not equal, and how many are what. `unmarked`: how many have no checksum."""
    out = [f"{v.record.key.func_key[:SHOWN_DIGITS]}  {v.state:8} {now(v)}  {v.record.key.target}, {v.record.label}, {v.record.key.state}"
           + f" ({v.why})" * bool(v.why) for v in found if v.state != "equal"]
    counts = Counter(v.state for v in found)
    said = ", ".join(f"{n:,} {state}" for state, n in sorted(counts.items())) or "no records"
    older = [f"{plural(unmarked, 'record')} of an older aoec without a checksum: changes of other figures than the time are not noticed"]
    return "\n".join([*out, *older * bool(unmarked), f"{said}; cycles, modelled"]) + "\n"


def now(v: Verified) -> str:
    """Return the time that is claimed, and the time that it is."""
    after = "-" if v.ticks is None else f"{v.ticks / TICKS_PER_CYCLE:,.0f}"
    return f"{v.record.ticks / TICKS_PER_CYCLE:,.0f} -> {after}"
