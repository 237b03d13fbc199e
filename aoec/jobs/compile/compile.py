"""The main job: graph -> compiled model, tuned or not. One page of named steps; each step is a room of the house (its first: begin.py)."""
from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from aoec.artifact.artifact import write
from aoec.artifact.compiled import Artifact, Compiled
from aoec.bank.bank import Bank
from aoec.bank.record import Key
from aoec.base.errors import BankError, CheckError, UnsupportedError
from aoec.base.regions import Slices
from aoec.base.text import plural
from aoec.frontend.read.metadata import Source
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.jobs import kernels
from aoec.jobs.bank import embedded
from aoec.jobs.choose import formats, halves, slices
from aoec.jobs.choose.attention import apart
from aoec.jobs.choose.pick import wanted
from aoec.jobs.choose.plan import Task, on_host, placed, tasks
from aoec.jobs.choose.subgraphs import Planned, keep, planned
from aoec.jobs.choose.wide_sums import wide
from aoec.jobs.compile import models, opat, page, sgat
from aoec.jobs.compile.closing import believed, table
from aoec.jobs.compile.compiled_model import Choice, Lines, Made, Model, Ready
from aoec.jobs.compile.course import CHECK_S, Course, begun
from aoec.jobs.compile.lines import whole
from aoec.jobs.compile.models import Weights
from aoec.jobs.compile.opat import Ends
from aoec.jobs.compile.say import Quiet, Voice
from aoec.jobs.compile.verified import verified
from aoec.jobs.events import Events, stream
from aoec.jobs.stages import dump
from aoec.jobs.stages.stage import Stage
from aoec.jobs.tune import counts
from aoec.jobs.tune.baseline import baseline
from aoec.jobs.tune.budget import Until
from aoec.jobs.tune.made import Schedule, realise, trusted
from aoec.jobs.tune.order import Order, Solved, keys
from aoec.jobs.tune.resume import Unfinished
from aoec.jobs.tune.shares import FIRST, LOOKING, JobTime
from aoec.jobs.tune.solve import solve, total_ticks
from aoec.jobs.tune.starts import starts
from aoec.jobs.tune.trust import Trust, of_programs
from aoec.jobs.verify.legal import legal
from aoec.jobs.verify.sound import faults_of
from aoec.jobs.version import model_version
from aoec.target.machine import Machine

NAMED = 8  # nodes in a sentence


def finish(stages: Sequence[Stage], machine: Machine, options: Namespace, voice: Voice, source: Source | None = None) -> int:
    """`finished`, with what becomes of it as events."""
    with stream(options.events) as events:
        return finished(stages, machine, options, voice, events, source)


