"""Why a candidate takes as long as it does, and what changed between two: the facts; report/explain.py words them."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.ir.index import evaluate
from aoec.ir.program import Program
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import emit_text, program_text, schedule_text
from aoec.jobs.states import state_text

if TYPE_CHECKING:
    from aoec.simulate.timing.state import State
    from aoec.target.machine import Machine

EVENTS = 1_000_000  # of a core: what the critical path is looked for in


def candidate(path: str, func: str | None, target: str | None, values: Mapping[str, int]) -> tuple[Program, Machine]:
    """Return the program in a file and its machine. A .prog is read as it is, a scheduled .tir is emitted, and a .sched is applied to
    `func`. Raise CheckError for a whole model."""
    if path.endswith((".aoec", ".onnx")):
        raise CheckError(f"{path} is a whole model, and one candidate is explained here: aoec compile --report DIR writes a page with the "
                         "reasons of each group in its place; --dump DIR writes DIR/programs/*.prog, and what each takes in its place "
                         "as DIR/reasons/*.json")
    text, default = read_text(path), target or "Ascend910B3"
    noun = re.match(r"(?:\s|#[^\n]*\n)*([a-z]*)", text)
    kind = noun.group(1) if noun else ""
    if kind == "sched":
        if func is None:
            raise CheckError("a schedule says nothing without its func; give --func G.tir", source=path)
        text = show(schedule_text(read_text(func), func, text, path, values))
        kind, values = "func", {}
    if kind == "func":
        program = emit_text(text, path, default, values)
        if not holes_of(program):
            text, values = show(program), {}
    return program_text(text, path, target, values)


def facts(program: Program, machine: Machine, source: str, state: State = ()) -> dict[str, Any]:
    """Return what there is to say of one candidate, as plain values; cycles are of the core that ends last of each stream."""
    from aoec.simulate.reasons.events import events
    from aoec.simulate.reasons.path import critical_path
    from aoec.simulate.timing.time import measure
    made = measure(program, machine, state)
    told = max(events(program, machine, state, limit=EVENTS), key=lambda e: int(e.walked.told.ends[e.stream, 0]))
    whole = told.total == len(told)
    return {
        "source": source, "program": program.name, "target": machine.name, "clock_mhz": machine.clock_mhz, "kind": "modelled",
        "state": state_text(state), "measure": asdict(made), "core": told.name,
        "path": [asdict(p) for p in critical_path(told)] if whole else None,
        "grid": {s.name: {axis: int(evaluate(e, {})) for axis, e in s.grid} for s in program.streams},
        "slots": {s.name: {"scope": s.scope, "depth": int(evaluate(s.depth, {})), "bytes": int(evaluate(s.size_bytes, {}))}
                  for s in program.spaces},
        "note": told.note,
    }
