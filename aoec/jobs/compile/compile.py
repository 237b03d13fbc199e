"""The main job: a graph becomes a compiled model, tuned or not. `finish` is the list of its steps; each is a file of `steps/`."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from aoec.artifact.artifact import write
from aoec.bank.bank import Bank
from aoec.base.text import plural
from aoec.frontend.read.metadata import Source
from aoec.jobs import kernels, kinds
from aoec.jobs.bank import embedded
from aoec.jobs.bank.plan_claims import claim_plan
from aoec.jobs.choose import slices
from aoec.jobs.choose.slice_plans import Planned
from aoec.jobs.choose.subgraphs import keep
from aoec.jobs.compile import page
from aoec.jobs.compile.compiled_model import Made, Ready
from aoec.jobs.compile.course import first_event
from aoec.jobs.compile.steps.add_stock import add_stock
from aoec.jobs.compile.steps.add_within import add_within
from aoec.jobs.compile.steps.assemble import assemble
from aoec.jobs.compile.steps.check_values import check_programs, check_values
from aoec.jobs.compile.steps.choose_layouts import choose_layouts
from aoec.jobs.compile.steps.choose_plan import choose_plan
from aoec.jobs.compile.steps.choose_slices import choose_slices
from aoec.jobs.compile.steps.closing_table import add_fidelity, closing_table
from aoec.jobs.compile.steps.group_model import group_model
from aoec.jobs.compile.steps.search_groups import distinct_tasks, search_groups
from aoec.jobs.compile.training_step import step_figures
from aoec.jobs.context import Context, Job
from aoec.jobs.events import stream
from aoec.jobs.kind import Kind
from aoec.jobs.results.result_file import OPAT_OF_BOTH, SGAT_OF_BOTH, WHOLE, Ended, RunPlace, results_folder
from aoec.jobs.results.run_files import RunFiles
from aoec.jobs.stages import dump
from aoec.jobs.stages.stage import Stage
from aoec.jobs.tune import counts
from aoec.jobs.tune.baseline import baseline
from aoec.jobs.tune.order import Order
from aoec.jobs.tune.solve import keep_workers
from aoec.jobs.voice import Voice
from aoec.report.table import seconds_by_part

Notes = list[tuple[str, ...]]  # of each gear
SPANS_OF_BOTH = {"opat": OPAT_OF_BOTH, "sgat": SGAT_OF_BOTH}


def finish(stages: Sequence[Stage], context: Context, asked: Sequence[Kind] = (), source: Source | None = None) -> int:
    """Compile imported graphs, or the stage of a dump that was entered, and write the model. Return 0, or 1 where values are wrong.

    Each of several gears is a stage; work that they share is done once. `source`: the ONNX model, which may carry schedules. `asked`: the
    kinds of a tuning job, each of which has a result file.
    """
    options, watch = context.options, context.voice.watch
    with stream(options.events) as events:
        context = replace(context, events=events, pool={} if len(stages) > 1 else None)
        with keep_workers(options.jobs if options.tune else 1):
            watch.begin("grouping")
            ready = [group_model(s, context) for s in stages]
            job = begin(ready, context, source, asked)
            watch.begin("searching")
            found = search_groups(ready, job.runs[1], job)
            watch.begin("programs")
            plain = [assemble(f, job) for f in found]
            watch.begin("layouts")
            whole = [choose_layouts(f, m, job) for f, m in zip(found, plain)] if other_layouts(context) else plain
            watch.begin("plan")
            ruled = whole
            planned = [choose_plan(m, job) if options.planning != "rules" else (m, ()) for m in ruled]
            whole = [m for m, _ in planned]
            watch.begin("slices")
            sliced = [choose_slices(m, job) for m in whole]
        made = [s.made for s in sliced]
        watch.begin("checks")
        was = [baseline(p, b, s.banked, job.machine, options.metric) for p, b, s in zip(plain, whole, sliced)]
        notes, faults = check(made, job)
        if faults:
            events.end("wrong values", reason=faults[0])
            return job.voice.wrong(faults, options.path)
        watch.begin("writing")
        write_model(ruled, whole, sliced, job, source)
        ended = Ended(ready, plain, sliced, was, options.metric, sum(watch.read().values()), searches_of(job))
        report(ended, [(*said, *n) for (_, said), n in zip(planned, notes)], job)
    return 0


def other_layouts(context: Context) -> bool:
    """Return whether layouts other than the plain ones are tried. They are not where only a part of the model is tuned, or where a plan
    fixes them."""
    options = context.options
    return not options.only and not options.slicing.regions and options.plan is None and options.start != "plan"


def begin(ready: Sequence[Ready], context: Context, source: Source | None, asked: Sequence[Kind]) -> Job:
    """Return the job with its bank, which lies over what the model's file carries, and with its result file."""
    options, voice = context.options, context.voice
    listed = [t for r in ready for t in r.tasks]
    wait_for_kernels(tuple(kernels.TIMES), voice)
    below = embedded.below(source, listed, context.machine, options.robust and options.tune, options.base, voice.say)
    bank = Bank.open(options.bank_path).over(below)
    voice.bank(bank)
    job = Job.begin(context, bank, Order.of(options), ready[0].stage.name, other_layouts(context))
    if asked or options.results is not None:
        job = replace(job, results=open_results(job, asked))
    job.events.say("job_started", **first_event(job.title, job.machine, job.order, len(distinct_tasks(listed, job.machine, job.order))))
    return job


