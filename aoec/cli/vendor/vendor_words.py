"""Options of the vendor's command lines: the effect of each here, and how they are read (aoe_words.py, atc_words.py)."""
from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from aoec.base.errors import CheckError
from aoec.cli.command import READ

AIPP = "inputs stay as the model declares them; its pre-processing is neither calculated nor timed"  # of --insert_op_conf
PAGE = "deploy"  # of both commands, under docs/
Options = dict[str, str]  # name -> value, "" where none was given


class Use(Enum):
    """HONOURED: translated. REPLACED: something else does it, which is said. NOTED: accepted, changes nothing here, and the note says why.
    REFUSED: an error, which says what to do."""

    HONOURED = "honoured"
    REPLACED = "replaced by"
    NOTED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Word:
    """An option. `said`: of one that is not honoured. `bare`: it may stand without a value."""

    name: str
    use: Use = Use.HONOURED
    said: str = ""
    bare: bool = False


def read_options(tool: str, words: Sequence[str], table: Mapping[str, Word], short: Mapping[str, str]) -> Options:
    """Return name -> value of a tool's options. Raise CheckError for an option that is unknown, without a value, given twice, or not
    available here."""
    out: Options = {}
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word[2:].partition("=") if word.startswith("--") else (short.get(word, ""), "", "")
        if name not in table:
            raise CheckError(f"{tool} has no option {word.partition('=')[0]}; {nearest(word.partition('=')[0], table, tool)}")
        if not equals and left and not left[0].startswith("-") and name != "help":
            value, equals = left.pop(0), "="
        if not equals and not table[name].bare:
            raise CheckError(f"--{name} needs a value")
        if name in out:
            raise CheckError(f"--{name} is given twice")
        if table[name].use is Use.REFUSED:
            raise CheckError(f"aoec does not support --{name}: {table[name].said}")
        out[name] = value.strip('"')
    return out


def nearest(word: str, table: Mapping[str, Word], tool: str) -> str:
    """Return a hint: the nearest option, or where the options are listed."""
    near = difflib.get_close_matches(re.sub("^-+", "", word).replace("-", "_"), table, 1)
    return f"did you mean --{near[0]}?" if near else f"see aoec {tool} --help"


def help_lines(table: Mapping[str, Word], example: str) -> str:
    """Return a line for each option with its effect, then an example, and where to read more."""
    width = max(map(len, table)) + 1
    lines = [f"--{w.name:{width}}{w.use.value}{': ' + w.said if w.said else ''}" for w in table.values()]
    return "\n".join([*lines, "", f"example: {example}", f"{READ} docs/{PAGE}.md"])
