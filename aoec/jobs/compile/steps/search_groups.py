"""Searching: a schedule for each different group, from the bank, else by a search. A group without a legal one is split in halves."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.bank.record import Key
from aoec.jobs import kernels
from aoec.jobs.choose import halves
from aoec.jobs.choose.model_tasks import Task, on_host
from aoec.jobs.choose.pick import pick_tasks
from aoec.jobs.compile.compiled_model import Model, Ready
from aoec.jobs.compile.course import CHECK_S, Course
from aoec.jobs.compile.steps.group_model import refuse_host
from aoec.jobs.context import Job
from aoec.jobs.tune.order import Order, Solved, keys
from aoec.jobs.tune.resume import Unfinished
from aoec.jobs.tune.solve import solve
from aoec.jobs.tune.starts import starts
from aoec.jobs.voice import Voice
from aoec.target.machine import Machine

Found = tuple[Ready, dict[str, Solved]]  # a model, and the schedules of its groups by name


def search_groups(ready: Sequence[Ready], run: Unfinished, job: Job) -> list[Found]:
    """Return each model with the schedules of its groups. Equal groups of all models are searched once.

    A group without a legal schedule is tried in halves, and these again. An operator without one goes to the host.
    """
    machine, options = job.machine, job.options
    if ready[0].stage.traces:
        return [(r, r.stage.records_of(r.tasks, machine)) for r in ready]
    only = None if options.only is None else str(options.only)
    order, chosen, others = run.order, *pick_tasks(ready, only, job.voice)
    if resumed := run.begin([keys(t, machine, order.robust)[1] for t in chosen]):
        job.voice.say(resumed)
    if order.tune:
        begin_with, told = starts(chosen, machine, run.bank, order)
        order = replace(order, starts=begin_with)
        if told:
            job.voice.say(told)
    found, failed = find_schedules(ready, chosen, others, run, order, job)
    while (parts := [halves.where(r, failed, order, job) for r in ready]) != ready:
        ready, done = parts, found.keys() | failed.keys()
        chosen, others = ([t for t in part if keys(t, machine, order.robust)[1] not in done]
                          for part in pick_tasks(ready, only, job.trial().voice))
        more = find_schedules(ready, chosen, others, run, order, job)
        found, failed = found | more[0], failed | more[1]
    out = []
    for r in ready:
        key = {t.group.name: keys(t, machine, order.robust)[1] for t in r.tasks}
        solved = {name: found[k] for name, k in key.items() if k not in failed}
        why = {name: failed[k] for name, k in key.items() if name not in solved}
        left, model = move_to_host(r.tasks, solved, r.model, why, job.voice)
        if options.no_host:
            refuse_host(model.graph, why)
        out.append((Ready(r.stage, model, left), solved))
    return out


def find_schedules(ready: Sequence[Ready], chosen: Sequence[Task], others: Sequence[Task], run: Unfinished, order: Order,
                   job: Job) -> tuple[dict[Key, Solved], dict[Key, str]]:
    """Return (solved, reasons) of tasks by the key of their best: of those to be tuned, and of the others without a search."""
    machine, options = job.machine, job.options
    target, by_key = options.target or machine.name, distinct_tasks([*others, *chosen], machine, order)
    with job.voice.progress("tuning" if options.tune else "scheduling", len(by_key)) as line:
        check_s = CHECK_S * next(iter(machine.cores.values())).count if kernels.values_needed(options) else 0.0
        course = Course(by_key, order, machine.us_per_tick, line, job.events, check_s=check_s)
        done = job.results.hear_tasks([r.model.graph for r in ready], course.done) if job.results else course.done
        found, reasons = solve(others, machine, target, run.bank, replace(order, tune=False, repeat=False, frozen=False), course.done)
        tuned, more = solve(chosen, machine, target, run.bank, order, done, run, course)
        run.note(tuned)
        return found | tuned, reasons | more


def distinct_tasks(listed: Sequence[Task], machine: Machine, order: Order) -> dict[Key, Task]:
    """Return the tasks that differ, by the key of their best: of equal ones the first."""
    return {keys(t, machine, order.robust)[1]: t for t in reversed(listed)}


def move_to_host(listed: list[Task], solved: dict[str, Solved], model: Model, reasons: dict[str, str],
                 voice: Voice) -> tuple[list[Task], Model]:
    """Return tasks and model with the groups that have no legal schedule on the host."""
    voice.on_host(reasons)
    return [t for t in listed if t.group.name in solved], replace(model, graph=on_host(model.graph, reasons))
