"""The bank beneath the user's own: one that is named, or the built-in one, where what that says is so."""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn, Shelf
from aoec.bank.place import NO_BASE, base_named
from aoec.jobs.version import model_version
from aoec.target.machine import Machine


def base(named: str | None, machine: Machine, say: Callable[[str], None]) -> Shelf | None:
    """The bank that is asked for what the user's own has not; None where there is none. That a built-in one cannot be used is said."""
    asked = base_named(named)
    if asked == NO_BASE:
        return None
    if asked:
        return Bank.open(Path(asked).expanduser(), create=False, writable=False)
    found = BuiltIn.of(machine.name)
    if found is not None and (why := stale(*found.made_for, machine)):
        say(f"the built-in bank of {machine.name} is of another {why} and is not used")
        return None
    return found


def stale(machine_hash: str, version: str, machine: Machine) -> str:
    """What of a record differs from what is: "machine file", "model version", or "" where it is fresh."""
    if machine_hash != machine.hash:
        return "machine file"
    return "model version" if version != model_version() else ""
