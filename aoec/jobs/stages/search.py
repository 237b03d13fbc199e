"""`aoec search`: the best schedule of one func, as text on standard output, with the figures on standard error; or its space."""
from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aoec.bank.record import Key
from aoec.base.errors import CheckError, ScheduleError
from aoec.base.files.files import write_text
from aoec.base.text import plural
from aoec.ir.func.tir import Func
from aoec.ir.index import reads
from aoec.ir.text.keys import key
from aoec.ir.text.show import show
from aoec.jobs.stages.places import blocks_shown
from aoec.jobs.stages.space import legal, space_facts, why_empty
from aoec.jobs.states import state_text
from aoec.jobs.tune import counts
from aoec.jobs.tune.budget import Budget, as_dict
from aoec.jobs.tune.order import search_of
from aoec.jobs.tune.trust import Trust, program_ticks, range_of
from aoec.jobs.tune.tuning import Outcome, Problem, problem, search, start
from aoec.jobs.tune.weigh import weigh
from aoec.jobs.verify.within import read_func
from aoec.jobs.version import model_version
from aoec.options.func import SearchOptions
from aoec.report import spread
from aoec.report.fidelity import near
from aoec.report.space import lines
from aoec.report.trials import FORMS, Line
from aoec.search.sketches.nests import find_product, writer
from aoec.search.space.count import cuts
from aoec.search.space.restrict import Restriction, parse_where
from aoec.search.space.trials import Status
from aoec.simulate.timing.time import ERRORS
from aoec.target.machine import load

Facts = dict[str, Any]
ENDS = {"default": "the default schedule", "proof": "a proof", "settling": "settling the result"}  # beside the search's own trials


def search_func(options: SearchOptions) -> int:
    """Search the space of a func text, or show the space. Return 0. The trace goes to `options.output`, or the facts as JSON."""
    machine = load(options.target) if options.target else load()
    text = options.text
    func = read_func(text, options.input)
    left = restriction(options)
    with blocks_shown(text, options.input):
        p = problem(func, machine, restriction=left)
    if options.space:
        facts = space_facts(p, left)
        write_text(options.output, as_json(facts) if options.json else lines(facts))
        return 0
    p.ledger.whole = bool(options.trials)
    name = search_of(Key(key(func), machine.name, machine.hash, model_version(), state_text(p.state)))
    found = weigh(p, search(p, start_search(p), options.search, budget_of(options, name), options.seed), options.robust)
    trace = show(p.trace(found.best))
    searches = counts.facts({name: found.spent.limits}, options.search, options.seed, options.robust)
    facts = describe(found, p) | ({"within": range_found(found, p)} if options.within else {})
    facts |= {"searches": searches, "fidelity": ": ".join(near(machine.name, [class_of(func)], model_version())[0])}
    if options.trials:
        write_text(options.trials, trial_table(p, str(options.trials)))
    write_text(options.output, as_json({**facts, "schedule": trace, "best": best_facts(p)}) if options.json else trace + "\n")
    if not options.json:
        print(in_words(facts), file=sys.stderr)
    return 0


def budget_of(options: SearchOptions, name: str) -> Budget:
    """Return what the options say that a search may spend."""
    if options.counts:
        found = counts.read(options.counts, options.search, options.seed, options.robust).get(name)
        if found is None:
            raise CheckError(f"{options.counts} has no counts of a search of this func")
        return found
    return ("seconds", options.seconds) if options.seconds is not None else ("trials", options.budget)


def as_json(facts: Mapping[str, object]) -> str:
    """Return facts as a program reads them."""
    return json.dumps(facts, indent=2) + "\n"


def start_search(p: Problem) -> Outcome:
    """Return the default of a space. Raise ScheduleError with what took the last candidates where none is legal."""
    try:
        return start(p)
    except ScheduleError as e:
        raise ScheduleError(why_empty(p) or str(e)) from None


def restriction(options: SearchOptions) -> Restriction:
    """Return what the options leave of the space."""
    return Restriction(tuple(options.pin), tuple(options.exclude), tuple(map(parse_where, options.where)), tuple(options.sketch))


def class_of(func: Func) -> str:
    """Return the operator class that a func's figures of fidelity are of: by whether it sums products, of an image or of matrices."""
    product = find_product(func)
    if product is None:
        return "elementwise"
    return "conv" if writer(func, reads(product.block.value)[0].buffer) else "matmul"


def describe(found: Outcome, p: Problem) -> Facts:
    """Return the figures of a search; times are modelled, from cold inputs."""
    us = p.machine.us_per_tick
    return {"kind": "modelled", "target": p.machine.name, "default_us": round(found.default_ticks * us, 3),
            "tuned_us": round(found.ticks * us, 3),
            "bound_us": round(found.bound_ticks * us, 3), "gap_percent": round(100 * (found.ticks / found.bound_ticks - 1), 2),
            "space": p.space.size, "sketches": len(p.sketches), "trials": found.trials,
            "candidates": {status.value: count for status, count in p.ledger.counts().items()},
            "spent": as_dict(found.spent),
            "holds": held_on(found.trust),
            "proof": proof_of(found, p)}