def open_results(job: Job, asked: Sequence[Kind]) -> RunFiles:
    """Return the result files of a job of some kinds; of a compile, which tunes operators and looks for slices, those of both. Where both
    are there, each is of its part."""
    place = RunPlace.begin(results_folder(job.options.results), datetime.now())
    names = ("opat", "sgat") if job.options.slicing.source == "search" else ("opat",)
    files = list(asked) or [kinds.load(name) for name in names]
    both = all(kinds.load(name) in files for name in SPANS_OF_BOTH)
    spans = [next((span for name, span in SPANS_OF_BOTH.items() if both and kinds.load(name) is k), WHOLE) for k in files]
    return RunFiles(place, job.title, job.machine, tuple(k.open_result(job, place, span) for k, span in zip(files, spans)))


def check(made: Sequence[Made], job: Job) -> tuple[Notes, list[str]]:
    """Return (notes by gear, faults) of programs and values that were not checked before."""
    check_programs(made, job)
    if not kernels.values_needed(job.options):
        return [()] * len(made), []
    wait_for_kernels(tuple(kernels.VALUES), job.voice)
    return check_values(made, job)


def write_model(ruled: Sequence[Made], whole: Sequence[Made], sliced: Sequence[Planned], job: Job, source: Source | None) -> None:
    """Write what is asked for: the compiled model, a copy of the ONNX model with its schedules, a dump, and plans into the bank. `ruled`:
    the models by the rules' plan; `whole`: those by the chosen plan."""
    options, made = job.options, [s.made for s in sliced]
    write(options.path, *[m.artifact for m in made])
    if options.embed and source is not None:
        plans = [t.plan for s in sliced for t in s.tuned if t.plan.is_faster]
        claims = [p for r, m in zip(ruled, whole) if (p := claim_plan(r, m, job.machine, options.metric, job.bank))]
        embedded.write(str(options.embed), source, [*ruled, *whole, *made], plans, claims, job.machine)
        count, names = plural(len(made[0].choices), "group"), embedded.name_plans(bool(plans), bool(claims))
        job.voice.say(f"embedded the schedules of {count}{f', and {names},' * bool(names)} in {options.embed}")
    if options.dump:
        dump.write_all(Path(options.dump), [(m.stage, m.artifact, m.choices, m.model.plan) for m in made], job.machine)
    if options.slicing.source == "search":
        keep(job.bank, (t for s in sliced for t in s.plans_to_keep), options.slices is not None)


def searches_of(job: Job) -> dict[str, object]:
    """Return what repeats the searches of a job."""
    return counts.facts(job.runs[0].searched, job.order.strategy, job.order.seed, job.order.robust)


def report(ended: Ended, notes: Notes, job: Job) -> None:
    """Close the result file and report the outcome of the job: events, the page, the table."""
    made, options, machine, watch = ended.models, job.options, job.machine, job.voice.watch
    new: tuple[str, ...] = ()
    if isinstance(job.results, RunFiles):
        new = job.results.close(ended)
        for member in job.results.members:
            job.voice.say(f"results {member.path}")
    job.end()
    watch.begin("table")
    reports = [add_fidelity(replace(closing_table(m, machine, options), searches=ended.searches,
                                    notes=(*step_notes(m), *slices.describe_slices(m.model.graph), *n, *new)), m.model, machine)
               for m, n in zip(made, notes)]
    if options.stock or options.stock is None and options.tune:
        watch.begin("stock")
        reports = [add_stock(r, m, machine, options.metric) for r, m in zip(reports, made)]
    watch.begin("table")
    if options.within:
        reports = [add_within(r, m, machine) for r, m in zip(reports, made)]
    if options.report:
        watch.begin("page")
        beside = job.results.write_pages(Path(options.report)) if isinstance(job.results, RunFiles) else {}
        page.write_report(Path(options.report), made, [replace(r, seconds=watch.read()) for r in reports], machine, beside)
        job.voice.say(f"report {Path(options.report) / 'index.html'}")
    took, lines = watch.read(), made[0].lines
    job.events.end("done", output=options.path, latency_us={"default": lines.default.latency_us, "tuned": lines.tuned.latency_us},
                   seconds_by_part=seconds_by_part(took))
    further = job.results.further if isinstance(job.results, RunFiles) else ()
    job.voice.close([replace(r, seconds=took) for r in reports], options.path, options.every, further)


def step_notes(made: Made) -> tuple[str, ...]:
    """Return what is said of a training step; nothing of an inference."""
    step = step_figures(made.model.graph, made.choices, made.lines)
    return step.sentences() if step else ()


def wait_for_kernels(parts: Sequence[str], voice: Voice) -> None:
    """Wait for those parts of the kernels that are being compiled, and show how far they are."""
    if waiting := kernels.pending(parts):
        with voice.watch.during("kernels"), voice.progress("compiling kernels, once", waiting) as line:
            kernels.wait(parts, line)
