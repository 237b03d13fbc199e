"""Text that people and parsers share: names and quotes, indents, near misses."""
from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from textwrap import wrap

from aoec.base.errors import one_line

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WHOLE = 500  # characters of a line that is quoted whole: in programs of the built-in banks all but 93 lines of 15,842 are
NOTHING: frozenset[str] = frozenset()


def quote(text: str) -> str:
    """Return `text` in double quotes, as JSON writes it: plain ASCII on one line."""
    return json.dumps(text)


def unquote(token: str) -> str:
    """Return the text of a name token: the token itself, or the text between its quotes."""
    if token[:1] != '"':
        return str(token)
    return str(json.loads(token)) if "\\" in token else token[1:-1]


def word(name: str, taken: frozenset[str] = NOTHING) -> str:
    """Return `name` as it is written where the words in `taken` mean something else: bare if it can be, else quoted."""
    return name if PLAIN.fullmatch(name) and name not in taken else quote(name)


def indent(lines: Iterable[str], by: int = 1) -> list[str]:
    """Return the lines, each two spaces a level further in."""
    return ["  " * by + line for line in lines]


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a sentence's tail that helps: the closest known word if there is one, else the known words."""
    words = sorted(known)
    close = get_close_matches(name, words, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; known: {', '.join(words)}" if 0 < len(words) <= 40 else ""


def quote_line(line: str) -> str:
    """Quote a line in a sentence: whole, or of a very long one the beginning, up to a comma, and how much more there is."""
    start = beginning(line)
    return line if start == line else f"{start} [... {len(line) - len(start):,} more characters]"


def beginning(line: str) -> str:
    """Return what `quote_line` says of a line word for word."""
    if len(line) <= WHOLE:
        return line
    comma = line.rfind(", ", WHOLE // 2, WHOLE)
    return line[:comma + 1 if comma > 0 else WHOLE]


def in_columns(text: str, width: int) -> str:
    """Return the text in lines of at most so many characters, broken between words alone; a line goes on two spaces further in."""
    lines = [wrap(line, max(20, width), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) or [""]
             for line in text.split("\n")]
    return "\n".join("\n".join(parts) for parts in lines)


def list_words(words: Iterable[str]) -> str:
    """Return the words as a list in prose: `a, b or c`."""
    items = list(words)
    return " or ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def plural(count: int, word: str) -> str:
    """Return so many of a word: "1 group", "2 groups"."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def clip_name(name: str, most: int = 60) -> str:
    """Return a name for people: a longer one clipped, with what is not printed escaped."""
    said = one_line(name[:most + 1])
    return said if len(said) <= most else said[:most - 1] + "…"
