"""A folder with the text of every stage, and functions to enter the job again from any of them.

    DIR/machine.toml           the machine, each number with its source
    DIR/manifest.json          names, ports and what the search found, by group
    DIR/import.graph, .npz     stage import: the graph after the frontend, its constants by hash beside it
    DIR/model.plan             stage plan: how the model is put together, where it was imported
    DIR/fused.graph, .npz      stage fuse: layouts, groups, packed constants
    DIR/funcs/g1.tir           stage lower
    DIR/schedules/g1.sched     stage schedule; DIR/scheduled/g1.tir is the func after it
    DIR/programs/g1.prog       stage emit

Scheduled funcs and emitted programs are shown simplified (ir/text/simplify.py).

A model with gears has such a folder for each, as DIR/gear_8x448x448. DIR/gears.txt lists their names in order.
"""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec import primitives
from aoec.artifact.compiled import Artifact, Port
from aoec.base.errors import AoecError, BackendError, CheckError
from aoec.base.files.files import read_text, reason, write_text
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan
from aoec.ir.program import Program
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.rewrite import normalise
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_program, parse_trace
from aoec.ir.text.show import show
from aoec.ir.text.simplify import simplify
from aoec.jobs.plans.entered import read_plan
from aoec.jobs.stages import manifest
from aoec.jobs.stages.places import blamed_step, step_places, with_place
from aoec.jobs.stages.stage import Stage
from aoec.jobs.stages.stages import apply_shown, check_shown, graph_of, load_weights, save_weights
from aoec.jobs.tune.made import Schedule
from aoec.jobs.verify.within import read_func
from aoec.lowering.emit.emit import emit
from aoec.lowering.lower.lower import Indexed
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.jobs.compile.compiled_model import Choice



Dumped = tuple[Stage, Artifact, "Sequence[Choice]", "Plan | None"]


# ---------------------------------------------------------------- writing

def write_all(folder: Path, gears: Sequence[Dumped], machine: Machine) -> None:
    """Call `write` for a model. For a model with several gears, call it for each in a folder of its own."""
    if len(gears) == 1:
        write(folder, *gears[0], machine)
        return
    names = [f"gear_{stage.gear.replace(',', 'x')}" for stage, *_ in gears]
    for name, gear in zip(names, gears):
        write(folder / name, *gear, machine)
    write_text(folder / manifest.GEARS, "".join(f"{name}\n" for name in names))


