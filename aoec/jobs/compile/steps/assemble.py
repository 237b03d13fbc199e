"""Assembling: the compiled model that the schedules of its groups make."""
from __future__ import annotations

from dataclasses import replace

from aoec.artifact.compiled import Artifact, Compiled
from aoec.ir.graph.graph import Graph, Group
from aoec.ir.plan import Plan, PlanGroup
from aoec.jobs.choose.model_tasks import Task, host_times
from aoec.jobs.compile.compiled_model import Choice, Lines, Made, Model
from aoec.jobs.compile.lines import model_lines
from aoec.jobs.compile.steps.group_model import refuse_host
from aoec.jobs.compile.steps.search_groups import Found, move_to_host
from aoec.jobs.compile.training_step import step_figures
from aoec.jobs.context import Context
from aoec.jobs.stages.stage import Stage
from aoec.jobs.tune.made import Schedule, func_as_recorded, realise, trust_of
from aoec.jobs.tune.order import Solved
from aoec.jobs.tune.solve import total_ticks
from aoec.jobs.tune.trust import Trust, of_programs
from aoec.jobs.verify.sound import faults_of
from aoec.jobs.version import model_version
from aoec.lowering.arrange.planned.enter import whole_groups
from aoec.lowering.arrange.slices import PIECE
from aoec.target.machine import Machine


def assemble(found: Found, context: Context, before: Made | None = None) -> Made:
    """Return the compiled model of a model and its schedules. Groups of the user's own operators whose programs are wrong go to the host.

    `before`: the model in the default plan, whose default schedules are what this one is measured against.
    """
    ready, solved = found
    machine, options = context.machine, context.options
    choices, model = choose_programs(ready.tasks, solved, machine, ready.stage), ready.model
    if unsound := faults_of(model, choices, machine, options):
        choices = [c for c in choices if c.task.group.name not in unsound]
        _, model = move_to_host(ready.tasks, {c.task.group.name: c.solved for c in choices}, model, unsound, context.voice)
        if options.no_host:
            refuse_host(model.graph, unsound)
    lines = model_lines(model, choices, machine)
    if model.plan is not None:
        model = replace(model, plan=write_groups(model.plan, model.graph, choices, machine))
    artifact = replace(pack(model, choices, machine, lines), gear=ready.stage.gear)
    lines = lines if before is None else replace(lines, default=before.lines.default)
    return Made(ready.stage, model, choices, lines, artifact, before)


def write_groups(plan: Plan, graph: Graph, choices: list[Choice], machine: Machine) -> Plan:
    """Return the plan with the groups of its model, as they are before they are cut in slices, and the time of each in its place."""
    taken = {name: us * 1000 for name, us in host_times(graph).items()}
    taken |= {c.task.group.name: total_ticks(c.best.measure, machine) * machine.us_per_tick * 1000 for c in choices}
    of: dict[str, float] = {}
    for name, ns in taken.items():
        whole = m[1] if plan.slices and (m := PIECE.fullmatch(name)) else name
        of[whole] = of.get(whole, 0.0) + ns
    before = [Group(g.name, g.kind, g.nodes) for g in plan.groups]
    groups = whole_groups(before, plan, graph) if plan.slices else graph.groups
    return replace(plan, groups=tuple(PlanGroup(g.name, g.kind, g.nodes, round(of[g.name]) if g.name in of else None) for g in groups))


def choose_programs(listed: list[Task], solved: dict[str, Solved], machine: Machine, stage: Stage) -> list[Choice]:
    """Return each task with the programs of its schedules. Equal tasks share them. Programs of a dump stand in for emitted ones."""
    made: dict[tuple[str, str, str], Schedule] = {}
    trusts: dict[tuple[str, str, int], Trust | None] = {}
    out = []
    for task in listed:
        records = solved[task.group.name]
        task, pair = replace(task, func=func_as_recorded(task.func, records.best)), []
        for record in (records.default, records.best):
            at = (task.func_key, task.state_text, record.trace)
            if at not in made:
                made[at] = realise(func_as_recorded(task.func, record), record.trace, machine, task.state)
            pair.append(made[at])
        best = stage.with_program(task, pair[1], machine)
        if total_ticks(best.measure, machine) != records.best.ticks:  # edited: what was proved was proved of another
            records = replace(records, best=replace(records.best, proof=""))
        same = (task.func_key, task.state_text, id(best.program))
        if same not in trusts:
            trusts[same] = trust_in(task, records, pair[0], best, machine, best is pair[1])
        out.append(Choice(task, records, pair[0], best, trusts[same]))
    return out


def trust_in(task: Task, records: Solved, default: Schedule, best: Schedule, machine: Machine, emitted: bool) -> Trust | None:
    """Return how far a choice holds: as its search found it, else timed. Return None where nothing is gained. `emitted`: its program is its
    trace's."""
    if best.program == default.program:
        return None
    if not emitted:
        return of_programs(default.program, best.program, machine, task.state)
    found = records.trust if total_ticks(best.measure, machine) == records.best.ticks else None
    return trust_of(task.func, default, best, machine, task.state, found)


def pack(model: Model, choices: list[Choice], machine: Machine, lines: Lines) -> Artifact:
    """Return the artifact: the fused graph, and for each group what runs it. It follows from these alone, however the model came to be
    so."""
    by_group = {c.task.group.name: c for c in choices}
    groups = []
    for g in model.graph.groups:
        c = by_group.get(g.name)
        groups.append(Compiled(g.name) if c is None else Compiled(
            g.name, c.task.label, c.task.func_key, c.best.trace, c.best.program, c.task.bindings, c.solved.default.ticks,
            total_ticks(c.best.measure, machine), min(c.solved.best.bound_ticks, total_ticks(c.best.measure, machine))))
    figures: tuple[tuple[str, int], ...] = (
               ("latency_ns", round(lines.tuned.latency_us * 1000)), ("latency_default_ns", round(lines.default.latency_us * 1000)),
               ("throughput_period_ns", round(lines.tuned.throughput_us * 1000)), ("isolated_ns", round(lines.tuned.sum_us * 1000)))
    if step := step_figures(model.graph, choices, lines):
        figures = (*figures, *step.figures())
    return Artifact(model.name, machine.name, machine.hash, model_version(), model.precision, model.graph, model.inputs, model.outputs,
                    tuple(groups), model.weights, figures, machine.text)
