"""A folder with the text of every stage, and entering the job again from any of them.

DIR/manifest.json          names, ports and what the search found, by group
DIR/import.graph, .npz     stage import: the graph after the frontend, its constants by hash beside it
DIR/fused.graph, .npz      stage fuse: layouts, groups, packed constants
DIR/funcs/g1.tir           stage lower
DIR/schedules/g1.sched     stage schedule; DIR/scheduled/g1.tir is the func after it
DIR/programs/g1.prog       stage emit
"""
from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec import primitives
from aoec.artifact.compiled import Artifact, Port
from aoec.bank.record import Record
from aoec.base.errors import BackendError, CheckError
from aoec.base.files import read_text
from aoec.ir.graph import Graph
from aoec.ir.parse import parse_func, parse_graph, parse_program, parse_trace
from aoec.ir.program import Program
from aoec.ir.rewrite import normalise
from aoec.ir.show import show
from aoec.ir.tir import Func
from aoec.jobs.plan import Task
from aoec.jobs.solve import Schedule, Solved, keys
from aoec.jobs.stages import apply_shown, load_weights, save_weights
from aoec.simulate.time import measure
from aoec.target.check import check
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.jobs.compile import Choice

STAGES = ("import", "fuse", "lower", "schedule", "emit")


@dataclass(frozen=True)
class Stage:
    """Where the job starts: a graph, and what a dump gives of the later stages."""

    start: str
    name: str
    precision: str
    graph: Graph
    weights: dict[str, np.ndarray]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    funcs: dict[str, Func] = field(default_factory=dict)
    traces: dict[str, str] = field(default_factory=dict)  # group -> trace
    programs: dict[str, Program] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)  # group -> what the manifest says of it

    def solved(self, plan: Sequence[Task], machine: Machine) -> dict[str, Solved]:
        """Group -> records from the dump's schedules."""
        return {t.group.name: self._solved(t, machine) for t in plan}

    def _solved(self, task: Task, machine: Machine) -> Solved:
        said = _entry(self.found, task.group.name)
        default_key, best_key = keys(task, machine)
        default = Record(default_key, task.label, said["default"], said["default_ticks"], said["default_ticks"], said["bound_ticks"])
        best = Record(best_key, task.label, self.traces[task.group.name], said["default_ticks"], said["ticks"], said["bound_ticks"],
                      proof=said["proof"], trials=0)
        return Solved(default, best, True)

    def replaced(self, task: Task, schedule: Schedule, machine: Machine) -> Schedule:
        """The schedule, with the dump's program in place of the emitted one where the job is entered at emit."""
        program = self.programs.get(task.group.name)
        if program is None or program == schedule.program:
            return schedule
        return replace(schedule, program=program, measure=measure(program, machine, task.state))


def _entry(found: dict[str, Any], group: str) -> dict[str, Any]:
    said = found.get(group)
    types = {"default": str, "default_ticks": int, "ticks": int, "bound_ticks": int, "proof": str}
    if not isinstance(said, dict) or any(not isinstance(said.get(k), t) for k, t in types.items()):
        raise CheckError(f"manifest.json says nothing usable of group {group}; dump again, or enter at --from lower")
    return said


# ---------------------------------------------------------------- writing

