"""`aoec bank which`: of the records that say something of a func, which one a compile takes, and why not the others."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aoec.artifact.artifact import Artifact, load_gears
from aoec.bank.bank import Bank
from aoec.bank.measurements import Measured
from aoec.bank.record import DEFAULT, IMPORTED, ROBUST, Record, flat
from aoec.base.errors import BankError
from aoec.base.text import plural
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.graph.graph import Graph
from aoec.jobs.bank.bank import SHOWN_DIGITS, Times, as_values, by_schedule, in_words, of_record, theirs
from aoec.jobs.bank.shelf import Machines, age, beneath
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.stages.tasks import plan_tasks
from aoec.options.compile import TasksOptions
from aoec.options.exchange import WhichOptions
from aoec.target.machine import load, targets

OWN, BASE = "bank", "base"


@dataclass(frozen=True)
class Said:
    """A record with where it lies, whether it is the one that is taken, and why, or why not."""

    record: Record
    shelf: str
    wins: bool
    why: str


@dataclass(frozen=True)
class Choice:
    """What is said of one func in one memory state on one target. `group`: its group in the model that was asked about, if one was."""

    said: tuple[Said, ...]
    group: str = ""

    @property
    def first(self) -> Record:
        return self.said[0].record


def choices(own: Iterable[Record], base: Iterable[Record], machines: Machines) -> list[Choice]:
    """Return a choice for each func, target and memory state that a record is of, sorted; the record that is taken first. No defaults."""
    found: dict[tuple[str, str, str], list[tuple[str, Record]]] = {}
    for shelf, records in ((OWN, own), (BASE, base)):
        for r in records:
            if not r.key.state.endswith((DEFAULT, IMPORTED)):
                found.setdefault((r.key.func_key, r.key.target, r.key.state), []).append((shelf, r))
    return [Choice(tuple(decide(found[at], machines))) for at in sorted(found)]


@dataclass(frozen=True)
class Asked:
    """A model that is asked about: an ONNX model as imported and as fused for the machine, with its tasks in order, or the gears of a
    compiled one."""

    target: str
    imported: Graph | None = None
    graph: Graph | None = None
    tasks: tuple[Task, ...] = ()
    gears: tuple[Artifact, ...] = ()


def read_subject(options: WhichOptions, machines: Machines) -> Asked | None:
    """Return the model that `options.subject` names, read and lowered once for all that is said of it. Return None for a key."""
    path = options.subject
    if not (Path(path).is_file() or path.endswith((".onnx", ".aoec"))):
        return None
    if path.endswith(".aoec"):
        gears = tuple(load_gears(path))
        return Asked(gears[0].target, gears=gears)
    machine = next(iter(machines.values()), None) or load()
    planned = plan_tasks(options.into(TasksOptions, model=path), machine)
    return Asked(machine.name, planned.imported, planned.graph, tuple(planned.tasks))


def which(options: WhichOptions, machines: Machines, model: Asked | None) -> list[Choice]:
    """Return the choices of a key (`options.subject`, its beginning), or of all groups of the model that was asked about."""
    own = Bank.open(options.bank_path, create=False, writable=False) if options.bank_path.exists() else None
    if model:
        target, wanted = model.target, wanted_of(model)
        said, lower = ([*shelf.of_funcs(f for _, f, _ in wanted)] if shelf else [] for shelf in (own, beneath(options.base, target)))
        found = in_model(choices(said, lower, machines), wanted, target)
    else:
        shelves = [beneath(options.base, name) for name in ([options.target] if options.target else targets())]
        lower = [*{r.key: r for shelf in shelves if shelf for r in shelf.list(options.target, options.subject)}.values()]
        found = choices(own.list(options.target, options.subject) if own else (), lower, machines)
    return found


def need_any(asked: str, found: Sequence[object], bank: Path) -> None:
    """Raise BankError where nothing was found of what was asked about."""
    if not found:
        if not bank.exists():
            raise BankError(f"nothing is kept of {asked}, for there is no bank {bank}; aoec compile makes one, --bank names another")
        cut = "; if it runs in slices, ask of its ONNX model" if asked.endswith(".aoec") else ""
        raise BankError(f"nothing is kept of {asked}; see aoec bank list{cut}")


def wanted_of(model: Asked) -> list[tuple[str, str, str]]:
    """Return (group, func key, memory state) of a model's different tasks in order; a compiled one does not say its states ("")."""
    found = [(g.group, g.func_key, "") for a in model.gears for g in a.groups if g.func_key]
    found += [(t.group.name, t.func_key, t.state_text) for t in model.tasks]
    return list({(func, state): (group, func, state) for group, func, state in reversed(found)}.values())[::-1]


