"""A model compiled in memory, with default schedules: nothing is searched, no bank is asked, nothing is written, and equal models make
equal programs. It is what runs a model for its values alone."""
from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from aoec.artifact.compiled import Artifact, Compiled
from aoec.base.errors import ScheduleError, UnsupportedError
from aoec.ir.graph import Graph
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.ir.tir import Func
from aoec.jobs.compile import ports
from aoec.jobs.plan import Task, lowered, on_host, tasks
from aoec.jobs.tuning import problem, start
from aoec.jobs.version import model_version
from aoec.lowering.fuse import fuse
from aoec.target.machine import Machine


def untuned(graph: Graph, weights: Mapping[str, np.ndarray], precision: str, machine: Machine) -> tuple[Artifact, dict[str, str]]:
    """(the compiled model, without modelled times; why a group that could be the AI Core's runs on the host, by group)."""
    fused, stored = fuse(graph, weights, machine)
    funcs, reasons = lowered(fused)
    fused = on_host(fused, reasons)
    made: dict[str, Compiled] = {}
    for task in tasks(fused, machine, funcs=funcs):
        try:
            made[task.group.name] = compiled(task, *scheduled(task.func, machine))
        except (UnsupportedError, ScheduleError) as e:
            reasons[task.group.name] = str(e)
    fused = on_host(fused, reasons)
    inputs, outputs = (ports(fused, names, precision) for names in (fused.inputs, fused.outputs))
    artifact = Artifact(fused.name, machine.name, machine.hash, model_version(), precision, fused, inputs, outputs,
                        tuple(made.get(g.name, Compiled(g.name)) for g in fused.groups), stored, machine=machine.text)
    return artifact, reasons


def compiled(task: Task, trace: Trace, program: Program) -> Compiled:
    """What runs a task's group."""
    return Compiled(task.group.name, task.label, task.func_key, trace, program, task.bindings)


@lru_cache(maxsize=1024)
def scheduled(func: Func, machine: Machine) -> tuple[Trace, Program]:
    """The default schedule of a func from cold inputs, and its program; UnsupportedError or ScheduleError where there is none."""
    p = problem(func, machine)
    first = start(p).default
    return p.trace(first), p.program(first)