def finished(stages: Sequence[Stage], machine: Machine, options: Namespace, voice: Voice, events: Events,
             source: Source | None) -> int:
    """Everything from an imported graph, or from wherever a dump is entered again, to the written model and its table; of several gears
    each is a stage, and what they have in common is done once. `source`: the ONNX model, which may carry schedules."""
    started = time.monotonic()
    pool: models.Pool | None = {} if len(stages) > 1 else None
    ready = [grouped(s, machine, options, voice, pool) for s in stages]
    plan = [t for r in ready for t in r.plan]
    compiled(tuple(kernels.TIMES), voice)
    below = embedded.below(source, plan, machine, options.robust and options.tune, options.base, voice.say)
    bank = Bank.open(options.bank).over(below)
    voice.bank(bank)
    results = opat.Results(opat.folder(options.results), stages[0].name, machine, datetime.now()) \
        if options.results is not None and options.job == "opat" else None
    subgraphs = sgat.Results(opat.folder(options.results), stages[0].name, datetime.now()) if options.job == "sgat" else None
    order, other_layouts = Order.of(options), not options.only and not options.slices.regions
    events.say("job_started", **begun(stages[0].name, machine, order, len(different(plan, machine, order))))
    clock = JobTime(order.seconds)
    jobs = [Unfinished(bank, order.by(clock.deadline))]
    jobs.append(jobs[0].another(order.by(clock.until(FIRST if other_layouts else 1.0))))
    found = search(ready, machine, jobs[1], options, voice, events, results)
    plain = made = [real(r, solved, machine, options, voice) for r, solved in found]
    if other_layouts:
        made = [formatted(f, m, machine, jobs, options, voice, events, results, pool) for f, m in zip(found, made)]
    before, sliced = made, [in_slices(m, machine, jobs, options, voice, events, pool, clock) for m in made]
    made = [s.made for s in sliced]
    was = [baseline(p, b, s.banked, machine, options.metric) for p, b, s in zip(plain, before, sliced)]
    for program in {id(c.best.program): c.best.program for m in made for c in m.choices if not c.solved.best.verified}.values():
        legal(program, machine)
    notes: list[tuple[str, ...]] = [()] * len(made)
    if kernels.values_needed(options):
        compiled(tuple(kernels.VALUES), voice)
        notes, faults = verified(made, bank, options, voice)
        if faults:
            events.end("wrong values", reason=faults[0])
            return voice.wrong(faults, options.output)
    write(options.output, *[m.artifact for m in made])
    if options.embed and source is not None:
        plans = [t.plan for s in sliced for t in s.tuned if t.plan.is_faster]
        embedded.write(options.embed, source, [*before, *made], plans, machine)
        count = plural(len(made[0].choices), "group")
        voice.say(f"embedded the schedules of {count}{', and a plan of slices,' * bool(plans)} in {options.embed}")
    if options.dump:
        dump.write_all(Path(options.dump), [(m.stage, m.artifact, m.choices) for m in made], machine)
    seconds = time.monotonic() - started
    if options.slices.plan == "search":
        keep(bank, (t for s in sliced for t in s.kept))
    searches = counts.facts(jobs[0].searched, order.strategy, order.seed, order.robust)
    new = ""
    if subgraphs:
        new = subgraphs.close(was, sliced, options.metric, time.monotonic() - started)
        voice.say(f"results {subgraphs.path}")
    if results:
        new = results.close(ready, Ends(before, made, was), seconds, searches)
        voice.say(f"results {results.path}")
    for job in jobs:
        job.end()
    lines = made[0].lines
    events.end("done", output=options.output, latency_us={"default": lines.default.latency_us, "tuned": lines.tuned.latency_us})
    reports = [believed(replace(table(m, machine, options, seconds), searches=searches,
                                notes=(*slices.describe_slices(m.model.graph), *n, *filter(None, [new]))), m.model, machine)
               for m, n in zip(made, notes)]
    if options.report:
        page.write_report(Path(options.report), made, reports, machine)
        voice.say(f"report {Path(options.report) / 'index.html'}")
    voice.close(reports, options.output)
    return 0


def compiled(parts: Sequence[str], voice: Voice) -> None:
    """Waits for those parts of the kernels that are being compiled, and shows how far they are."""
    if waiting := kernels.pending(parts):
        with voice.progress("compiling kernels, once", waiting) as line:
            kernels.wait(parts, line)


def grouped(stage: Stage, machine: Machine, options: Namespace, voice: Voice, pool: models.Pool | None) -> Ready:
    """A stage with its model fused, in slices where that is asked for, and lowered; UnsupportedError for what --no-host forbids."""
    if (options.slices.regions or options.slices.plan == "search") and (stage.funcs or stage.traces):
        raise CheckError(f"--slices cuts a model, or the fused graph of a dump: enter it at --from fuse, not {stage.start}")
    model, funcs = fused(stage, machine, voice, pool, options.slices.regions)
    if options.no_host:
        refuse_host(model.graph, {})
    return Ready(stage, model, tasks(model.graph, machine, options.metric == "throughput", funcs))


