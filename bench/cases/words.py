"""Tile words: the short language in which vendors publish a schedule (docs/fidelity-details.md), one word or word=value at a time.

A cell that starts with `sched` is a trace of ours instead, inline; `trace=PATH` names a file of one.
"""
from __future__ import annotations

import difflib
from dataclasses import dataclass, field

AUTO = 0  # a size that the vendor's own tiling chose

# word -> (least and most numbers of its value, what it says); (0, 0): the word stands alone
WORDS: dict[str, tuple[int, int, str]] = {
    "base": (2, 3, "L0 block m x n x k"),
    "single": (1, 3, "share of one core m x n x k; rows of one turn where one number is given"),
    "l1": (3, 3, "L1 tile m x n x k"),
    "step": (1, 1, "base blocks of A and of B along k that one load brings"),
    "stepka": (1, 1, "base blocks of A along k that one load brings"),
    "stepkb": (1, 1, "base blocks of B along k that one load brings"),
    "stepm": (1, 1, "base blocks of A along m in L1"),
    "stepn": (1, 1, "base blocks of B along n in L1"),
    "depth": (1, 1, "base blocks of A and of B in L1, slots included"),
    "deptha": (1, 1, "base blocks of A in L1, slots included"),
    "depthb": (1, 1, "base blocks of B in L1, slots included"),
    "cores": (1, 1, "cores that work: cube cores for cube operators, else vector cores"),
    "grid": (2, 3, "cores along m x n (x k)"),
    "splitk": (1, 1, "cores that share k of one block; partial sums are added"),
    "l2": (1, 2, "tiles of m x n that run one after another so that their operands stay in L2"),
    "swizzle": (2, 2, "blocks in a swizzle group : direction (0 rows, 1 columns)"),
    "order": (1, 1, "axis that runs fastest over a core's blocks: 0 m, 1 n"),
    "ratio": (2, 2, "cube cores : vector cores"),
    "buffers": (1, 1, "slots of each buffer in UB"),
    "tile": (1, 3, "elements of a tile: rows x columns, or one run"),
    "sub": (1, 2, "elements of a part of the tile that is worked on at once"),
    "programs": (1, 1, "program instances, more than cores run in turns"),
    "passes": (1, 1, "times that the data is read"),
    "parts": (1, 1, "equal parts of the data, each read `passes` times before the next"),
    "ubstride": (1, 1, "rows between column blocks in UB"),
    "norm": (0, 0, "template that loads one base block at a time, L1 not doubled"),
    "mdl": (0, 0, "template that loads several base blocks at once"),
    "ibshare": (0, 0, "A and B are kept in L1 for both vector cores' calls"),
    "basic": (0, 0, "written with the basic API: no library in the scalar path"),
    "unitflag": (0, 0, "the way out starts before the block is done"),
    "preload": (0, 0, "the next load is issued before the current block's work"),
    "constant": (0, 0, "tiling known when compiled"),
    "runtime": (0, 0, "tiling read at run time"),
    "mix": (0, 0, "the cube core is driven by messages of vector cores"),
    "stagger": (0, 0, "every core starts at another place"),
    "shared": (0, 0, "every core reads all of the data"),
    "nd2nz": (0, 0, "ND becomes NZ on the way in"),
    "prepack": (0, 0, "ND becomes NZ in a pass of the vector cores before"),
    "bypass": (0, 0, "inputs are not kept in L2"),
    "banks": (0, 0, "buffers are placed so that banks do not meet"),
    "tree": (0, 0, "a reduction by halves"),
    "whole": (0, 0, "a reduction by the whole-reduce instruction"),
    "tail": (0, 0, "the last block is cut smaller for an even end"),
}
PLACED = ("base", "single", "l1", "tile", "cores", "grid", "programs", "sub")  # words that publish a tile or a core count
MOST = 1 << 32


@dataclass(frozen=True)
class Tile:
    """Words with their numbers; `trace` is a trace text, or `@PATH` of one."""

    words: dict[str, tuple[int, ...]] = field(default_factory=dict)
    trace: str = ""

    def __contains__(self, word: str) -> bool:
        return word in self.words

    def one(self, word: str, default: int) -> int:
        """Return the word's first number, or the default."""
        found = self.words.get(word)
        return found[0] if found else default

    def numbers(self, word: str) -> tuple[int, ...]:
        """Return the word's numbers; none where it is not said."""
        return self.words.get(word, ())

    @property
    def published(self) -> bool:
        """Return whether a tile or a core count is said at all."""
        return bool(self.trace) or any(w in self.words for w in PLACED)

    def __str__(self) -> str:
        if self.trace:
            return f"trace={self.trace[1:]}" if self.trace.startswith("@") else self.trace
        return show_words(self.words)


def parse_tile(text: str) -> Tile:
    """Return the words of a cell; ValueError names the one that is wrong, and the nearest right one."""
    if text.startswith("sched"):
        return Tile(trace=text)
    if text.startswith("trace="):
        return Tile(trace="@" + text.removeprefix("trace=").strip())
    words: dict[str, tuple[int, ...]] = {}
    for word in text.split():
        name, _, value = word.partition("=")
        if name in words:
            raise ValueError(f"tile word {name} stands twice")
        words[name] = _numbers(name, value)
    return Tile(words)


def _numbers(name: str, value: str) -> tuple[int, ...]:
    if name not in WORDS:
        near = difflib.get_close_matches(name, WORDS, n=1, cutoff=0.5)
        raise ValueError(f"tile word {name[:40]!r} is unknown; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(WORDS)}"))
    least, most, what = WORDS[name]
    parts = value.replace(":", "x").split("x") if value else []
    if not least <= len(parts) <= most:
        raise ValueError(f"tile word {name} ({what}) takes {_count(least, most)} and has {len(parts)}")
    return tuple(_number(name, p) for p in parts)


def _count(least: int, most: int) -> str:
    return "no number" if not most else f"{least} numbers" if least == most else f"{least} to {most} numbers"


def _number(name: str, text: str) -> int:
    if text == "auto":
        return AUTO
    least = 0 if name in ("swizzle", "order") else 1
    if not (text.isascii() and text.isdigit() and len(text) <= 10) or not least <= int(text) <= MOST:
        raise ValueError(f"tile word {name}: {text[:40]!r} is no number from 1 to {MOST:,}")
    return int(text)


def show_words(words: dict[str, tuple[int, ...]]) -> str:
    """Return the words as a cell holds them."""
    return " ".join(n if not v else f"{n}={_joiner(n).join(str(x) if x or n in ('swizzle', 'order') else 'auto' for x in v)}"
                    for n, v in words.items())


def _joiner(word: str) -> str:
    return ":" if word in ("ratio", "swizzle") else "x"
