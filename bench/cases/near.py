"""Schedules that serve further batches: what was found for a group is fitted to its like at another batch or in another state of L2.

The full default is laid out once for one image and once for several; a row of equal layers then costs the settling of one sketch.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.choose.regions import refit
from aoec.jobs.tune.tuning import Outcome, Problem, problem, start
from aoec.search.sketches.sketches import sketches
from aoec.simulate.timing.time import Measure
from aoec.target.machine import Machine


@dataclass
class Done:
    """Measures and bounds in µs, and texts of schedules, by what they depend on; schedules by likeness: (number of the sketch, of how many,
    holes)."""

    measures: dict[tuple[str, str], tuple[Measure, float]] = field(default_factory=dict)
    traces: dict[tuple[str, str], str] = field(default_factory=dict)
    schedules: dict[str, tuple[int, int, dict[str, int]]] = field(default_factory=dict)

    def at(self, task: Task, machine: Machine, trials: int) -> tuple[str, str]:
        """Return the facts on which the measure of a task depends."""
        return task.func_key, f"{machine.hash} {task.state_text} {trials}"


def likeness(task: Task, machine: Machine) -> str:
    """Return what groups have in common that differ in their batch (or rows) alone, one and several apart."""
    name, shapes = task.label.rsplit(" ", 1)
    first, *rest = [s.split("x") for s in shapes.split("->")]
    return f"{machine.hash} {name} {first[0] == '1'} {[s[1:] for s in (first, *rest)]}"


def scheduled(task: Task, machine: Machine, done: Done) -> tuple[Problem, Outcome]:
    """Return the problem of a task and its schedule: of the cube, whose default is laid out long, one that served its like, fitted; else
    the default."""
    like = likeness(task, machine)
    if task.group.kind == "cube" and like in done.schedules and (fitted := fit(task, machine, done.schedules[like])):
        return fitted
    p = problem(task.func, machine, task.state)
    best = start(p)
    traces = sketches(task.func, machine)
    done.schedules[like] = traces.index(p.sketches[best.best[0]].trace), len(traces), p.values(best.best)
    return p, best


def fit(task: Task, machine: Machine, known: tuple[int, int, dict[str, int]]) -> tuple[Problem, Outcome] | None:
    """Return the same sketch with the nearest choices of its holes, settled. Return None where the task has other sketches or that one is
    illegal."""
    number, count, values = known
    traces = sketches(task.func, machine)
    if len(traces) != count:
        return None
    p = problem(task.func, machine, task.state, [traces[number]])
    grid = p.space.grids[0]
    if set(grid.names) != set(values):
        return None
    first = 0, tuple(min(choices, key=lambda v: abs(v - values[name])) for name, choices in zip(grid.names, grid.choices))
    (cost,) = p.cost([first])
    if cost is None:
        return None
    ticks, best = refit(p, (cost, first))
    return p, Outcome(first, cost, best, ticks, min(p.bound().ticks, ticks))
