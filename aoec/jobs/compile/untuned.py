"""A model compiled in memory for its values alone: each group has the first schedule that is legal. Nothing is timed or searched, no bank
is asked, nothing is written, and equal models make equal programs."""
from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from aoec.artifact.compiled import Artifact, Compiled
from aoec.base.errors import ScheduleError, UnsupportedError
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.ir.program import Program
from aoec.ir.schedule import Trace
from aoec.jobs.choose.model_tasks import Task, on_host, place_groups, tasks
from aoec.jobs.choose.refusal import refusal
from aoec.jobs.compile.ports import ports
from aoec.jobs.tune.tuning import problem
from aoec.jobs.version import model_version
from aoec.lowering.arrange.fuse import fuse, halve_groups
from aoec.search.default.shortlist import shortlist
from aoec.search.sketches.sketches import sketches
from aoec.target.machine import Machine


def compile_untuned(graph: Graph, weights: Mapping[str, np.ndarray], precision: str, machine: Machine) -> tuple[Artifact, dict[str, str]]:
    """Return (the compiled model, without modelled times; why a group that could be the AI Core's runs on the host, by group)."""
    fused, stored = fuse(graph, weights, machine)
    fused, made, reasons = programs(fused, machine)
    while (parts := halve_groups(fused, reasons)) != fused:
        fused, made, reasons = programs(parts, machine)
    fused = on_host(fused, reasons)
    inputs, outputs = (ports(fused, names, precision) for names in (fused.inputs, fused.outputs))
    artifact = Artifact(fused.name, machine.name, machine.hash, model_version(), precision, fused, inputs, outputs,
                        tuple(made.get(g.name, Compiled(g.name)) for g in fused.groups), stored, machine=machine.text)
    return artifact, reasons


def programs(graph: Graph, machine: Machine) -> tuple[Graph, dict[str, Compiled], dict[str, str]]:
    """Return (the graph, group -> what runs it, group -> why there is nothing for it)."""
    found = place_groups(graph)
    made: dict[str, Compiled] = {}
    reasons = dict(found.reasons)
    for task in tasks(found.graph, machine, funcs=found.funcs):
        try:
            made[task.group.name] = compile_group(task, *first_schedule(task.func, machine))
        except Exception as e:
            reasons[task.group.name] = refusal(e)
    return found.graph, made, reasons


def compile_group(task: Task, trace: Trace, program: Program) -> Compiled:
    """Return what runs a task's group."""
    return Compiled(task.group.name, task.label, task.func_key, trace, program, task.bindings)


@lru_cache(maxsize=1024)
def first_schedule(func: Func, machine: Machine) -> tuple[Trace, Program]:
    """Return a legal schedule of a func, and its program. It is the first candidate of a default's short list, from the first sketch that
    has one.

    Raise UnsupportedError or ScheduleError where there is none.
    """
    refused: list[str] = []
    for trace in sketches(func, machine):
        try:
            p = problem(func, machine, traces=[trace])
        except UnsupportedError as e:
            refused.append(str(e))
            continue
        for candidate in [*shortlist(p.space.grids[0], 0, p.constraints(0)), *p.some()][:1]:
            return p.trace(candidate), p.program(candidate)
    raise ScheduleError(refused[0] if refused else f"func {func.name} has no legal schedule on {machine.name}")
