"""Start of a compile: an imported graph, or the later stages from a dump."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aoec.artifact.compiled import Port
from aoec.bank.record import Record
from aoec.base.errors import CheckError, UnsupportedError
from aoec.frontend.rewrites.apply import count_rules
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.ir.program import Program
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.plans.entered import Entered
from aoec.jobs.stages import manifest
from aoec.jobs.tune.made import Schedule
from aoec.jobs.tune.order import Order, Solved, keys
from aoec.jobs.tune.solve import attempt
from aoec.simulate.timing.time import measure
from aoec.target.machine import Machine


@dataclass(frozen=True)
class Stage:
    """Where the job starts: a graph, and what a dump gives of the later stages."""

    start: str
    name: str
    precision: str
    graph: Graph
    weights: Mapping[str, np.ndarray]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    funcs: dict[str, Func] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)  # group -> trace
    programs: dict[str, Program] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)  # group -> what the manifest says of it
    made: tuple[tuple[str, str], ...] = ()  # (rewrite, the tensor that it makes) of each place
    own_rules: str = ""  # a hash of the user's own rewrites
    entered: Entered | None = None  # the plan by which it is put together, where a user gives one
    gear: str = ""  # which, where a model is compiled for several shapes

    @property
    def rewrites(self) -> dict[str, int]:
        """Return rewrite of the graph -> at how many places it was made at import."""
        return count_rules(self.made)

    def for_one_shape(self) -> Stage:
        """Return the stage as that of a model for one shape of its inputs."""
        inputs, outputs = (tuple(replace(p, dims=()) for p in ports) for ports in (self.inputs, self.outputs))
        return replace(self, gear="", inputs=inputs, outputs=outputs)

    def records_of(self, plan: Sequence[Task], machine: Machine) -> dict[str, Solved]:
        """Return group -> records from the dump's schedules."""
        return {t.group.name: self._records(t, machine) for t in plan}

    def _records(self, task: Task, machine: Machine) -> Solved:
        """Return what the manifest says holds for its func, machine, state and version; for another the default is made again."""
        said = manifest.group(self.found, task.group.name)
        default_key, best_key = keys(task, machine)
        known = said["key"] in (best_key.digest, keys(task, machine, robust=True)[1].digest)
        default = Record(default_key, task.label, said["default"], said["default_ticks"], said["default_ticks"], said["bound_ticks"])
        if not known:
            again = attempt(task, machine, Order(tune=False))
            if isinstance(again, str):
                raise UnsupportedError(f"group {task.group.name}: {again}")
            default = again.default
        best = Record(best_key, task.label, self.traces[task.group.name], default.default_ticks, said["ticks"], default.bound_ticks,
                      proof=said["proof"] if known else "")
        return Solved(default, best, True)

    def with_program(self, task: Task, schedule: Schedule, machine: Machine) -> Schedule:
        """Return the schedule, with the dump's program in place of the emitted one where the job is entered at emit."""
        program = self.programs.get(task.group.name)
        if program is None or program == simplify(schedule.program):
            return schedule
        if _ends(program) != _ends(schedule.program):
            raise CheckError(f"program {task.group.name} of the dump has other tensors ({_ends(program)}) than its group has "
                             f"({_ends(schedule.program)})")
        return replace(schedule, program=program, measure=measure(program, machine, task.state))


def _ends(program: Program) -> str:
    """Return what a program takes and gives, in words."""
    return ", ".join(f"{t.role} {t.name}: {t.dtype}[{', '.join(map(show, t.shape))}]" for t in program.tensors if t.role != "temp")
