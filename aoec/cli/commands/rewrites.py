"""`aoec rewrites`: the rewrites of graphs."""
from __future__ import annotations

from aoec.cli.command import Command
from aoec.cli.word_pages import WordOptions, write_words
from aoec.options.option import options, redeclare
from aoec.options.shared import OwnRewrites


@options
class RewriteOptions(WordOptions, OwnRewrites):
    name: str | None = redeclare(WordOptions, "name", help="the rule to show (default: list all)")


def run(options: RewriteOptions) -> int:
    """Writes all rules, or the one that is named; those of a user's files after each was tried."""
    from aoec.jobs import rewrites
    return write_words(options, rewrites.facts(options.name, options.rewrite_files), rewrites.show, rewrites.show_one)


COMMAND = Command(
    "rewrites", "list the rewrites of graphs, or show one with its pattern. With --rewrites those of files of your own, after each was "
    "tried on random graphs",
    RewriteOptions, run, "rewrites", 430, "aoec rewrites gelu_erf")
