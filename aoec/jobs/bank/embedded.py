"""Schedules in a model's own file. `--embed` writes them into the ONNX file's metadata, and a compile for the same machine uses them like
those of a bank.

They come from outside and are checked. They must be made for this machine, this model version and this schedule language. A schedule must
fit its group and take the time that it claims; it is timed before it is used. Its values are verified again, its proof is dropped, and its
bound is computed here. A plan of slices, or of the model, is timed in the model like one of a bank.

The file has the schedules of the model as the rules group it and as its plan does, whole and in slices, in all layouts that were tried. The
groups of a model become known step by step, so the schedules are tried step by step, too.
"""
from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from aoec.bank.bank import Bank
from aoec.bank.builtin import Shelf
from aoec.bank.claims import Claimed
from aoec.bank.model_plans import MODEL_PLANS, ModelPlan
from aoec.bank.plans import SLICE_PLANS, SlicePlan
from aoec.bank.record import Key, Record, flat, unflat
from aoec.bank.rows import Kind
from aoec.base.errors import BankError
from aoec.frontend.read import metadata
from aoec.jobs.bank.shelf import base
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.tune.order import keys
from aoec.jobs.tune.solve import holds
from aoec.jobs.tune.tuning import bound_in
from aoec.jobs.version import language_version, model_version
from aoec.target.machine import Machine

P = TypeVar("P")
KEY = "aoec.schedules"  # of the entry in metadata_props
FORMAT = 1
MOST_RECORDS = 20_000
MOST_PLANS = 1_000
MOST_MODEL_PLANS = 100  # a gear and a metric each
NAME = re.compile(r"[A-Za-z0-9_.-]{1,40}")  # of what a file says and a terminal may show
KEPT = ("func_key", "state", "label", "trace", "default_ticks", "ticks", "trials", "searched", "seed", "search")  # of a record
FORGOTTEN = {"bound_ticks": 0, "proof": "", "verified": False, "tool": "", "created": "", "func": "", "kind": "modelled"}

PLANNED = ("graph_key", "schedules", "metric", "label", "regions", "before_ns", "after_ns")  # of a plan of slices
MODEL_PLANNED = ("graph_key", "metric", "label", "plan", "before_ns", "after_ns", "searched")  # of one of the model


@dataclass(frozen=True)
class Said:
    """What a model's file says for this machine, all of it untried."""

    records: tuple[Record, ...]
    plans: tuple[SlicePlan, ...]
    model_plans: tuple[ModelPlan, ...]


class Carried(Claimed):
    """The schedules in a model's file, over another shelf. Those that have been tried for a task are answers by key. The funcs that the
    file has are reported before that."""

    def __init__(self, said: Said, base: Shelf | None) -> None:
        super().__init__((), base, base.path if base else Path(KEY), said.plans, said.model_plans)
        self.untried = {r.key: r for r in said.records}

    def hear(self, plan: Iterable[Task], machine: Machine, robust: bool) -> tuple[int, int, int]:
        """Return (different tasks, those with schedules that are believed from now on, those with schedules that do not hold)."""
        distinct = {keys(t, machine, robust): t for t in plan}
        found = [(self.untried[default], self.untried[best], t) for (default, best), t in distinct.items()
                 if {default, best} <= self.untried.keys()]
        good = [pair for default, best, t in found if (pair := try_records(default, best, t, machine))]
        self.records |= {r.key: r for pair in good for r in pair}
        return len(distinct), len(good), len(found) - len(good)

    def of_funcs(self, func_keys: Iterable[str]) -> tuple[Record, ...]:
        wanted = set(func_keys)
        return *(r for r in self.untried.values() if r.key.func_key in wanted), *(self.base.of_funcs(wanted) if self.base else ())


def hear(bank: Bank, plan: Iterable[Task], machine: Machine, robust: bool) -> None:
    """Try the schedules of a model's file for further tasks: those of the model in other layouts, or in slices."""
    if isinstance(bank.base, Carried):
        bank.base.hear(plan, machine, robust)


def write(path: str, source: metadata.Source, made: Iterable[Made], plans: Iterable[SlicePlan], model_plans: Iterable[ModelPlan],
          machine: Machine) -> None:
    """Write a copy of the model with the schedules of all its gears and the plans in use."""
    choices = [c for last in made for m in steps(last) for c in m.choices]
    records: dict[Key, Record] = {r.key: r for c in choices for r in (c.solved.default, c.solved.best)}
    listed = [{name: flat(r)[name] for name in KEPT} for _, r in sorted(records.items())]
    cut = [{name: asdict(p)[name] for name in PLANNED} for p in sorted(set(plans))]
    whole = [{name: asdict(p)[name] for name in MODEL_PLANNED} for p in sorted(set(model_plans))]
    entry = {**made_for(machine), "records": listed, "plans": cut, "model_plans": whole}
    metadata.write(path, source, KEY, json.dumps(entry, separators=(",", ":")))


