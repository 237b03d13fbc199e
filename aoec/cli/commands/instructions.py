"""`aoec instructions`: the instructions of a program."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.cli.word_pages import WordOptions, write_words
from aoec.options.option import File, option, options, redeclare


@options
class InstructionOptions(WordOptions):
    name: str | None = redeclare(WordOptions, "name", help="the instruction to show (default: list all)")
    target: str | None = option("--target", default=None, metavar="NAME|FILE.toml", file=File.READ,
                                help="what this machine has, with its timing (default: all chips)")


def run(options: InstructionOptions) -> int:
    """Writes all instructions, or the one that is named."""
    from aoec.report.words import instructions
    return write_words(options, instructions.facts(options.name, options.target), instructions.show, instructions.show_one)


COMMAND = Command(
    "instructions", "list the instructions of a program, or show one with its fields, limits, chips and timing",
    InstructionOptions, run, "instructions", 410, "aoec instructions mmad")
