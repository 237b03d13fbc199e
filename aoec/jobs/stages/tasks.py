"""`aoec tasks`: list what a tuning job of a model would do, without doing it: its different groups, their weight, and what the bank has."""
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aoec.bank.bank import Bank
from aoec.bank.record import Key, Record
from aoec.base.files.files import note
from aoec.base.text import plural
from aoec.frontend.rewrites.law import read_own
from aoec.ir.graph.graph import Graph
from aoec.jobs.bank.embedded import below
from aoec.jobs.choose import rounds
from aoec.jobs.choose.model_tasks import Task, place_groups, tasks
from aoec.jobs.compile.fuse_by_time import fuse_by_time
from aoec.jobs.compile.models import import_model
from aoec.jobs.tune.order import Order, budget_trials, keys, suffices
from aoec.jobs.tune.shares import READY_S
from aoec.jobs.tune.tuning import bound_in
from aoec.ops.own import read_files
from aoec.options.compile import TasksOptions
from aoec.target.machine import Machine, load

TRIAL_S = 0.0008  # CPU seconds of a trial: an estimate, from groups of BERT-base
COLUMNS = ("group", "what", "×", "bound µs", "weight", "bank", "to do, s")
LEGEND = ("bound µs  modelled; no schedule can beat it",
          "weight    share of the model's bound",
          "to do, s  CPU seconds that tuning may take, an estimate; 0 where the bank has what was asked for")


def list_tasks(options: TasksOptions) -> str:
    """Return the table, or JSON."""
    machine = load(options.target) if options.target else load()
    planned = plan_tasks(options, machine)
    graph, reasons, plan = planned.graph, planned.reasons, planned.tasks
    bank = Bank.open(options.bank_path, create=False, writable=False) if options.bank_path.exists() else None
    def say(text: str) -> None:
        note(text)

    shelf = below(options.model, plan, machine, False, options.base, say)
    facts = {"model": graph.name, "target": machine.name, "times": "modelled", "on_host": dict(reasons),
             "tasks": rows(plan, machine, bank.over(shelf).claims if bank else shelf.all_of if shelf else lambda keys: {},
                           Order(True, budget=("trials", options.budget)), rounds.counts(graph))}
    return json.dumps(facts, indent=2) + "\n" if options.json else show(facts)


@dataclass(frozen=True)
class PlannedTasks:
    """A model as imported, its fused graph, why groups of it cannot be the AI Core's, and the tasks of the others in order."""

    imported: Graph
    graph: Graph
    reasons: dict[str, str]
    tasks: list[Task]


def plan_tasks(options: TasksOptions, machine: Machine) -> PlannedTasks:
    """Import `options.model`, fuse it by the rules, and return it with its tasks."""
    imported, weights, _, _ = import_model(options.model, options.shapes, options.precision, None, read_files(options.operator_files),
                                        read_own(options.rewrite_files))
    graph, _, _, _ = fuse_by_time(imported, weights, machine)
    found = place_groups(graph)
    return PlannedTasks(imported, found.graph, found.reasons, tasks(found.graph, machine, funcs=found.funcs))


def rows(plan: list[Task], machine: Machine, claims: Callable[[Iterable[Key]], dict[Key, Record]], order: Order,
         often: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return facts of the different tasks, heaviest first; `claims`: what the banks say of keys; `often`: how often each group runs."""
    first: dict[Key, Task] = {}
    for task in plan:
        first.setdefault(keys(task, machine)[1], task)
    counts = Counter[Key]()
    for task in plan:
        counts[keys(task, machine)[1]] += often[task.group.name]
    held = claims(first)
    bounds = {key: bound_in(task.func, machine, task.state).ticks * machine.us_per_tick for key, task in first.items()}
    total = sum(bounds[key] * n for key, n in counts.items())
    found = [{"group": task.group.name, "what": task.label, "count": counts[key], "bound_us": bounds[key],
              "weight": bounds[key] * counts[key] / total if total else 0.0, **in_bank(key, held, order)} for key, task in first.items()]
    return sorted(found, key=lambda f: -f["weight"])


def in_bank(key: Key, held: Mapping[Key, Record], order: Order) -> dict[str, Any]:
    """Return what the bank has of a task, and what is to be done."""
    record, trials = held.get(key), budget_trials(order)
    enough = record is not None and suffices(record, order)
    if record is None:
        state = "none"
    elif record.is_faster:
        trials_said = f", {plural(record.searched, 'trial')}" * bool(record.searched)
        state = f"tuned{trials_said}" + f", best of its {record.proof}" * bool(record.proof)
    else:
        state = f"nothing better in {plural(record.searched, 'trial')}"
    return {"bank": state, "to_do_s": 0.0 if enough else READY_S + TRIAL_S * trials}


def show(facts: Mapping[str, Any]) -> str:
    """Return one line a task under a line of headings, and what they come to."""
    listed = facts["tasks"]
    table = [COLUMNS, *((f["group"], f["what"], str(f["count"]), f"{f['bound_us']:,.2f}", f"{f['weight']:.1%}", f["bank"],
                         f"{f['to_do_s']:.1f}") for f in listed)]
    widths = [max(len(row[i]) for row in table) for i in range(len(COLUMNS))]
    aligned = [[f"{c:<{w}}" if i in (0, 1, 5) else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, widths))] for row in table]
    hosts = [f"{group} runs on the host: {why}" for group, why in facts["on_host"].items()]
    seconds = sum(f["to_do_s"] for f in listed)
    total = sum(f["count"] for f in listed)
    said = f"{len(listed)} different groups of {total} on {facts['target']}; about {seconds:,.0f} CPU seconds to tune them"
    return "\n".join([*("  ".join(row).rstrip() for row in aligned), "", *hosts, said, *LEGEND]) + "\n"
