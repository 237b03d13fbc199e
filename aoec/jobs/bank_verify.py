"""`aoec bank verify`: the schedule of each record timed again on the machine as it is now."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from aoec.bank.record import Record
from aoec.base.errors import AoecError, CheckError
from aoec.ir.keys import key
from aoec.ir.parse import parse_func
from aoec.ir.tir import Func
from aoec.jobs.made import measured
from aoec.jobs.plan import state_of
from aoec.jobs.shelf import stale
from aoec.jobs.solve import total_ticks
from aoec.target.machine import Machine, load, targets


@dataclass(frozen=True)
class Verified:
    """What became of a record: `state` is equal, differs (a fresh record whose time is another one), stale (of another machine file or
    model version: `ticks` says what it takes now), illegal (no program any more) or unknown (`why`: no func, no such machine, measured)."""

    record: Record
    state: str
    ticks: int | None = None
    why: str = ""


def verified(records: Iterable[Record], machines: Mapping[str, Machine]) -> list[Verified]:
    """Each record timed again, in order; `machines` by name stand in for those that come with aoec."""
    records = list(records)
    funcs = {r.key.func_key: r.func for r in records if r.func}
    return [one(r, funcs.get(r.key.func_key, ""), machines) for r in records]


def one(record: Record, func: str, machines: Mapping[str, Machine]) -> Verified:
    """A record timed again; `func`: the text of its func."""
    key = record.key
    if key.kind != "modelled":
        return Verified(record, "unknown", why="measured on a device")
    if key.target not in machines and key.target not in targets():
        return Verified(record, "unknown", why=f"no machine {key.target} here; --target FILE.toml names it")
    if not func:
        return Verified(record, "unknown", why="its func is not kept: an older schema wrote it")
    machine = machines.get(key.target) or shipped(key.target)
    found, why = retimed(record, func, machine), stale(key.machine_hash, key.model_version, machine)
    if isinstance(found, str):
        return Verified(record, "illegal", why=found)
    return Verified(record, "stale" if why else "equal" if found == record.ticks else "differs", found, f"of another {why}" if why else "")


def retimed(record: Record, func: str, machine: Machine) -> int | str:
    """Modelled ticks of the record's schedule, launch included; or why there are none."""
    try:
        return total_ticks(measured(func_of(func, record.key.func_key), record.trace, machine, state_of(record.key.state)), machine)
    except AoecError as e:
        return str(e).splitlines()[0]


@lru_cache(maxsize=64)
def func_of(text: str, func_key: str) -> Func:
    """The func of a text that may come from anybody; CheckError where it is not the key's."""
    func = parse_func(text)
    if key(func) != func_key:
        raise CheckError("its func is not the one of its key")
    return func


@lru_cache(maxsize=64)
def shipped(name: str) -> Machine:
    return load(name)
