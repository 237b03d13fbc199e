"""The bank beneath the user's own: one that is named, or the built-in one, where what that says is so."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn, Shelf
from aoec.bank.place import NO_BASE, base_named
from aoec.bank.record import Record
from aoec.jobs.version import model_version
from aoec.target.machine import Machine, load, targets


def base(named: str | None, machine: Machine, say: Callable[[str], None]) -> Shelf | None:
    """The bank that is asked for what the user's own has not; None where there is none. That a built-in one cannot be used is said."""
    found = beneath(named, machine.name)
    if isinstance(found, BuiltIn) and (why := stale(*found.made_for, machine)):
        say(f"the built-in bank of {machine.name} is of another {why} and is not used")
        return None
    return found


def beneath(named: str | None, target: str) -> Shelf | None:
    """The bank that is named, fresh or stale: by its file, NO_BASE, or the built-in one of a target where nothing is."""
    asked = base_named(named)
    if asked == NO_BASE:
        return None
    return Bank.open(Path(asked).expanduser(), create=False, writable=False) if asked else BuiltIn.of(target)


def stale(machine_hash: str, version: str, machine: Machine) -> str:
    """What of a record differs from what is: "machine file", "model version", or "" where it is fresh."""
    if machine_hash != machine.hash:
        return "machine file"
    return "model version" if version != model_version() else ""


Machines = Mapping[str, Machine]  # by name: those that a user names by file, in the place of those that come with aoec


def age(record: Record, machines: Machines) -> str:
    """"" of a fresh record; else in words why it says nothing of the machine and the model as they are."""
    machine = machine_of(record.key.target, machines)
    if machine is None:
        return f"no machine {record.key.target} here; --target FILE.toml names it"
    why = stale(record.key.machine_hash, record.key.model_version, machine)
    return f"stale: of another {why}" if why else ""


def machine_of(name: str, machines: Machines) -> Machine | None:
    """The machine that a record's target names; None where nobody knows it."""
    return machines.get(name) or (_shipped(name) if name in targets() else None)


@lru_cache(maxsize=64)
def _shipped(name: str) -> Machine:
    return load(name)
