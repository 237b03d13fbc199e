"""`aoec lower`: a group, or an operator given by name, as a func."""
from __future__ import annotations

from pathlib import Path

from aoec.cli.command import Command, write_line
from aoec.options.option import option, options, redeclare
from aoec.options.shared import OneInput, OutputOption, OwnOperators


@options
class LowerOptions(OneInput, OwnOperators, OutputOption):
    input: str = redeclare(OneInput, "input", metavar="FUSED.graph|OPERATOR")
    group: str | None = option("--group", default=None, metavar="NAME", help="the group to lower")


def run(options: LowerOptions) -> int:
    """Writes the func."""
    from aoec.ir.text.show import show
    from aoec.jobs.stages.stages import lower_call, lower_text
    if "(" in options.input and not Path(options.input).exists():
        func = lower_call(options.input, options.operator_files, options.group)
    else:
        func = lower_text(options.text, options.input, options.group)
    write_line(options.output, show(func))
    return 0


COMMAND = Command("lower", "turn a group, or an operator given by name, into a func", LowerOptions, run, "tutorial", 240,
                  'aoec lower "matmul(m=1024, k=1024, n=1024, fp16)"')
