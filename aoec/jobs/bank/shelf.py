"""The bank beneath the user's own: a named one, the folder of results of a job, or the built-in one. Only its true claims are used."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from aoec.bank.bank import Bank
from aoec.bank.builtin import BuiltIn, Shelf
from aoec.bank.claims import Claimed
from aoec.bank.model_plans import ModelPlan
from aoec.bank.plans import SlicePlan
from aoec.bank.record import Key, Record
from aoec.base.errors import BankError
from aoec.base.files.bank_place import NO_BASE, base_named, in_folder, path_of
from aoec.jobs.bank.from_results import schedules
from aoec.jobs.version import model_version
from aoec.report.results.folder import latest
from aoec.target.machine import Machine, load, targets


def base(named: str | None, machine: Machine, say: Callable[[str], None]) -> Shelf | None:
    """Return the bank that is asked for what the user's own has not. Return None where there is none. What of it cannot be used is said."""
    found = beneath(named, machine.name)
    if isinstance(found, Claimed):
        fresh = [r for r in found.records.values() if not stale(r.key.machine_hash, r.key.model_version, machine)]
        old = next((r.key for r in found.records.values() if r not in fresh), None)
        if old:
            say(f"schedules in {found.path} are of another {stale(old.machine_hash, old.model_version, machine)} and are not used")
        return Claimed(fresh, _fresh(found.base, machine, say), found.path)
    return _fresh(found, machine, say)


def _fresh(found: Shelf | None, machine: Machine, say: Callable[[str], None]) -> Shelf | None:
    """Return a shelf, but for a built-in one that is of another machine or model."""
    if isinstance(found, BuiltIn) and (why := stale(*found.made_for, machine)):
        say(f"the built-in bank of {machine.name} is of another {why} and is not used")
        return None
    return found


def beneath(named: str | None, target: str) -> Shelf | None:
    """Return the bank that is named, fresh or stale: by its file, by a folder that holds one, or by a folder of results (over the built-in
    one). Return None for NO_BASE, and the built-in one of a target where none is named."""
    asked = base_named(named)
    if asked == NO_BASE:
        return None
    if not asked:
        return BuiltIn.of(target)
    place = path_of(asked).expanduser()
    if folder := latest(place):
        return Claimed(schedules(folder), BuiltIn.of(target), folder)
    if place.is_dir():
        place = in_folder(place)
    try:
        return Bank.open(place, create=False, writable=False)
    except BankError as e:
        raise BankError(f"{e} (this is the bank beneath, of {'--base' if named else '$AOEC_BASE_BANK'})") from e


def stale(machine_hash: str, version: str, machine: Machine) -> str:
    """Return what of a record differs from what is: "machine file", "model version", or "" where it is fresh."""
    if machine_hash != machine.hash:
        return "machine file"
    return "model version" if version != model_version() else ""


Machines = Mapping[str, Machine]  # by name: those that a user names by file, in the place of those that come with aoec


def age(record: Record, machines: Machines) -> str:
    """Return "" for a fresh record; else say why it does not apply to the present machine and model."""
    return age_of(record.key, machines)


def age_of(key: Key | SlicePlan | ModelPlan, machines: Machines) -> str:
    """Return the same of a record's key, or of a plan."""
    machine = machine_of(key.target, machines)
    if machine is None:
        return f"no machine {key.target} here; --target FILE.toml names it"
    why = stale(key.machine_hash, key.model_version, machine)
    return f"stale: of another {why}" if why else ""


def machine_of(name: str, machines: Machines) -> Machine | None:
    """Return the machine that a record's target names. Return None where nobody knows it."""
    return machines.get(name) or (_shipped_machine(name) if name in targets() else None)


@lru_cache(maxsize=64)
def _shipped_machine(name: str) -> Machine:
    return load(name)
