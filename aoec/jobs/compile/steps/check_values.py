"""Checking: what of a compiled model was not checked before: programs by rules, schedules group by group, then the whole on data."""
from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aoec.artifact.compiled import Artifact
from aoec.bank.bank import Bank
from aoec.base.errors import CheckError, UnsupportedError
from aoec.jobs.compile.compiled_model import Choice, Made, Model
from aoec.jobs.context import Job
from aoec.jobs.progress import Line
from aoec.jobs.stages.stage import Stage
from aoec.jobs.verify.halfway import QUANTISING
from aoec.jobs.verify.known_differences import find_known
from aoec.jobs.verify.legal import legal
from aoec.ops.own import read_files
from aoec.ops.run import REALS, evaluate
from aoec.options.compile import CompileOptions

if TYPE_CHECKING:
    from aoec.jobs.verify.verify import Agreement

TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1.6e-1}  # of a whole model against fp32, relative to its largest output, by the
# narrowest of its dtypes: bf16 has three bits less than fp16
# of a tensor quantised by its range, to its deviation: a range that is found differs by a bit, or a scale as Fixpipe keeps ten bits of its
# fraction, and each element by a step
STEP = 8 / 255
MOST_LINES = 32  # on outputs, each of which has a line; of more only the worst have


def check_programs(made: Sequence[Made], job: Job) -> None:
    """Raise an error where a program that was not verified before breaks a rule of the machine."""
    for program in {id(c.best.program): c.best.program for m in made for c in m.choices if not c.solved.best.verified}.values():
        legal(program, job.machine)


