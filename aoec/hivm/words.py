"""The table of words as it was read: of each instruction its op, what elements the op takes, or why none carries it."""
from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from aoec.target.isa.instructions import INSTRUCTIONS


@dataclass(frozen=True)
class Word:
    """An instruction's row. `types`: dtypes of the destination that its op takes, empty for any. `lacks`: why no op carries it. `lost`:
    what the text does not say of it."""

    name: str
    op: str
    types: tuple[str, ...] = ()
    lacks: str = ""
    lost: str = ""


@dataclass(frozen=True)
class Table:
    """All that the file says. `pipes`: ours to theirs. `casts`: "dst src" to a rounding; `no_casts`: to why there is none."""

    words: Mapping[str, Word]
    pipes: Mapping[str, str]
    casts: Mapping[str, str]
    no_casts: Mapping[str, str]
    wheel: str


@cache
def table() -> Table:
    """Return the table that comes with aoec."""
    raw = tomllib.loads(resources.files("aoec.hivm").joinpath("words.toml").read_text("utf-8"))
    words = {name: Word(name, row.get("op", ""), tuple(row.get("types", ())), row.get("lacks", ""), row.get("lost", ""))
             for name, row in raw["words"].items()}
    assert words.keys() == INSTRUCTIONS.keys()
    return Table(words, raw["pipes"], raw["casts"], raw["no_casts"], raw["wheel"])
