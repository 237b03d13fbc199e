"""What the commands that show words have in common: primitives, instructions, holes."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aoec.base.files.files import write_text
from aoec.cli.command import as_json
from aoec.options.option import argument, options
from aoec.options.shared import JsonOption

Facts = dict[str, Any]


@options
class WordOptions(JsonOption):
    name: str | None = argument("NAME", default=None, help="the word to show (default: list all)")


def write_words(options: WordOptions, found: list[Facts], show: Callable[[list[Facts]], str], show_one: Callable[[Facts], str]) -> int:
    """Write the facts of words: all of them as a list, or the one that is asked for. Return 0."""
    if options.name is None:
        write_text("-", as_json(found) if options.json else show(found))
    else:
        write_text("-", as_json(found[0]) if options.json else show_one(found[0]))
    return 0