def range_found(found: Outcome, p: Problem) -> Facts:
    """Return how far the modelled time of the schedule that was found may be off."""
    ticks = found.trust.best if found.trust else program_ticks(p.program(found.best), p.machine, p.state)
    return asdict(range_of(found.ticks * p.machine.us_per_tick, ticks, p.machine))


def proof_of(found: Outcome, p: Problem) -> str:
    """Return how near the best of the space, or of all that is possible, the schedule is for sure."""
    if found.proof == "space":
        return f"optimal in this model and space{said_timed(p)}"
    if found.proof == "bound":
        return "meets the bound"
    gap = 100 * (found.ticks / found.floor_ticks - 1) if found.floor_ticks else 0.0
    return f"within {gap:.2g} % of the best in this model and space" if found.floor_ticks else "none"


def said_timed(p: Problem) -> str:
    """Return how many of the legal candidates were timed, in words."""
    found = [legal(grid, cuts(grid, s.program.constraints)) for grid, s in zip(p.space.grids, p.sketches)]
    count, about = sum(left for left, _ in found), "about " if any(error for _, error in found) else ""
    ended = p.ledger.counts()
    timed, slower = ended[Status.TIMED] + ended[Status.CACHED], ended[Status.ABANDONED]
    early = f", {slower:,} until they were slower" if slower else ""
    return f" of {about}{count:,} legal candidates, of which {timed:,} were timed{early}"


def in_words(facts: Facts) -> str:
    """Return the figures as people read them, a line each."""
    candidates = facts["candidates"]
    assert isinstance(candidates, dict)
    found = facts["spent"]
    assert isinstance(found, dict)
    saved = 100 * (1 - facts["tuned_us"] / facts["default_us"])  # type: ignore[operator]
    ranged = [("within", spread.in_words(facts["within"]))] if "within" in facts else []
    return "\n".join(f"{name:11}{text}" for name, text in (
        ("modelled", f"default {facts['default_us']:.3f} us, tuned {facts['tuned_us']:.3f} us ({saved:.1f} % saved) on {facts['target']}"),
        *ranged,
        ("bound", f"{facts['bound_us']:.3f} us, which no schedule can beat; tuned is {facts['gap_percent']:.1f} % above it"),
        ("space", f"{plural(facts['space'], 'candidate')} in {facts['sketches']} sketch{'es' * (facts['sketches'] != 1)}"),
        ("looked at", ", ".join(f"{count:,} {status}" for status, count in candidates.items() if count)),
        ("", looked_at(found)),
        ("proof", facts["proof"]), ("holds", facts["holds"]), ("accuracy", f"against published measurements of {facts['fidelity']}")))


def looked_at(spent: Mapping[str, Any]) -> str:
    """Return what asked for the candidates of a search, in words: the trials, and the other ends to which legal ones were timed."""
    other = [f"{n:,} for {ENDS[name]}" for name, n in spent["candidates"].items() if n and name in ENDS]
    bounded = f"; proofs decided {spent['bounded']:,} more by bounds" * bool(spent["bounded"])
    return f"{plural(spent['trials'], 'trial')} of the search" + "".join(f", {words}" for words in other) + bounded


def best_facts(p: Problem) -> list[Facts]:
    """Return the fastest candidates that were timed, at most a hundred, with their modelled times; fastest first, then in canonical
    order."""
    return [{"rank": rank, "sketch": p.sketches[c[0]].number, "holes": p.values(c), "ticks": ticks,
             "modelled_us": round(ticks * p.machine.us_per_tick, 3)} for ticks, rank, c in p.ledger.best]


def trial_table(p: Problem, path: str) -> str:
    """Return the table of all candidates that were looked at, as the file's suffix says."""
    us = p.machine.us_per_tick
    table = (Line(t.order, p.space.rank(t.candidate), p.sketches[t.candidate[0]].number, p.values(t.candidate), t.status.value, t.ticks,
                  None if t.ticks is None else round(t.ticks * us, 3), t.reason)
             for t in p.ledger.trials(lambda grid: p.sketches[grid].program.constraints, ERRORS))
    names = dict.fromkeys(name for g in p.space.grids for name in g.names)
    return FORMS[Path(path).suffix](table, list(names))


def held_on(trust: Trust | None) -> str:
    """Return in words on how many seeded machines the schedule beats the default, and its worst case."""
    if trust is None:
        return "the default"
    close = "" if trust.is_confirmed else ", ≈ default"
    return f"{trust.faster} of {len(trust.default)} machines, at worst {100 * trust.worst:.1f}% of the default's time{close}"
