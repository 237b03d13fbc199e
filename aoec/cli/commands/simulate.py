"""`aoec simulate`: the modelled time of a program."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from aoec.base.errors import CheckError
from aoec.base.files.files import write_text
from aoec.cli.command import Command, as_json
from aoec.cli.kernels import ready_kernels
from aoec.options import readers
from aoec.options.device import OnOption
from aoec.options.option import File, Options, option, options, redeclare
from aoec.options.shared import (
    HoleOptions,
    JsonOption,
    OneInput,
    OutputOption,
    ProgramState,
    StepLimit,
    TargetOption,
    WithinOption,
)


@options
class TimelineOptions(Options):
    """What is shown of the timeline, and where. `start` and `stop`: in cycles."""

    title = "timeline"
    trace: str | None = option("--trace", default=None, metavar="FILE.json", file=File.WRITTEN,
                                 help="write the timeline as a Chrome trace, for Perfetto and chrome://tracing")
    svg: str | None = option("--svg", default=None, metavar="FILE.svg", file=File.WRITTEN, help="draw the timeline")
    core: Sequence[str] = option("--core", default=(), many=True, metavar="STREAM.N",
                                 help="a core to show (default: the last of each stream)")
    start: float | None = option("--from", default=None, metavar="CYCLE", read=readers.cycles,
                                 help="show from here (default: beginning, middle and end)")
    stop: float | None = option("--to", default=None, metavar="CYCLE", read=readers.cycles, help="show up to here")
    most_events: int = option("--events", default=100_000, metavar="N", read=readers.events,
                              help="the most events of a core in the trace (default: 100000)")


@options
class SimulateOptions(OneInput, HoleOptions, TargetOption, ProgramState, WithinOption, JsonOption, StepLimit, TimelineOptions, OnOption,
                      OutputOption):
    input: str = redeclare(OneInput, "input", metavar="G.prog")


def run(options: SimulateOptions) -> int:
    """Times the program, and draws its timeline where that is asked for; on a device it is measured beside."""
    if options.device is not None:
        return _run_on_device(options, options.device)
    if options.limit is not None:
        raise CheckError("--limit is of a run on a device: give --on npu")
    from aoec.jobs.stages.stages import program_text
    from aoec.jobs.states import measured_facts, of_program
    from aoec.report.reasons import lines
    from aoec.simulate.timing.time import measure
    ready_kernels()
    program, machine = program_text(options.text, options.input, options.target, dict(options.holes))
    state = of_program(options.state, program)
    made = measure(program, machine, state)
    facts = measured_facts(made, state)
    if options.within:
        from aoec.jobs.tune.trust import program_ticks, range_of
        facts["within"] = asdict(range_of(made.time_us, program_ticks(program, machine, state), machine))
    if options.trace or options.svg:
        from aoec.jobs.stages.timeline import View, export
        export(program, machine, View(options.core, options.start, options.stop, options.most_events, state), options.trace, options.svg)
    write_text(options.output, as_json(facts) if options.json else lines(facts))
    return 0


def _run_on_device(options: SimulateOptions, number: int) -> int:
    from aoec.jobs.npu.time_on import lines, time_on_device
    from aoec.jobs.stages.stages import program_text
    if options.trace or options.svg or options.within:
        raise CheckError("--trace, --svg and --within are of the model machine; without --on npu they are made")
    ready_kernels()
    program, machine = program_text(options.text, options.input, options.target, dict(options.holes))
    facts = time_on_device(program, machine, number, options.limit)
    write_text(options.output, as_json(facts) if options.json else lines(facts))
    return int(facts["wrong"])


COMMAND = Command("simulate", "time a program on the model machine, or on a device", SimulateOptions, run, "explain", 270,
                  "aoec simulate g.prog --json")
