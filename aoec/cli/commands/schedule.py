"""`aoec schedule`: a func with a schedule applied."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.base.files.files import read_text
from aoec.cli.command import Command, write_line
from aoec.options.option import File, option, options, redeclare
from aoec.options.shared import HoleOptions, OneInput, OutputOption, RawText


@options
class ScheduleOptions(OneInput, HoleOptions, RawText, OutputOption):
    input: str = redeclare(OneInput, "input", metavar="G.tir")
    trace: str = option("--with", required=True, metavar="G.sched", file=File.READ, help="the schedule")


def run(options: ScheduleOptions) -> int:
    """Writes the scheduled func."""
    from aoec.ir.text.show import show
    from aoec.ir.text.simplify import simplify
    from aoec.jobs.stages.stages import schedule_text
    if options.input == options.trace == "-":
        raise CheckError("the func and the schedule cannot both come from standard input")
    func = schedule_text(options.text, options.input, read_text(options.trace), options.trace, dict(options.holes))
    write_line(options.output, show(func if options.raw else simplify(func)))
    return 0


COMMAND = Command("schedule", "apply a schedule to a func", ScheduleOptions, run, "tutorial", 250, "aoec schedule g.tir --with g.sched")
