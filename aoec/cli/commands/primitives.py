"""`aoec primitives`: the primitives of a schedule."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.cli.word_pages import WordOptions, write_words
from aoec.options.option import options, redeclare


@options
class PrimitiveOptions(WordOptions):
    name: str | None = redeclare(WordOptions, "name", help="the primitive to show (default: list all)")


def run(options: PrimitiveOptions) -> int:
    """Writes all primitives, or the one that is named."""
    from aoec.report.words import primitives
    return write_words(options, primitives.facts(options.name), primitives.show, primitives.show_one)


COMMAND = Command(
    "primitives", "list the primitives of a schedule, or show one with its fields and an example",
    PrimitiveOptions, run, "primitives", 400, "aoec primitives split")