def write(folder: Path, stage: Stage, artifact: Artifact, choices: Sequence[Choice], plan: Plan | None, machine: Machine) -> None:
    """Write the text of every stage, in a file for each group."""
    try:
        for name in ("funcs", "schedules", "scheduled", "programs", "reasons"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        if not stage.graph.groups:
            _graph(folder / "import.graph", stage.graph, stage.weights)
        if plan is not None:
            _text(folder / "model.plan", plan)
        _graph(folder / "fused.graph", artifact.graph, dict(artifact.weights))
        for c in choices:
            name = c.task.group.name
            _text(folder / "funcs" / f"{name}.tir", c.task.func)
            _text(folder / "schedules" / f"{name}.sched", c.best.trace)
            _text(folder / "scheduled" / f"{name}.tir", simplify(normalise(primitives.apply(c.task.func, c.best.trace))))
            _text(folder / "programs" / f"{name}.prog", simplify(c.best.program))
            (folder / "reasons" / f"{name}.json").write_text(json.dumps(_reasons(c, machine), indent=1) + "\n", encoding="utf-8")
        (folder / "machine.toml").write_text(artifact.machine, encoding="utf-8")
        (folder / "manifest.json").write_text(json.dumps(_manifest(stage, artifact, choices), indent=1) + "\n")
    except OSError as e:
        raise BackendError(f"{folder}: cannot write the dump: {reason(e)}") from None


def _graph(path: Path, graph: Graph, weights: Mapping[str, np.ndarray]) -> None:
    _text(path, graph)
    save_weights(graph, weights, f"{path}.npz")


def _text(path: Path, noun: Graph | Plan | Func | Trace | Program) -> None:
    path.write_text(show(noun) + "\n", encoding="utf-8")


def _reasons(choice: Choice, machine: Machine) -> dict[str, Any]:
    """Return where the time of the best and of the default candidate goes, for reading (docs/explain.md); nothing is taken from it
    again."""
    def describe(s: Schedule) -> dict[str, Any]:
        return asdict(s.measure if s.measure.reasons else measure(s.program, machine, choice.task.state))

    return {"times": "modelled", "state": choice.task.state_text, "best": describe(choice.best), "default": describe(choice.default)}


def _manifest(stage: Stage, artifact: Artifact, choices: Sequence[Choice]) -> dict[str, Any]:
    compiled = {g.group: g for g in artifact.groups}
    groups = {c.task.group.name: {
        "key": c.solved.best.key.digest, "default": c.solved.default.trace, "trace": show(c.best.trace),
        "default_ticks": c.solved.default.ticks, "ticks": compiled[c.task.group.name].ticks,
        "bound_ticks": compiled[c.task.group.name].bound_ticks, "proof": c.solved.best.proof} for c in choices}
    return {"name": artifact.name, "target": artifact.target, "precision": artifact.precision, "times": "modelled",
            "inputs": [_port(p) for p in artifact.inputs], "outputs": [_port(p) for p in artifact.outputs], "groups": groups,
            **({"gear": artifact.gear} if artifact.gear else {}), **({"rewrites": stage.rewrites} if stage.rewrites else {}),
            **({"rewrites_made": [list(site) for site in stage.made]} if stage.made else {}),
            **({"own_rules": stage.own_rules} if stage.own_rules else {})}


def _port(p: Port) -> dict[str, Any]:
    return {"name": p.name, "tensor": p.tensor, "dtype": p.dtype, "shape": list(p.shape), **({"dims": list(p.dims)} if p.dims else {})}


# ---------------------------------------------------------------- entering again

def load(folder: Path, start: str, said: dict[str, Any], machine: Machine) -> Stage:
    """Return the stage of a dump at which the job goes on; edited texts are checked like any other, and refused at their place."""
    path = folder / ("import.graph" if start in ("import", "plan") else "fused.graph")
    graph = graph_of(read_text(path), str(path))
    if path.stem == "fused" and not graph.groups:
        raise CheckError("this graph has no groups; enter at --from import", source=str(path))
    stage = Stage(start, said["name"], said["precision"], graph, load_weights(graph, f"{path}.npz"), _ports(said, "inputs"),
                  _ports(said, "outputs"), found=said["groups"], gear=said["gear"],
                  made=tuple((str(rule), str(tensor)) for rule, tensor in said["rewrites_made"]), own_rules=said["own_rules"])
    if start == "plan":
        stage = replace(stage, entered=read_plan(str(folder / "model.plan")))
    groups = [g for g in graph.groups if g.kind in ("cube", "vector")]
    if start in ("lower", "schedule", "emit"):
        indexed = Indexed(graph)
        stage = replace(stage, funcs={g.name: _func(folder / "funcs" / f"{g.name}.tir", indexed.lower(g)) for g in groups})
    if start in ("schedule", "emit"):
        schedules = Schedules(machine)
        stage = replace(stage, traces={g.name: schedules.read(folder / "schedules" / f"{g.name}.sched", stage.funcs[g.name],
                                                              manifest.group(said["groups"], g.name)["trace"]) for g in groups})
    if start == "emit":
        stage = replace(stage, programs={g.name: _program(folder / "programs" / f"{g.name}.prog", machine) for g in groups})
    return stage


def _func(path: Path, lowered: Func) -> Func:
    """Return the func in a file; refused where it takes or gives other tensors than its group does."""
    func = read_func(read_text(path), str(path))
    for what, given, wanted in (("takes", func.inputs, lowered.inputs), ("gives", func.outputs, lowered.outputs)):
        if [(b.dtype, b.shape) for b in given] != [(b.dtype, b.shape) for b in wanted]:
            said = [", ".join(f"{b.name}: {b.dtype}[{', '.join(map(show, b.shape))}]" for b in buffers) for buffers in (given, wanted)]
            raise CheckError(f"this func {what} {said[0]}, and its group {what} {said[1]}", source=str(path))
    return func


@dataclass
class Schedules:
    """Reads schedules for a machine; equal ones of equal funcs are tried once."""

    machine: Machine
    tried: set[tuple[Func, Trace]] = field(default_factory=set)

    def read(self, path: Path, func: Func, known: str) -> str:
        """Return the canonical text of a schedule. Refuse one that leads to no legal program, with a caret under the step to blame.

        `known`: the schedule as it was dumped.
        """
        text = read_text(path)
        trace, places = parse_trace(text, str(path)), list(step_places(text))
        for number, step in enumerate(trace.steps):
            if open_holes := holes_of(Trace((step,))):
                raise CheckError(f"hole ?{next(iter(open_holes))} is open; give it a number", text, *places[number], str(path))
        if (func, trace) not in self.tried:
            apply_shown(func, trace, text, str(path))
            refusal = self.refusal(func, trace)
            if refusal is not None:
                number = blamed_step(trace, parse_trace(known, "manifest.json"), lambda t: self.refusal(func, t) is None)
                raise with_place(refusal, text, str(path), places[number] if number < len(places) else (0, 0))
            self.tried.add((func, trace))
        return show(trace)

    def refusal(self, func: Func, trace: Trace) -> AoecError | None:
        """Return why the schedule makes no legal program. Return None where it does."""
        try:
            check(normalise(emit(primitives.apply(func, trace), self.machine)), self.machine)
        except AoecError as e:
            return e
        return None


def _program(path: Path, machine: Machine) -> Program:
    """Return the program in a file, as a dump shows it: so an untouched one is known for what was emitted."""
    text = read_text(path)
    program = parse_program(text, str(path))
    if program.target != machine.name:
        raise CheckError(f"this program is for {program.target}, and {machine.name} is the target; enter at --from schedule",
                         source=str(path))
    check_shown(program, machine, text, str(path))
    return simplify(program)


def _ports(said: dict[str, Any], what: str) -> tuple[Port, ...]:
    try:
        return tuple(Port(str(p["name"]), str(p["tensor"]), str(p["dtype"]), tuple(int(d) for d in p["shape"]),
                          tuple(str(d) for d in p.get("dims", ()))) for p in said[what])
    except (KeyError, TypeError, ValueError):
        raise CheckError(f"manifest.json: {what} must be a list of name, tensor, dtype and shape") from None
