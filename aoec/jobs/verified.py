"""What of a compiled model was not verified before: its schedules group by group, then the whole on data."""
from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from aoec.artifact.compiled import Artifact
from aoec.bank.bank import Bank
from aoec.base.errors import CheckError, UnsupportedError
from aoec.jobs.dump import Stage
from aoec.jobs.halfway import QUANTISING
from aoec.jobs.known_differences import find_known
from aoec.ops.run import REALS, evaluate

if TYPE_CHECKING:
    from aoec.jobs.compile import Choice, Made, Model

TOLERANCE = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1.6e-1}  # of a whole model against fp32, relative to its largest output, by the
# narrowest of its dtypes: bf16 has three bits less than fp16
def verified(made: list[Made], bank: Bank, options: Namespace) -> tuple[list[tuple[str, ...]], list[str]]:
    """(notes by gear, faults) of what was not verified before, group by group and then whole."""
    keeps = bank if options.tune and bank.writable and not made[0].stage.traces else None
    done: set[tuple[str, int]] = set()
    notes: list[tuple[str, ...]] = []
    for m in made:
        fresh = any(not c.solved.best.verified for c in m.choices)
        faults = verify(m.model, m.choices, keeps, options.seed, done)
        said: list[str] = []
        if fresh and not faults:
            said, faults = verify_whole(m.artifact, m.stage, options)
        if faults:
            return notes, [f"gear {m.stage.gear}: {line}" if m.stage.gear else line for line in faults]
        notes.append(tuple(said))
    return notes, []


def verify(model: Model, choices: list[Choice], bank: Bank | None, seed: int, done: set[tuple[str, int]]) -> list[str]:
    """Sentences on schedules whose values differ from the reference; what was verified before, or is in `done` and then all that is
    verified here, is passed over, `bank` told of the rest."""
    from aoec.jobs.verify import verify_group

    faults: list[str] = []
    for c in choices:
        record = c.solved.best
        at = (record.key.digest, id(c.best.program))
        if at in done or record.verified:
            continue
        done.add(at)
        found = verify_group(model.graph, c.task.group, c.best.program, c.task.bindings, model.weights, seed)
        faults += [f"{c.task.group.name}: {line}" for line in found]
        if not found and bank is not None:
            bank.put(replace(record, verified=True))
    return faults


def verify_whole(artifact: Artifact, stage: Stage, options: Namespace) -> tuple[list[str], list[str]]:
    """(notes, faults) of one inference on seeded data against onnxruntime, or the references where it is not installed."""
    from aoec.jobs.run import random_feeds
    from aoec.jobs.verify import verify_model

    path = str(getattr(options, "model", ""))
    path = path if Path(path).is_file() else ""
    try:
        feeds = random_feeds(artifact, options.seed)
    except CheckError as e:  # a text, a sequence, a free shape: there is no such thing as any value of it
        return [f"values: the whole model was not run: {e.message}"], []
    try:
        found = verify_model(artifact, stage.graph, stage.weights, feeds, path)
    except UnsupportedError as e:  # a loop that does not end, a node of the host that takes other values than any
        return [f"values: the whole model was not run on seeded inputs: {e}"], []
    dtypes = {t.dtype for t in stage.graph.tensors}
    limit = max(TOLERANCE[d] for d in REALS if d in dtypes or d == "fp32")
    how = f"one seeded input, {stage.precision}"
    lines = [f"values: {name} {a.said(how)}" for name, a in found.items()]
    far = [name for name, a in found.items() if not a.relative_error <= limit]
    if far and {n.op for n in stage.graph.nodes} & {*QUANTISING}:  # a number half way between two steps falls on either side of it
        own = verify_model(artifact, stage.graph, stage.weights, feeds)
        far = [name for name in far if not own[name].mean_error <= limit]
        lines += [f"values: {name}: on average within {a.mean_error:.1e} of {a.reference}; single values of a quantised model may be a "
                  "step off"
                  for name, a in own.items()]
    if far and path:
        said, far = _hold_known(artifact, stage, feeds, path, far, limit, how)
        lines += said
    advice = ". If the model needs more range or precision than that, use --precision fp32" if dtypes & {"fp16", "bf16"} else ""
    return lines, [f"{name} {found[name].differs(how)}; the limit is {limit:g}{advice}" for name in far]


def _hold_known(artifact: Artifact, stage: Stage, feeds: dict[str, np.ndarray], path: str, far: list[str], limit: float, how: str,
           ) -> tuple[list[str], list[str]]:
    """(notes, outputs that are still far away): outputs that onnxruntime gives other values by a known difference are held against the
    operators' references."""
    from aoec.jobs.verify import verify_model

    values = evaluate(stage.graph, {p.tensor: feeds[p.name] for p in artifact.inputs}, stage.weights, every=True)
    known = {name: why for name, why in find_known(path, values).items() if name in far}
    if not known:
        return [], far
    own = verify_model(artifact, stage.graph, stage.weights, feeds)
    near = [name for name in known if own[name].relative_error <= limit]
    return [f"values: {name} {own[name].said(how)}; onnxruntime differs by a known difference of {known[name][0]}, "
            f"{known[name][1].when} (docs/operators.md)" for name in near], [name for name in far if name not in near]