def write(folder: Path, stage: Stage, artifact: Artifact, choices: Sequence[Choice]) -> None:
    """The text of every stage, a file a group."""
    try:
        for name in ("funcs", "schedules", "scheduled", "programs"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not stage.graph.groups:
            _graph(folder / "import.graph", stage.graph, stage.weights)
        _graph(folder / "fused.graph", artifact.graph, dict(artifact.weights))
        for c in choices:
            name = c.task.group.name
            (folder / "funcs" / f"{name}.tir").write_text(show(c.task.func))
            (folder / "schedules" / f"{name}.sched").write_text(show(c.best.trace))
            (folder / "scheduled" / f"{name}.tir").write_text(show(normalise(primitives.apply(c.task.func, c.best.trace))))
            (folder / "programs" / f"{name}.prog").write_text(show(c.best.program))
        (folder / "manifest.json").write_text(json.dumps(_manifest(artifact, choices), indent=1) + "\n")
    except OSError as e:
        raise BackendError(f"{folder}: cannot write the dump: {e.strerror}") from None


def _graph(path: Path, graph: Graph, weights: dict[str, np.ndarray]) -> None:
    path.write_text(show(graph))
    save_weights(graph, weights, f"{path}.npz")


def _manifest(artifact: Artifact, choices: Sequence[Choice]) -> dict[str, Any]:
    groups = {c.task.group.name: {
        "default": c.solved.default.trace, "default_ticks": c.solved.default.ticks, "ticks": c.solved.best.ticks,
        "bound_ticks": c.solved.best.bound_ticks, "proof": c.solved.best.proof} for c in choices}
    return {"name": artifact.name, "target": artifact.target, "precision": artifact.precision, "times": "modelled",
            "inputs": [_port(p) for p in artifact.inputs], "outputs": [_port(p) for p in artifact.outputs], "groups": groups}


def _port(p: Port) -> dict[str, Any]:
    return {"name": p.name, "tensor": p.tensor, "dtype": p.dtype, "shape": list(p.shape)}


# ---------------------------------------------------------------- entering again

def load(folder: Path, start: str, options: Namespace, machine: Machine) -> Stage:
    """The stage of a dump at which the job goes on; edited texts are checked like any other."""
    if start not in STAGES:
        raise CheckError(f"a dump is entered at {', '.join(STAGES)}, not {start}")
    said = _read_manifest(folder / "manifest.json")
    path = folder / ("import.graph" if start == "import" else "fused.graph")
    graph = parse_graph(read_text(str(path)), str(path))
    stage = Stage(start, said["name"], said["precision"], graph, load_weights(graph, f"{path}.npz"), _ports(said, "inputs"),
                  _ports(said, "outputs"), found=said["groups"])
    names = [g.name for g in graph.groups if g.kind in ("cube", "vector")]
    if STAGES.index(start) >= 2:
        stage = replace(stage, funcs={n: _parsed(folder / "funcs" / f"{n}.tir", parse_func) for n in names})
    if STAGES.index(start) >= 3:
        stage = replace(stage, traces={n: _trace(folder / "schedules" / f"{n}.sched", stage.funcs[n]) for n in names})
    if start == "emit":
        stage = replace(stage, programs={n: _program(folder / "programs" / f"{n}.prog", machine) for n in names})
    return stage


def _parsed(path: Path, parse: Any) -> Any:
    return parse(read_text(str(path)), str(path))


def _trace(path: Path, func: Func) -> str:
    """The canonical text of a schedule; a step that does not apply is refused with a caret under it."""
    text = read_text(str(path))
    trace = parse_trace(text, str(path))
    apply_shown(func, trace, text, str(path))
    return show(trace)


def _program(path: Path, machine: Machine) -> Program:
    program: Program = _parsed(path, parse_program)
    check(program, machine)
    return program


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(read_text(str(path)))
    except ValueError as e:
        raise CheckError(f"not JSON: {e}", source=str(path)) from None
    wanted = {"name", "precision", "inputs", "outputs", "groups"}
    if not isinstance(said, dict) or not wanted <= said.keys() or not isinstance(said["groups"], dict):
        raise CheckError("this is no manifest of a dump: name, precision, inputs, outputs and groups are needed", source=str(path))
    return said


def _ports(said: dict[str, Any], what: str) -> tuple[Port, ...]:
    try:
        return tuple(Port(str(p["name"]), str(p["tensor"]), str(p["dtype"]), tuple(int(d) for d in p["shape"])) for p in said[what])
    except (KeyError, TypeError, ValueError):
        raise CheckError(f"manifest.json: {what} must be a list of name, tensor, dtype and shape") from None
