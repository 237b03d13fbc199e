"""`aoec explain`: where a candidate's time goes, and what changed between two."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.base.files.files import note, write_text
from aoec.cli.command import Command, as_json
from aoec.cli.kernels import ready_kernels
from aoec.options.option import File, argument, option, options, redeclare, switch
from aoec.options.shared import HoleOptions, JsonOption, OneInput, OutputOption, ProgramState, StepLimit, TargetOption


@options
class ExplainOptions(OneInput, HoleOptions, TargetOption, ProgramState, JsonOption, StepLimit, OutputOption):
    input: str = redeclare(OneInput, "input", metavar="A.prog|A.tir|A.sched|A.plan")
    other: str | None = argument("B", default=None, file=File.READ, help="a second candidate or plan, to compare")
    func: str | None = option("--func", default=None, metavar="G.tir", file=File.READ, help="the func of candidates that are schedules")
    op_summary: bool = switch(
        "--op-summary", help="A is msprof's op_summary_*.csv, B ours (a compiled model, or tuning_results_*/profiling/.../op_summary.csv). "
                             "Shows the operators of both side by side, largest difference first")


def run(options: ExplainOptions) -> int:
    """Writes the reasons of one candidate, or the difference of two."""
    from aoec.jobs.stages.explain import candidate, facts
    from aoec.jobs.states import of_program
    from aoec.report import explain
    if options.op_summary:
        return compare_profiles(options)
    if any(path and is_plan(path) for path in (options.input, options.other)):
        return explain_plans(options)
    if options.input == options.other == "-":
        raise CheckError("the two candidates cannot both come from standard input")
    made = [(*candidate(path, options.func, options.target, dict(options.holes)), path) for path in (options.input, options.other) if path]
    ready_kernels()
    said = [facts(*m, of_program(options.state, m[0])) for m in made]
    if len(said) == 1:
        text = as_json(said[0]) if options.json else explain.one(said[0])
    else:
        both = explain.compare(*said)
        text = as_json(both) if options.json else explain.two(both)
    write_text(options.output, text)
    return 0


def is_plan(path: str) -> bool:
    """Return whether a file holds a plan, by its name or its first word."""
    from aoec.base.files.files import read_text
    from aoec.jobs.stages.nouns import FIRST
    if path == "-" or path.endswith((".plan", ".aoec", ".onnx")):
        return path.endswith(".plan")
    found = FIRST.match(read_text(path))
    return found is not None and found[1] == "plan"


def explain_plans(options: ExplainOptions) -> int:
    """Writes what a plan is in short, or what two have otherwise."""
    from aoec.jobs.plans.entered import read_plan
    from aoec.report import plans
    a, *others = [read_plan(path).plan for path in (options.input, options.other) if path]
    if options.other is None:
        said = plans.describe(a)
        text = as_json(said) if options.json else plans.words(said, options.input)
    else:
        said = plans.compare(a, others[0])
        text = as_json(said) if options.json else plans.compare_words(said, (options.input, options.other))
    write_text(options.output, text)
    return 0


def compare_profiles(options: ExplainOptions) -> int:
    """Writes the operators of a device's profile and of ours side by side."""
    from aoec.jobs.deliver.joined import describe_join, facts, operators
    if options.other is None or options.input == options.other == "-":
        raise CheckError("--op-summary takes two files: the device's op_summary_*.csv, and ours or a compiled model")
    sources = options.input, options.other
    (theirs, unused), (ours, ours_unused) = map(operators, sources)
    for line in (*unused, *ours_unused):
        note(f"note: {line}")
    write_text(options.output, as_json(facts(theirs, ours, sources)) if options.json else describe_join(theirs, ours, sources))
    return 0


COMMAND = Command(
    "explain", "say where a candidate's time goes, or what changed between two, or two plans. It also joins a device's profile with ours",
    ExplainOptions, run, "explain", 280, "aoec explain a.prog b.prog")