def search(ready: list[Ready], machine: Machine, job: Unfinished, options: Namespace, voice: Voice, events: Events,
           results: opat.Results | None = None) -> list[tuple[Ready, dict[str, Solved]]]:
    """Each model with the schedules of its groups by name, those of equal groups of all of them found once; a group without a legal one is
    done in halves, and these again, and an operator without one is on the host then."""
    if ready[0].stage.traces:
        return [(r, r.stage.solved(r.plan, machine)) for r in ready]
    order, chosen, others = job.order, *wanted(ready, options.only, voice)
    if begun_before := job.begin([keys(t, machine, order.robust)[1] for t in chosen]):
        voice.say(begun_before)
    if order.tune:
        begin_with, told = starts(chosen, machine, job.bank, order)
        order = replace(order, starts=begin_with)
        if told:
            voice.say(told)
    found, failed = schedules(ready, chosen, others, machine, job, order, options, voice, events, results)
    while (parts := [halves.where(r, failed, machine, order, options, voice) for r in ready]) != ready:
        ready, done = parts, found.keys() | failed.keys()
        chosen, others = ([t for t in part if keys(t, machine, order.robust)[1] not in done]
                          for part in wanted(ready, options.only, Quiet(voice.as_json, voice.bar)))
        more = schedules(ready, chosen, others, machine, job, order, options, voice, events, results)
        found, failed = found | more[0], failed | more[1]
    out = []
    for r in ready:
        key = {t.group.name: keys(t, machine, order.robust)[1] for t in r.plan}
        solved = {name: found[k] for name, k in key.items() if k not in failed}
        why = {name: failed[k] for name, k in key.items() if name not in solved}
        plan, model = scheduled(r.plan, solved, r.model, why, voice)
        if options.no_host:
            refuse_host(model.graph, why)
        out.append((Ready(r.stage, model, plan), solved))
    return out


def schedules(ready: list[Ready], chosen: list[Task], others: list[Task], machine: Machine, job: Unfinished, order: Order,
              options: Namespace, voice: Voice, events: Events, results: opat.Results | None) -> tuple[dict[Key, Solved], dict[Key, str]]:
    """(solved, reasons) of tasks by the key of their best: of those to be tuned, and of the others without a search."""
    target, by_key = options.target or machine.name, different([*others, *chosen], machine, order)
    with voice.progress("tuning" if options.tune else "scheduling", len(by_key)) as line:
        check_s = CHECK_S * next(iter(machine.cores.values())).count if kernels.values_needed(options) else 0.0
        course = Course(by_key, order, machine.us_per_tick, line, events, check_s=check_s)
        done = results.noting([r.model.graph for r in ready], course.done) if results else course.done
        found, reasons = solve(others, machine, target, job.bank, replace(order, tune=False, repeat=False, frozen=False), course.done)
        tuned, more = solve(chosen, machine, target, job.bank, order, done, job, course)
        job.note(tuned)
        return found | tuned, reasons | more


def different(plan: Sequence[Task], machine: Machine, order: Order) -> dict[Key, Task]:
    """The tasks that differ, by the key of their best: of equal ones the first."""
    return {keys(t, machine, order.robust)[1]: t for t in reversed(plan)}


def formatted(found: formats.Found, made: Made, machine: Machine, jobs: list[Unfinished], options: Namespace, voice: Voice,
              events: Events, results: opat.Results | None, pool: models.Pool | None) -> Made:
    """The model with matrices between products in the layouts that are faster as tuned; itself where none is, or where it is a dump's.
    Without --tune it is asked of what the bank knows alone. `jobs` grows by what is searched."""
    stage = found[0].stage
    if stage.graph.groups:
        return made

    def find(graph: Graph, tune: bool) -> formats.Found | None:
        how = jobs[0].order if tune else replace(jobs[0].order, tune=False, repeat=False, frozen=False, resume=False)
        trial = Quiet(voice.as_json, voice.bar)
        try:
            graph, weights = laid_out(replace(stage, graph=graph), machine, pool)
            if not options.tune and not formats.heard_of(graph, jobs[0].bank):
                return None
            other = replace(grouped(replace(stage, graph=graph, weights=weights), machine, options, trial, pool), stage=stage)
            embedded.hear(jobs[0].bank, other.plan, machine, how.robust)
            if not options.tune and not formats.known(other.plan, machine, jobs[0].bank, tune):
                return None
            jobs.append(jobs[0].another(how))
            return search([other], machine, jobs[-1], options, trial, events)[0]
        except (BankError, UnsupportedError):  # nothing may be searched, or put on the host
            return None

    changes, every, last = formats.formatted(wide(stage.graph, machine), found, find)
    if not changes:
        return made
    voice.say(formats.sentence(changes, machine))
    if results:
        results.formats(changes, every)
    return real(*last, machine, options, voice, made)


