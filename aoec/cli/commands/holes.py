"""`aoec holes`: the kinds of holes that sketches have."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.cli.word_pages import WordOptions, write_words
from aoec.options.option import options, redeclare


@options
class HoleOptions(WordOptions):
    name: str | None = redeclare(WordOptions, "name", help="the hole to show (default: list all)")


def run(options: HoleOptions) -> int:
    """Writes all holes, or the one that is named."""
    from aoec.jobs.stages import holes
    return write_words(options, holes.facts(options.name), holes.show, holes.show_one)


COMMAND = Command(
    "holes", "list the kinds of holes that sketches have, or show one with what it decides. The holes of one func are shown by aoec "
    "search --space",
    HoleOptions, run, "holes", 420, "aoec holes tm")
