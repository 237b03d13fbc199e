"""The baseline that a run is compared with, as AOE does it: a build of the model with the bank as it was when the run began."""
from __future__ import annotations

from dataclasses import replace

from aoec.jobs.choose.slices import asked_us
from aoec.jobs.compile.compiled_model import Choice, Made
from aoec.jobs.compile.lines import model_lines
from aoec.jobs.tune.made import realise
from aoec.target.machine import Machine


def baseline(plain: Made, laid_out: Made, banked: Made | None, machine: Machine, metric: str) -> Made:
    """Return the fastest form that a build with the bank as it was could have. There are three forms: the model in plain layouts,
    `laid_out` in other layouts that pay now (itself where none do), and `banked`, that model in the slices of the bank's plan, if the bank
    has one."""
    forms = [plain]
    if laid_out is plain or is_known(laid_out):
        forms += [laid_out, *([banked] if banked else [])]
    return min((as_it_was(m, machine) for m in forms), key=lambda m: asked_us(m.lines.tuned, metric))


def is_known(made: Made) -> bool:
    """Return whether the bank knew every group of a model when the run began, with a gain or without. Only then does a build use its
    layouts."""
    return all(c.solved.held is not None for c in made.choices)


def as_it_was(made: Made, machine: Machine) -> Made:
    """Return the model with the schedules that the bank had when the run began, and default ones where it had none. Return the model itself
    where it has these already."""
    choices = [before(c, machine) for c in made.choices]
    if all(new is old for new, old in zip(choices, made.choices)):
        return made
    return replace(made, choices=choices, lines=model_lines(made.model, choices, machine))


def before(c: Choice, machine: Machine) -> Choice:
    """Return a group with the schedule that it had when the run began."""
    record = c.solved.before or c.solved.default
    if record.trace == c.solved.best.trace:
        return c
    schedule = c.default if record.trace == c.solved.default.trace else realise(c.task.func, record.trace, machine, c.task.state)
    return replace(c, solved=replace(c.solved, best=replace(record, key=c.solved.best.key)), best=schedule, trust=None)