def in_slices(made: Made, machine: Machine, jobs: list[Unfinished], options: Namespace, voice: Voice, events: Events,
              pool: models.Pool | None, clock: JobTime) -> Planned:
    """The model with those regions of its groups in slices that are faster so, itself where none is, and what became of its subgraphs.
    `jobs` grows by what is searched."""
    stage, trial = made.stage, Quiet(voice.as_json, voice.bar)
    given = Namespace(**{**vars(options), "slices": Slices()})

    def cut(regions: slices.Asked) -> Made | str:
        try:
            graph = slices.asked(made.model.graph, regions)
            ready = replace(grouped(replace(stage, graph=graph, weights=made.model.weights), machine, given, trial, pool), stage=stage)
            embedded.hear(jobs[0].bank, ready.plan, machine, jobs[0].order.robust)
            jobs.append(jobs[0].another(jobs[0].order))
            return real(*search([ready], machine, jobs[-1], options, trial, events)[0], machine, options, voice, made.before or made)
        except (BankError, UnsupportedError) as e:  # nothing may be searched, or put on the host
            return str(e).splitlines()[0]

    if not options.slices.plan or stage.funcs or stage.traces:  # a dump says how its groups run
        return Planned(made)
    name, deadline = f"slices {stage.gear}".strip(), clock.until(LOOKING)
    had = jobs[0].order.counts.get(name)
    until = Until(lambda: clock.left(deadline), had.asked if had else 0)
    found = planned(made, jobs[0].bank, machine, options, voice.say, cut, until)
    if options.slices.plan == "search":
        jobs[0].searched[name] = until.limits
    return found


def real(ready: Ready, solved: dict[str, Solved], machine: Machine, options: Namespace, voice: Voice, before: Made | None = None) -> Made:
    """The compiled model that a solution makes; groups of the user's own operators whose programs are wrong are on the host then. `before`:
    what it was in other layouts, if it was: that is timed by default schedules."""
    choices, model = chosen(ready.plan, solved, machine, ready.stage), ready.model
    if unsound := faults_of(model, choices, machine, options):
        choices = [c for c in choices if c.task.group.name not in unsound]
        _, model = scheduled(ready.plan, {c.task.group.name: c.solved for c in choices}, model, unsound, voice)
        if options.no_host:
            refuse_host(model.graph, unsound)
    lines = whole(model, choices, machine)
    artifact = replace(assemble(model, choices, machine, lines), gear=ready.stage.gear)
    lines = lines if before is None else replace(lines, default=before.lines.default)
    return Made(ready.stage, model, choices, lines, artifact, before)