def check_values(made: Sequence[Made], job: Job) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return (notes by gear, faults) of what was not verified before, group by group and then whole. The job's voice shows how far that
    is."""
    options = job.options
    keeps = job.bank if options.tune and job.bank.writable and not made[0].stage.traces else None
    fresh = [any(not c.solved.best.verified for c in m.choices) for m in made]
    todo: dict[tuple[str, int], Choice] = {}
    for m in made:
        todo |= {at(c): c for c in m.choices if not c.solved.best.verified and at(c) not in todo}
    notes: list[tuple[str, ...]] = []
    if not any(fresh):
        return [()] * len(made), []
    with job.voice.progress("checking values", len(todo) + sum(fresh)) as line:
        checks = Checks({key: c.best.measure.time_us for key, c in todo.items()}, sum(fresh), line)
        for m, new in zip(made, fresh):
            faults = verify(m.model, m.choices, keeps, options.seed, checks)
            said: list[str] = []
            if new and not faults:
                checks.begin(f"the whole model{m.stage.gear and ', gear '}{m.stage.gear}")
                said, faults = verify_whole(m.artifact, m.stage, options)
                checks.end_whole()
            if faults:
                return notes, [f"gear {m.stage.gear}: {line}" if m.stage.gear else line for line in faults]
            notes.append(tuple(said))
    return notes, []


class Checks:
    """The checks that a job has yet to make, and how far it is.

    `weights`: of each check of a schedule, by `at`. A whole model, of which `wholes` are checked, weighs half as much as all of these.
    """

    def __init__(self, weights: Mapping[tuple[str, int], float], wholes: int, line: Line,
                 clock: Callable[[], float] = time.monotonic) -> None:
        self.left, self._line, self._clock = dict(weights), line, clock
        self._wholes = wholes
        self._each = sum(weights.values()) / 2 or 1.0
        self._done, self._began, self._count = 0.0, clock(), 0

    def begin(self, what: str) -> None:
        """Say what is checked now, and how long the rest may take. The estimate assumes the same time for each unit of weight as before."""
        left = sum(self.left.values()) + self._wholes * self._each
        seconds = (self._clock() - self._began) * left / self._done if self._done else None
        self._line(what, self._count, seconds)

    def end(self, key: tuple[str, int]) -> None:
        """Note that a schedule is checked."""
        self._done += self.left.pop(key)
        self._count += 1

    def end_whole(self) -> None:
        """Note that a whole model is checked."""
        self._wholes -= 1
        self._done += self._each
        self._count += 1


def at(c: Choice) -> tuple[str, int]:
    """Return what tells checks of two schedules apart."""
    return c.solved.best.key.digest, id(c.best.program)


def verify(model: Model, choices: list[Choice], bank: Bank | None, seed: int, checks: Checks) -> list[str]:
    """Return sentences on schedules whose values differ from the reference, of those that are to be checked; `bank` is told of the rest."""
    from aoec.jobs.verify.verify import verify_group

    faults: list[str] = []
    for c in choices:
        record = c.solved.best
        if at(c) not in checks.left:
            continue
        checks.begin(c.task.group.name)
        found = verify_group(model.graph, c.task.group, c.best.program, c.task.bindings, model.weights, seed)
        checks.end(at(c))
        faults += [f"{c.task.group.name}: {line}" for line in found]
        if not found and bank is not None:
            bank.put(replace(record, verified=True))
    return faults


def verify_whole(artifact: Artifact, stage: Stage, options: CompileOptions) -> tuple[list[str], list[str]]:
    """Return (notes, faults) of one inference on seeded data against onnxruntime, or the references where it is not installed."""
    from aoec.jobs.run.run import random_feeds
    from aoec.jobs.verify.verify import verify_model

    infers = options.training is None or options.training.gradients  # what the file says, and no step of its training
    path = str(options.model) if infers and isinstance(options.model, (str, Path)) and Path(options.model).is_file() else ""
    try:
        feeds = random_feeds(artifact, options.seed) | starting_values(artifact, options)
    except CheckError as e:  # a text, a sequence, a free shape: there is no such thing as any value of it
        return [f"values: the whole model was not run: {e.message}"], []
    try:
        found = verify_model(artifact, stage.graph, stage.weights, feeds, path)
    except UnsupportedError as e:  # a loop that does not end, a node of the host that takes other values than any
        return [f"values: the whole model was not run on seeded inputs: {e}"], []
    if options.training is not None:
        found = held_together(found, [p.name for p in artifact.inputs])
    dtypes = {t.dtype for t in stage.graph.tensors}
    limit = max(TOLERANCE[d] for d in REALS if d in dtypes or d == "fp32")
    how = f"one seeded input, {stage.precision}"
    lines = [f"values: {name} {a.describe(how)}" for name, a in found.items()]
    if len(lines) > MOST_LINES:
        lines = most_different(found, how)
    far = [name for name, a in found.items() if not a.relative_error <= limit]
    if far and {n.op for n in stage.graph.nodes} & {*QUANTISING}:  # a number half way between two steps falls on either side of it
        own = verify_model(artifact, stage.graph, stage.weights, feeds)
        most = max(limit, STEP) if {n.op for n in stage.graph.nodes} & {"quantise_range", "requantise"} else limit
        far = [name for name in far if not own[name].mean_error <= most]
        lines += [f"values: {name}: on average within {a.mean_error:.1e} of {a.reference}; single values of a quantised model may be a "
                  "step off"
                  for name, a in own.items()]
    if far and path:
        said, far = _hold_known(artifact, stage, feeds, path, far, limit, how)
        lines += said
    advice = ". If the model needs more range or precision than that, use --precision fp32" if dtypes & {"fp16", "bf16"} else ""
    return lines, [f"{name} {found[name].differs(how)}; the limit is {limit:g}{advice}" for name in far]


def most_different(found: Mapping[str, Agreement], how: str) -> list[str]:
    """Return lines on the outputs that differ most of many, and how many there are."""
    worst = sorted(found, key=lambda name: -found[name].relative_error)[:MOST_LINES // 4]
    return [f"values of {len(found)} outputs were compared; those that differ most:",
            *(f"values: {name} {found[name].describe(how)}" for name in worst)]


def held_together(found: Mapping[str, Agreement], inputs: Sequence[str]) -> dict[str, Agreement]:
    """Return the agreements of a training step. Errors of gradients are relative to the largest element of all gradients, and those of
    states of one kind to the largest of all of these. Else a gradient that is 0 but for rounding, as that of a bias in front of a
    normalisation, would count as different."""
    from aoec.frontend.training.parts.optimisers import STATES
    from aoec.ir.graph.gradients import NEXT, gradients_among

    sent = gradients_among(found, inputs)
    kinds = {name: "gradient" if name in sent else next((s for s in STATES if name.endswith(s + NEXT)), name) for name in found}
    largest: dict[str, float] = {}
    for name, a in found.items():
        largest[kinds[name]] = max(a.largest, largest.get(kinds[name], 0.0))
    return {name: a if a.counted or not largest[kinds[name]] else replace(
        a, relative_error=a.relative_error * (a.largest or 1.0) / largest[kinds[name]]) for name, a in found.items()}


def starting_values(artifact: Artifact, options: CompileOptions) -> dict[str, np.ndarray]:
    """Return the values of inputs of a training step in a check, by name: parameters and running statistics of the model, and an
    optimiser's states. With random values, numbers would grow beyond the range of 16 bits. Return {} for an inference."""
    if options.training is None:
        return {}
    from aoec.frontend.read.read import open_model
    from aoec.frontend.training.parts.optimisers import sample_states
    from aoec.frontend.training.parts.trained_parameters import initial_values

    shapes = {p.name: p.shape for p in artifact.inputs}
    if options.training.gradients:
        return sample_states(shapes)
    model = str(options.model) if isinstance(options.model, Path) else options.model
    given = {i.name: shapes[i.name] for i in open_model(model).graph.input if i.name in shapes}
    found = initial_values(model, given, read_files(options.operator_files), options.training.trained)
    return {name: x for name, x in {**sample_states(shapes), **found}.items() if name in shapes}


def _hold_known(artifact: Artifact, stage: Stage, feeds: dict[str, np.ndarray], path: str, far: list[str], limit: float, how: str,
           ) -> tuple[list[str], list[str]]:
    """Return (notes, outputs that are still far away). Outputs for which onnxruntime has a known difference are compared with the
    operators' references."""
    from aoec.jobs.verify.verify import verify_model

    values = evaluate(stage.graph, {p.tensor: feeds[p.name] for p in artifact.inputs}, stage.weights, every=True)
    known = {name: why for name, why in find_known(path, values).items() if name in far}
    if not known:
        return [], far
    own = verify_model(artifact, stage.graph, stage.weights, feeds)
    near = [name for name in known if own[name].relative_error <= limit]
    return [f"values: {name} {own[name].describe(how)}; onnxruntime differs by a known difference of {known[name][0]}, "
            f"{known[name][1].when} (docs/operators.md)" for name in near], [name for name in far if name not in near]
