"""Check of programs with operators of the user's own against the definitions, before they are used. No test of aoec covers such
operators."""
from __future__ import annotations

from collections.abc import Iterable

from aoec.base.errors import AoecError
from aoec.jobs.compile.compiled_model import Choice, Model
from aoec.options.compile import CompileOptions
from aoec.target.legality.check import check
from aoec.target.machine import Machine


def faults_of(model: Model, choices: Iterable[Choice], machine: Machine, options: CompileOptions) -> dict[str, str]:
    """Return group -> what is wrong with its program, for groups with operators of the user's own. A program must be legal on the machine
    and, unless --no-verify, compute what the definitions say."""
    own = {n.name for n in model.graph.nodes if n.definition}
    out = {}
    for c in choices:
        if c.solved.best.verified or own.isdisjoint(c.task.group.nodes):
            continue
        try:
            check(c.best.program, machine)
        except AoecError as e:
            out[c.task.group.name] = f"its program is not legal: {e}"
            continue
        if options.verify is not False:
            from aoec.jobs.verify.verify import verify_group
            found = verify_group(model.graph, c.task.group, c.best.program, c.task.bindings, model.weights, options.seed)
            if found:
                out[c.task.group.name] = found[0]
    return out