def name_plans(slices: bool, model: bool) -> str:
    """Return the plans that a file carries, in words. Return "" where there are none."""
    return "plans of the model and of slices" if slices and model else "a plan of the model" * model or "a plan of slices" * slices


def steps(made: Made) -> Iterator[Made]:
    """Yield a compiled model, and what it was before in other layouts or whole."""
    step: Made | None = made
    while step:
        yield step
        step = step.before


def made_for(machine: Machine) -> dict[str, Any]:
    """Return what must be equal where schedules are to be used."""
    return {"format": FORMAT, "target": machine.name, "machine_hash": machine.hash, "model_version": model_version(),
            "language": language_version()}


def below(source: metadata.Source | None, plan: Sequence[Task], machine: Machine, robust: bool, named: str | None,
            say: Callable[[str], None]) -> Shelf | None:
    """Return the shelf beneath a user's own bank: what the model's file has for these tasks, over the bank that is `named` (`--base`)."""
    under, said = base(named, machine, say), read_carried(source, machine, say)
    if said is None:
        return under
    shelf = Carried(said, under)
    distinct, good, bad = shelf.hear(plan, machine, robust)
    wrong = f"; those of {bad} do not take the time that they say, and are not used" if bad else ""
    plans = name_plans(any(p.is_faster for p in said.plans), any(p.is_faster for p in said.model_plans))
    say(f"the model's file has schedules for {good} of {distinct} different groups{f', and {plans}' * bool(plans)}{wrong}")
    return shelf


def read_carried(source: metadata.Source | None, machine: Machine, say: Callable[[str], None]) -> Said | None:
    """Return what a model's file carries for a machine; that there is something that cannot be used is said in a line."""
    text = metadata.value(source, KEY) if source is not None else ""
    if not text:
        return None
    try:
        return parse_entry(text, machine)
    except BankError as e:
        say(f"the schedules in the model's file are not used: {e}")
        return None


def parse_entry(text: str, machine: Machine) -> Said:
    """Return what an entry says for a machine. Raise BankError where it is of another, or damaged. One without plans is of a model that has
    none."""
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
    return Said(tuple(record(item, machine) for item in entries(said["records"], MOST_RECORDS, "they")),
                tuple(plan_of(item, PLANNED, SLICE_PLANS, machine)
                      for item in entries(said.get("plans", []), MOST_PLANS, "its plans of slices")),
                tuple(plan_of(item, MODEL_PLANNED, MODEL_PLANS, machine)
                      for item in entries(said.get("model_plans", []), MOST_MODEL_PLANS, "its plans of the model")))


def entries(listed: Any, most: int, what: str) -> list[Any]:
    """Return a list that is not too long. Raise BankError for anything else."""
    if not isinstance(listed, list) or len(listed) > most:
        raise BankError(f"{what} are no list of at most {most:,}")
    return listed


def plan_of(item: Any, names: Sequence[str], kind: Kind[P], machine: Machine) -> P:
    """Return a plan with fields of these names, to be timed before it is taken. Raise BankError where it is none."""
    if not isinstance(item, Mapping) or set(item) != set(names):
        raise BankError(f"{kind.name} in it does not have the fields {', '.join(names)}")
    here = {"target": machine.name, "machine_hash": machine.hash, "model_version": model_version()}
    return kind.check_fields({**item, **here, "tool": "", "created": ""})


def record(item: Any, machine: Machine) -> Record:
    """Return a record, of which nothing is kept that is not tried before it is used. Raise BankError where it is none."""
    if not isinstance(item, Mapping) or set(item) != set(KEPT):
        raise BankError(f"one of them does not have the fields {', '.join(KEPT)}")
    return unflat({**item, **FORGOTTEN, "target": machine.name, "machine_hash": machine.hash, "model_version": model_version()})


def try_records(default: Record, best: Record, task: Task, machine: Machine) -> tuple[Record, Record] | None:
    """Return the records of a task with its bound, where both schedules take the times that they claim. The claim that the first is the
    default is not checked."""
    if best.ticks > default.ticks or not (holds(default, task, machine) and holds(best, task, machine)):
        return None
    bound_ticks = min(best.ticks, bound_in(task.func, machine, task.state).ticks)
    first, second = (replace(r, default_ticks=default.ticks, bound_ticks=bound_ticks) for r in (default, best))
    return first, second
