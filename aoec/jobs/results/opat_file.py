"""Operator tuning as a job: what `compile --tune` does, with AOE's result file written as the work goes on."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aoec.base.files.files import write_text
from aoec.cann.op_summary import csv_text
from aoec.cann.op_types import type_of
from aoec.ir.text.parse import parse_trace
from aoec.jobs.deliver.profile import launches, split
from aoec.jobs.results.result_file import WHOLE, Done, Ended, ResultFile, RunPlace, Searched, Span
from aoec.jobs.tune.budget import as_dict
from aoec.lowering.arrange.slices import PIECE
from aoec.report.results.folder import AFTER, BEFORE, Operator, file_of, operator_text, profile_of, summary_text
from aoec.report.results.opat import Outcome, Policy, Tuning, found_new, text
from aoec.search.space.name import structure

if TYPE_CHECKING:
    from aoec.bank.record import Key
    from aoec.ir.graph.graph import Graph
    from aoec.jobs.choose.formats import Change, Found
    from aoec.jobs.choose.model_tasks import Task
    from aoec.jobs.compile.compiled_model import Choice, Made, Ready
    from aoec.jobs.tune.order import Solved
    from aoec.target.machine import Machine


class OpatFile(ResultFile):
    """The result file of one run, and the folder of its time that says the same as tutorials do. They are written after every operator,
    each file whole: after a kill they say how far the job came. At the end they say what the compiled model has."""

    def __init__(self, place: RunPlace, name: str, machine: Machine, span: Span = WHOLE) -> None:
        super().__init__(place, "opat", span)
        self.folder = place.folder
        self._tuning, self._machine, self._profiles = Tuning(name), machine, list[str]()
        self._rows: list[tuple[Policy, Task, Solved]] = []
        self._write()

    def hear_tasks(self, graphs: Sequence[Graph], done: Done) -> Done:
        types = {n.name: n.op for g in graphs for n in g.nodes}

        def hear(task: Task, solved: Solved) -> None:
            done(task, solved)
            self._add(policy(task, solved, types, self._machine), task, solved)

        return hear

    def hear_layouts(self, found: Sequence[Change], every: Found) -> None:
        """Add a row for each change, under the first product that it touches, as `every` has it. In a job that also tunes subgraphs, the
        changes are in the subgraphs' file instead, with their gain."""
        for change in found if self.span == WHOLE else ():
            self._add(*format_policy(change, every, self._machine))

    def _add(self, found: Policy, task: Task, solved: Solved) -> None:
        self._rows.append((found, task, solved))
        self._put_row(len(self._rows) - 1)
        self._tuning = replace(self._tuning, policies=(*self._tuning.policies, found))
        self._write()

    def _put_row(self, at: int) -> None:
        """Write the file of a row, which says what became of its operator."""
        found, task, solved = self._rows[at]
        self._put(file_of(at, found.name), operator_text(operator(task, solved, found, self._machine)))

    def _keep_to(self, made: Sequence[Made], searched: Searched) -> None:
        """Reduce the rows to the operators of the compiled model that were to be tuned, in its order. Rows of layouts follow them. An
        operator that this run searched is reported as its search reported it: a later look finds it in the bank."""
        types, rows = {n.name: n.op for m in made for n in m.model.graph.nodes}, []
        for key, c in ((key, c) for key, c in first_of_each(made).items() if key in searched.asked):
            solved = searched.tasks[key][1] if key in searched.tasks else c.solved
            rows.append((policy(c.task, solved, types, self._machine), c.task, solved))
        rows += [(named_in(made, p), task, solved) for p, task, solved in self._rows if p.kind == "Format"]
        if rows != self._rows:
            for at, row in enumerate(self._rows):
                (self.folder / file_of(at, row[0].name)).unlink(missing_ok=True)
            self._rows = rows
            for at in range(len(rows)):
                self._put_row(at)
            self._tuning = replace(self._tuning, policies=tuple(row[0] for row in rows))

    def close(self, ended: Ended, searched: Searched) -> str:
        made = ended.models
        self._keep_to(made, searched)
        first, *_ = times = ended.times(self.span, lambda m: m.lines.tuned.latency_us)
        whole, *_ = ended.times(WHOLE, lambda m: m.lines.tuned.latency_us)
        for (when, m) in ((when, m) for pair in zip(ended.was, made) for when, m in zip((BEFORE, AFTER), pair)):
            self._profiles.append(profile_of(when, m.stage.gear))
            listed = launches(m, self._machine, True)
            self._put(self._profiles[-1], csv_text(m.model.name, listed, self._machine.clock_mhz, split(self._machine)))
        self._tuning = replace(self._tuning, failed=failed_nodes(ended.ready, made), seconds=ended.seconds,
                               gears=tuple(t.fields for t in times if t.gear), baseline_ms=first.before_ms, result_ms=first.after_ms,
                               searches=ended.searches, shares=first.shares,
                               left=tuple(p for p, _ in left_out(made, searched, self._machine)))
        self._write(replace(self._tuning, baseline_ms=whole.before_ms, result_ms=whole.after_ms))
        return found_new(self._tuning.policies, "operator", first.before_ms, first.after_ms)

    def _write(self, whole: Tuning | None = None) -> None:
        """Write the result file and the summary. `whole`: the figures of the whole job, where the file is of a part of it."""
        write_text(self.path, text(self._tuning))
        self._put("summary.json", summary_text(whole or self._tuning, self._machine.name, self.path.name, tuple(self._profiles)))

    def _put(self, name: str, said: str) -> None:
        """Write a file of the folder with this text."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, said)


def named_in(made: Sequence[Made], p: Policy) -> Policy:
    """Return a policy by a node that compiled models have: of one that runs in slices the first slice of it."""
    names = [n.name for m in made for n in m.model.graph.nodes]
    return p if p.name in names else replace(p, name=next((n for n in names if (m := PIECE.fullmatch(n)) and m[1] == p.name), p.name))


def left_out(made: Sequence[Made], searched: Searched, machine: Machine) -> list[tuple[Policy, Task]]:
    """Return what a run searched that is not in the compiled model, in the order in which it was."""
    there = first_of_each(made)
    return [(policy(task, solved, searched.types, machine), task) for key, (task, solved) in searched.tasks.items() if key not in there]


def first_of_each(made: Iterable[Made]) -> dict[Key, Choice]:
    """Return the different groups of models by the key of their best: of equal ones the first."""
    out: dict[Key, Choice] = {}
    for c in (c for m in made for c in m.choices):
        out.setdefault(c.solved.best.key, c)
    return out


def failed_nodes(ready: Sequence[Ready], made: Sequence[Made]) -> tuple[str, ...]:
    """Return the first nodes of groups that were to run on the AI Core and have no schedule, whole or operator by operator."""
    return tuple(g.nodes[0] for r, m in zip(ready, made) for g in r.model.graph.groups
                 if g.kind in ("cube", "vector") and not {n for c in (m.before or m).choices for n in c.task.group.nodes} >= {*g.nodes})


def policy(task: Task, solved: Solved, types: Mapping[str, str], machine: Machine) -> Policy:
    """Return what became of a task, for the result file."""
    before = (solved.before or solved.default).ticks
    nodes, us = task.group.nodes, machine.us_per_tick
    return Policy(nodes[0], tuple(type_of(types[n]) for n in nodes), kind(solved), before * us, solved.best.ticks * us, solved.outcome)


def format_policy(change: Change, every: Found, machine: Machine) -> tuple[Policy, Task, Solved]:
    """Return the outcome of a change of layouts that pays, with the first product that it touches. It is new, or made of what the bank
    had."""
    ready, solved = every
    types, us = {n.name: n.op for n in ready.model.graph.nodes}, machine.us_per_tick
    task = next(t for t in ready.tasks if t.group.name in change.groups and t.group.kind == "cube")
    known = all(solved[t.group.name].found for t in ready.tasks if t.group.name in change.groups)
    nodes = task.group.nodes
    return Policy(nodes[0], tuple(type_of(types[n]) for n in nodes), "Format", change.before_ticks * us, change.after_ticks * us,
                  Outcome.RESERVED if known else Outcome.ADD), task, solved[task.group.name]


def operator(task: Task, solved: Solved, found: Policy, machine: Machine) -> Operator:
    """Return what the folder says of a task."""
    default, best = solved.default, solved.best
    key = {name: getattr(best.key, name) for name in ("func_key", "state", "machine_hash", "model_version")}
    return Operator(found, task.group.nodes, machine.name, key, {"default": default.ticks, "best": best.ticks, "bound": best.bound_ticks},
                    machine.us_per_tick, default.trace, best.trace, best.proof, solved.candidates, as_dict(solved.spent))


def kind(solved: Solved) -> str:
    """Return "Impl" where the best schedule has another structure than the default, and "Schedule" where only numbers differ."""
    default, best = (structure(parse_trace(r.trace, "trace")) for r in (solved.default, solved.best))
    return "Schedule" if default == best else "Impl"
