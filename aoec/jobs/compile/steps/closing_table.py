"""Report on a compiled model at the end: the closing table, and how reliable it is."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from aoec.jobs.choose import rounds
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.compile.compiled_model import Choice, Made, Model
from aoec.jobs.tune.budget import Spent, as_dict
from aoec.jobs.tune.solve import total_ticks
from aoec.jobs.tune.trust import Trust, together
from aoec.jobs.tune.tuning import bound_in
from aoec.jobs.version import model_version
from aoec.lowering.lower.access import main_node
from aoec.ops.narrowed import counts, kept_words
from aoec.options.compile import CompileOptions
from aoec.report.fidelity import as_dict as fidelity_of
from aoec.report.fidelity import near, operator_class
from aoec.report.table import WIDE_GAP, Held, Report, Row, Times
from aoec.search.proof.bounds import Bound
from aoec.search.space.trials import Phase
from aoec.simulate.timing.time import measure
from aoec.target.machine import Machine

UNEVEN = 1.25  # the last core's time, in means of all: from here on the tail is the reason
UNTUNED = "not tuned: --tune searches for faster schedules"  # said where the bank did not know all of a model, and nothing was searched


def add_fidelity(report: Report, model: Model, machine: Machine) -> Report:
    """Return the report with how near modelled times are to published ones, for every class of operators that the model has."""
    nodes = {n.name: n for n in model.graph.nodes}
    on_core = [g for g in model.graph.groups if g.kind in ("cube", "vector")]
    classes = sorted({operator_class(main_node([nodes[n] for n in g.nodes]).op) for g in on_core})
    notes = (*report.notes, *kept_words(model.graph, model.precision), *rounds.describe_rounds(model.graph))
    told = tuple(near(machine.name, classes, model_version()))
    return replace(report, notes=notes, near=told, fidelity=fidelity_of(machine.name, classes, model_version()))


def closing_table(made: Made, machine: Machine, options: CompileOptions) -> Report:
    """Return the closing table: equal groups in one row."""
    model, choices, lines = made.model, made.choices, made.lines
    us, advice = machine.us_per_tick, UNTUNED if options.advice is None else options.advice
    rows: dict[object, Row] = {}
    bound_us = 0.0
    spent = {}
    often, shown = rounds.passes_of_groups(model.graph), rounds.counts(model.graph)
    for c in choices:
        at = (c.task.func_key, c.task.state_text)
        ticks = total_ticks(c.best.measure, machine)
        times = Times(c.solved.default.ticks * us, ticks * us, min(c.solved.best.bound_ticks, ticks) * us)
        bound_us += often[c.task.group.name] * (times.bound_us or 0.0)
        spent[at] = c.solved.spent
        if at not in rows:
            rows[at] = Row(c.task.group.name, c.task.label, times, 0, c.best.measure.bound_by, c.task.group.kind, c.solved.best.proof,
                           held_of(c.trust), c.solved.candidates, as_dict(c.solved.spent) if c.solved.candidates else {},
                           why=reason_of(c, machine) if (times.gap or 0.0) > WIDE_GAP else "")
        rows[at] = replace(rows[at], count=rows[at].count + shown[c.task.group.name])
    off_core, ops = host_times(model.graph), {n.name: n.op for n in model.graph.nodes}
    bound_us += rounds.weighted_sum(off_core, model.graph)
    for g in model.graph.groups:
        if g.kind in ("view", "host"):
            times = Times(*[off_core[g.name]] * 3) if g.kind == "host" else Times()
            rows[g.name] = Row(g.name, count_words([ops[name] for name in g.nodes]), times, shown[g.name], "", g.kind)
    found = len({(c.task.func_key, c.task.state_text) for c in choices if c.solved.found})
    return Report(
        model.name, machine.name, model.precision, tuple(rows.values()),
        Times(lines.default.latency_us, lines.tuned.latency_us, min(lines.tuned.latency_us, chain_bound_us(made, machine))),
        Times(lines.default.sum_us, lines.tuned.sum_us, bound_us),
        (1e6 / lines.default.throughput_us, 1e6 / lines.tuned.throughput_us) if lines.tuned.throughput_us else None,
        "cold inputs and weights" if options.metric == "latency" else "what an equal inference before it leaves",
        hint="" if options.tune or all(c.solved.held is not None for c in choices) else advice,
        **looked_at(spent.values()), found=found, tuned=options.tune, lowered=counts(model.graph),
        rewrites=made.stage.rewrites,
        held=whole_trust(choices), images=images_of(model), gear=made.stage.gear, metric=options.metric,
        shares=made.shares(options.metric))


def reason_of(c: Choice, machine: Machine) -> str:
    """Return in a few characters what a group's time is bound by: the share of it that the launch takes, or that a pipe or memory is busy.
    Where few cores work, return their number. Where the last core takes much longer than the mean, return how much."""
    m = c.best.measure if c.best.measure.verdict else measure(c.best.program, machine, c.task.state)
    if m.verdict is None or m.reasons is None:
        return m.bound_by
    if m.verdict.resource == "cores":
        used, there = max(m.reasons.cores.values(), key=lambda both: both[0] / both[1])
        return f"{used}/{there} cores"
    if m.verdict.resource != "launch" and m.reasons.imbalance >= UNEVEN:
        return f"tail {m.reasons.imbalance:.1f}x"
    return f"{m.verdict.resource.rpartition('.')[2]} {100 * m.verdict.utilisation:.0f}%"


def images_of(model: Model) -> int:
    """Return how many images an inference takes: the first size, if all inputs and outputs share it and the model works on images. Else
    return 0."""
    sizes = {p.shape[0] if p.shape else 0 for p in (*model.inputs, *model.outputs)}
    there = any(t.layout.startswith("NC1HWC0") for t in model.graph.tensors) and any(len(p.shape) == 4 for p in model.inputs)
    return sizes.pop() if there and len(sizes) == 1 else 0


def chain_bound_us(made: Made, machine: Machine) -> float:
    """Return what no schedules of the model's groups beat on one timeline, in modelled microseconds.

    The first group pays for its launch. Any other waits behind one before it, and may pay the gap of the task queue alone. What the host
    does is added.
    """
    graph, known = made.model.graph, dict[tuple[str, str], Bound]()
    often, us = rounds.passes_of_groups(graph), 0.0
    for place, c in enumerate(made.choices):
        at = c.task.func_key, c.task.state_text
        if at not in known:
            known[at] = bound_in(c.task.func, machine, c.task.state)
        cycles = known[at].queued_cycles if place else known[at].cycles
        us += often[c.task.group.name] * cycles / machine.clock_mhz
    return us + rounds.weighted_sum(host_times(graph), graph)


def looked_at(spent: Iterable[Spent]) -> dict[str, Any]:
    """Return the fields of a report on what searches looked at: trials, and beside them candidates that were timed for other purposes, or
    decided without timing."""
    found = list(spent)
    beside = sum((Counter(s.candidates) for s in found), Counter[str]())
    return {"trials": sum(s.trials for s in found), "beside": {name: n for name, n in beside.items() if name != Phase.SEARCH.value},
            "bounded": sum(s.bounded for s in found)}


def count_words(words: Sequence[str]) -> str:
    """Return words in order, each once, with how often it is there."""
    return ", ".join(f"{word} x{n}" if n > 1 else word for word, n in Counter(words).items())


def held_of(trust: Trust | None) -> Held | None:
    """Return what a table says of a trust."""
    return Held(len(trust.default), trust.faster, trust.worst, trust.is_confirmed) if trust else None


def whole_trust(choices: list[Choice]) -> Held | None:
    """Return the groups' sum on the seeded machines; groups that keep their default take the same on both sides."""
    trusts = [c.trust for c in choices if c.trust]
    return held_of(together(trusts)) if trusts else None