def refuse_host(graph: Graph, reasons: dict[str, str]) -> None:
    """Nothing, or UnsupportedError that names the nodes that would run on the host, and why where there is more to say."""
    nodes = {n.name: n for n in graph.nodes}
    found = [(name, nodes[name].op, reasons.get(g.name, "")) for g in graph.groups if g.kind == "host" for name in g.nodes]
    if found:
        named = ", ".join(f"{name} ({op}{': ' * bool(why)}{why})" for name, op, why in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise UnsupportedError(f"{plural(len(found), 'node')} would run on the host, which --no-host forbids: {named}{more}")


def fused(stage: Stage, machine: Machine, voice: Voice, pool: models.Pool | None,
          regions: slices.Asked = ()) -> tuple[Model, dict[str, Func]]:
    """The model in layouts and groups, `regions` of these in slices, with their funcs by group; groups that cannot be lowered go to the
    host, and that is said."""
    graph, weights = laid_out(stage, machine, pool)
    graph = slices.asked(graph, regions)
    graph, funcs = halves.place_halves(placed(graph), voice)
    return Model(stage.name, stage.precision, graph, weights, stage.inputs, stage.outputs), {**funcs, **stage.funcs}


def laid_out(stage: Stage, machine: Machine, pool: models.Pool | None) -> tuple[Graph, Weights]:
    """The graph in layouts and groups, with its constants; a stage's own where it has groups."""
    if stage.graph.groups:
        return stage.graph, stage.weights
    graph = wide(stage.graph, machine)
    return models.fused(graph, stage.weights, machine, pool, apart(graph, machine))


def scheduled(plan: list[Task], solved: dict[str, Solved], model: Model, reasons: dict[str, str], voice: Voice) -> tuple[list[Task], Model]:
    """Plan and model without the groups that have no legal schedule: they run on the host."""
    voice.on_host(reasons)
    return [t for t in plan if t.group.name in solved], replace(model, graph=on_host(model.graph, reasons))


def chosen(plan: list[Task], solved: dict[str, Solved], machine: Machine, stage: Stage) -> list[Choice]:
    """Each task with its schedules made real, equal tasks sharing them; programs of a dump stand in for emitted ones."""
    made: dict[tuple[str, str, str], Schedule] = {}
    trusts: dict[tuple[str, str, int], Trust | None] = {}
    out = []
    for task in plan:
        records = solved[task.group.name]
        pair = []
        for record in (records.default, records.best):
            at = (task.func_key, task.state_text, record.trace)
            if at not in made:
                made[at] = realise(task.func, record.trace, machine, task.state)
            pair.append(made[at])
        best = stage.replaced(task, pair[1], machine)
        if total_ticks(best.measure, machine) != records.best.ticks:  # edited: what was proved was proved of another
            records = replace(records, best=replace(records.best, proof=""))
        same = (task.func_key, task.state_text, id(best.program))
        if same not in trusts:
            trusts[same] = trust_in(task, records, pair[0], best, machine, best is pair[1])
        out.append(Choice(task, records, pair[0], best, trusts[same]))
    return out


def trust_in(task: Task, records: Solved, default: Schedule, best: Schedule, machine: Machine, emitted: bool) -> Trust | None:
    """How far a choice holds: as its search found it, else timed; None where nothing is gained. `emitted`: its program is its trace's."""
    if best.program == default.program:
        return None
    if not emitted:
        return of_programs(default.program, best.program, machine, task.state)
    found = records.trust if total_ticks(best.measure, machine) == records.best.ticks else None
    return trusted(task.func, default, best, machine, task.state, found)


def assemble(model: Model, choices: list[Choice], machine: Machine, lines: Lines) -> Artifact:
    """The compiled model: the fused graph, and for each group what runs it."""
    by_group = {c.task.group.name: c for c in choices}
    groups = []
    for g in model.graph.groups:
        c = by_group.get(g.name)
        groups.append(Compiled(g.name) if c is None else Compiled(
            g.name, c.task.label, c.task.func_key, c.best.trace, c.best.program, c.task.bindings, c.solved.default.ticks,
            total_ticks(c.best.measure, machine), min(c.solved.best.bound_ticks, total_ticks(c.best.measure, machine))))
    figures = (("latency_ns", round(lines.tuned.latency_us * 1000)), ("latency_default_ns", round(lines.default.latency_us * 1000)),
               ("throughput_period_ns", round(lines.tuned.throughput_us * 1000)), ("isolated_ns", round(lines.tuned.sum_us * 1000)))
    return Artifact(model.name, machine.name, machine.hash, model_version(), model.precision, model.graph, model.inputs, model.outputs,
                    tuple(groups), model.weights, figures, machine.text)