def in_model(found: list[Choice], wanted: list[tuple[str, str, str]], target: str) -> list[Choice]:
    """Return the choices of a model's groups, in its order; a group of which nothing is kept has none."""
    return [replace(c, group=group) for group, func, state in wanted for c in found
            if c.first.key.func_key == func and c.first.key.target == target and state in ("", c.first.key.state.removesuffix(ROBUST))]


def decide(records: list[tuple[str, Record]], machines: Machines) -> list[Said]:
    """Return what the records of one func come to, in the order in which they are asked (bank/bank.py: `claims`)."""
    fit = [(shelf, r) for shelf, r in records if r.key.kind == "modelled" and not age(r, machines)]
    gained = [f for f in fit if f[1].is_faster]
    taken = next(iter(gained or fit), None)  # the user's own come first
    said = [Said(r, shelf, (shelf, r) == taken, reason(shelf, r, taken, machines)) for shelf, r in records]
    return sorted(said, key=lambda s: (not s.wins, s.record.ticks))


def reason(shelf: str, r: Record, taken: tuple[str, Record] | None, machines: Machines) -> str:
    """Return why a record is taken, or why not."""
    if r.key.kind != "modelled":
        return "measured: times are modelled here, and the two kinds do not compare"
    if old := age(r, machines):
        return old + ("; a start of the next search" if old.startswith("stale") and shelf == OWN else "")
    if (shelf, r) == taken:
        if not r.is_faster:
            return f"nothing better than the default in {plural(r.searched, 'trial')}"
        return "fresh; the bank is asked first" if shelf == OWN else "fresh; the bank has none that is faster than the default"
    return "the bank's is asked first" if r.is_faster else "no faster than the default"


def facts(found: Iterable[Choice], measured: Iterable[Measured] = ()) -> list[dict[str, Any]]:
    """Return the choices as a program reads them."""
    times = by_schedule(measured)
    return [{"group": c.group, "what": c.first.label, "records": [
        {"wins": s.wins, "in": s.shelf, "why": s.why, **flat(s.record), **as_values(of_record(s.record, times))}
        for s in c.said]} for c in found]


def describe_choices(found: Iterable[Choice], measured: Iterable[Measured] = ()) -> str:
    """Return a paragraph for each choice; what devices took stands below what it is of."""
    times = by_schedule(measured)
    return "\n".join("\n".join([heading(c), *(line for s in c.said for line in (describe_record(s), *times_of(s.record, times))),
                                *theirs(times.get((c.first.key.target, c.first.key.func_key, ""), ()))[1:]]) + "\n" for c in found)


def times_of(r: Record, times: Times) -> list[str]:
    """Return lines of what devices took by a record's schedule."""
    return [f"           {in_words(m)}" for m in of_record(r, times)]


def heading(c: Choice) -> str:
    key = c.first.key
    name = f"{c.group}: " if c.group else ""
    return f"{name}{c.first.label} on {key.target}, {key.state} ({key.func_key[:SHOWN_DIGITS]})"


def describe_record(s: Said) -> str:
    r, taken = s.record, "taken" if s.wins else "not used"
    return f"  {taken:8} {s.shelf:4} {r.ticks / TICKS_PER_CYCLE:12,.0f} cycles, {r.key.kind}, {plural(r.searched, 'trial')}: {s.why}"
