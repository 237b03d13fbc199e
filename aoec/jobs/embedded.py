"""Schedules in a model's own file: `--embed` writes them into the ONNX file's metadata, and a compile for the same machine takes them as
it takes those of a bank.

They are claims of a file from outside. Machine, model version and schedule language must be what they were made for; a schedule must fit
its group and take the time that it says, which is tried before it is believed; its values are verified again, what was proved of it is
forgotten, and its bound is worked out here.
"""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoec.bank.builtin import Shelf
from aoec.bank.claimed import Claimed
from aoec.bank.record import Record, flat, unflat
from aoec.base.errors import BankError
from aoec.frontend import metadata
from aoec.jobs.order import keys
from aoec.jobs.plan import Task
from aoec.jobs.shelf import base
from aoec.jobs.solve import holds
from aoec.jobs.tuning import bound_in
from aoec.jobs.version import language_version, model_version
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.jobs.compile import Made

KEY = "aoec.schedules"  # of the entry in metadata_props
FORMAT = 1
MOST_RECORDS = 20_000
NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")  # of what a file says and a terminal may show
KEPT = ("func_key", "state", "label", "trace", "default_ticks", "ticks", "trials", "searched", "seed", "search")  # of a record
FORGOTTEN = {"bound_ticks": 0, "proof": "", "verified": False, "tool": "", "created": "", "func": "", "kind": "modelled"}


def write(path: str, source: metadata.Source, made: Sequence[Made], machine: Machine) -> None:
    """Nothing; a copy of the model carries the schedules in use, of all its gears."""
    records = {r.key: r for m in made for c in m.choices for r in (c.solved.default, c.solved.best)}
    listed = [{name: flat(r)[name] for name in KEPT} for _, r in sorted(records.items())]
    metadata.write(path, source, KEY, json.dumps({**made_for(machine), "records": listed}, separators=(",", ":")))


def made_for(machine: Machine) -> dict[str, Any]:
    """What must be equal where schedules are to be used."""
    return {"format": FORMAT, "target": machine.name, "machine_hash": machine.hash, "model_version": model_version(),
            "language": language_version()}


def below(source: metadata.Source | None, plan: Sequence[Task], machine: Machine, robust: bool, named: str | None,
            say: Callable[[str], None]) -> Shelf | None:
    """What lies beneath a user's own bank: what the model's file carries for these tasks, over the bank that is `named` (`--base`)."""
    under = base(named, machine, say)
    records = carried(source, plan, machine, robust, say)
    return Claimed(records, under, under.path if under else Path(KEY)) if records else under


def carried(source: metadata.Source | None, plan: Sequence[Task], machine: Machine, robust: bool,
            say: Callable[[str], None]) -> list[Record]:
    """What a model's file has for these tasks; that there is something that cannot be used is said in a line."""
    text = metadata.value(source, KEY) if source is not None else ""
    if not text:
        return []
    try:
        claimed = {r.key: r for r in parsed(text, machine)}
    except BankError as e:
        say(f"the schedules in the model's file are not used: {e}")
        return []
    distinct = {keys(t, machine, robust): t for t in plan}
    found = [(claimed[default], claimed[best], task) for (default, best), task in distinct.items() if {default, best} <= claimed.keys()]
    good = [pair for default, best, task in found if (pair := tried(default, best, task, machine))]
    wrong = f"; those of {len(found) - len(good)} do not take the time that they say, and are not used" if len(good) < len(found) else ""
    say(f"the model's file has schedules for {len(good)} of {len(distinct)} different groups{wrong}")
    return [r for pair in good for r in pair]


def parsed(text: str, machine: Machine) -> list[Record]:
    """The records of an entry for a machine; BankError where it is of another, or damaged."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise BankError("they are no JSON") from e
    wanted = made_for(machine)
    if not isinstance(said, dict) or not {*wanted, "records"} <= said.keys():
        raise BankError("they do not say what they were made for")
    for name, words in (("format", "format"), ("target", "machine"), ("machine_hash", "machine file"), ("model_version", "model version"),
                        ("language", "schedule language")):
        if said[name] != wanted[name]:
            raise BankError(f"they are of another {words}{f' ({said[name]})' if NAME.fullmatch(str(said[name])) else ''}")
    listed = said["records"]
    if not isinstance(listed, list) or len(listed) > MOST_RECORDS:
        raise BankError(f"they are no list of at most {MOST_RECORDS:,}")
    return [record(item, machine) for item in listed]


def record(item: Any, machine: Machine) -> Record:
    """A record, of which nothing is kept that is not tried before it is used; BankError where it is none."""
    if not isinstance(item, Mapping) or set(item) != set(KEPT):
        raise BankError(f"one of them does not have the fields {', '.join(KEPT)}")
    return unflat({**item, **FORGOTTEN, "target": machine.name, "machine_hash": machine.hash, "model_version": model_version()})


def tried(default: Record, best: Record, task: Task, machine: Machine) -> tuple[Record, Record] | None:
    """The records of a task with its bound, where both schedules take the time that they say; that the first is the default is believed."""
    if best.ticks > default.ticks or not (holds(default, task, machine) and holds(best, task, machine)):
        return None
    bound_ticks = min(best.ticks, bound_in(task.func, machine, task.state).ticks)
    first, second = (replace(r, default_ticks=default.ticks, bound_ticks=bound_ticks) for r in (default, best))
    return first, second
