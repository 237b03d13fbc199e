"""`aoec search`: the best schedule of one func, as text on standard output, with the figures on standard error; or its space."""
from __future__ import annotations

import json
import sys
from argparse import Namespace

from aoec.base.errors import ScheduleError
from aoec.base.files import read_text, write_text
from aoec.ir.index import reads
from aoec.ir.parse import parse_func
from aoec.ir.show import show
from aoec.ir.tir import Func
from aoec.jobs.space import space_facts, why_empty
from aoec.jobs.trust import Trust, weighed
from aoec.jobs.tuning import Outcome, Problem, problem, search, start
from aoec.jobs.version import model_version
from aoec.report.fidelity import sentence
from aoec.report.space import lines
from aoec.search.restrict import Restriction, parse_where
from aoec.search.sketches import find_product, writer
from aoec.target.machine import Machine, load


def search_func(options: Namespace) -> int:
    """Searches the space of a func text, or shows it; 0. The trace goes to `options.output`, or the facts as JSON."""
    machine = load(options.target) if options.target else load()
    func = parse_func(read_text(options.input), options.input)
    left = restriction(options)
    p = problem(func, machine, restriction=left)
    if options.space:
        facts = space_facts(p, left)
        write_text(options.output, json.dumps(facts, indent=2) + "\n" if options.json else lines(facts))
        return 0
    first = started(p)
    found = weighed(p, search(p, first, options.search, options.budget, options.seed), options.robust)
    trace = show(p.trace(found.best))
    facts = describe(found, machine, p.space.size, len(p.sketches)) | {"fidelity": sentence(machine.name, class_of(func), model_version())}
    write_text(options.output, json.dumps({**facts, "schedule": trace}, indent=2) + "\n" if options.json else trace)
    if not options.json:
        print("  ".join(f"{k} {v}" for k, v in facts.items()), file=sys.stderr)
    return 0


def started(p: Problem) -> Outcome:
    """The default of a space; ScheduleError with what took the last candidates where none is legal."""
    try:
        return start(p)
    except ScheduleError as e:
        raise ScheduleError(why_empty(p) or str(e)) from None


def restriction(options: Namespace) -> Restriction:
    """What the options leave of the space."""
    return Restriction(tuple(options.pin), tuple(options.exclude), tuple(map(parse_where, options.where)), tuple(options.sketch))


def class_of(func: Func) -> str:
    """The operator class that a func's figures of fidelity are of: by whether it sums products, of an image or of matrices."""
    product = find_product(func)
    if product is None:
        return "elementwise"
    return "conv" if writer(func, reads(product.block.value)[0].buffer) else "matmul"


def describe(found: Outcome, machine: Machine, size: int, sketches: int) -> dict[str, object]:
    """The figures of a search; times are modelled, from cold inputs."""
    us = 1.0 / (1024 * machine.clock_mhz)
    return {"kind": "modelled", "target": machine.name, "default_us": round(found.default_ticks * us, 3),
            "tuned_us": round(found.ticks * us, 3),
            "bound_us": round(found.bound_ticks * us, 3), "gap_percent": round(100 * (found.ticks / found.bound_ticks - 1), 2),
            "space": size, "sketches": sketches, "trials": found.trials, "illegal": found.illegal,
            "holds": held_on(found.trust),
            "proof": {"space": "optimal in this model and space", "bound": "meets the bound"}.get(found.proof, "none")}


def held_on(trust: Trust | None) -> str:
    """On how many seeded machines the schedule beats the default, and its worst case, in words."""
    if trust is None:
        return "the default"
    close = "" if trust.confirmed else ", ≈ default"
    return f"{trust.faster} of {len(trust.default)} machines, at worst {100 * trust.worst:.1f}% of the default's time{close}"
