"""`aoec emit`: a scheduled func as a program of AI Core instructions."""
from __future__ import annotations

from aoec.cli.command import Command, write_line
from aoec.options.option import options, redeclare, switch
from aoec.options.shared import DEFAULT_TARGET, HoleOptions, OneInput, OutputOption, RawText, TargetOption


@options
class EmitOptions(OneInput, HoleOptions, RawText, TargetOption, OutputOption):
    input: str = redeclare(OneInput, "input", metavar="SCHEDULED.tir")
    short: bool = switch("--short", one_of="text", help="also leave out loops that run once. The values are the same; the modelled time "
                         "may differ a little")
    raw: bool = redeclare(RawText, "raw", one_of="text")


def run(options: EmitOptions) -> int:
    """Writes the program."""
    from aoec.ir.text.show import show
    from aoec.ir.text.simplify import simplify, without_single
    from aoec.jobs.stages.stages import emit_text
    program = emit_text(options.text, options.input, options.target or DEFAULT_TARGET, dict(options.holes))
    write_line(options.output, show(program if options.raw else without_single(program) if options.short else simplify(program)))
    return 0


COMMAND = Command("emit", "turn a scheduled func into a program of AI Core instructions", EmitOptions, run, "tutorial", 260,
                  "aoec emit scheduled.tir -o g.prog")
