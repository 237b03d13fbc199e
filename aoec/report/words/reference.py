"""Text that the pages of words share: `aoec primitives`, `aoec instructions`, `aoec holes`, and what is made of them under docs/."""
from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a line for each row, its columns to the left, the last one as long as it is."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]) - 1)]
    return ["  ".join([*(c.ljust(w) for c, w in zip(r, widths)), r[-1]]).rstrip() for r in rows]


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; a bar in a cell is escaped."""
    return [_row(heads), f"|{'---|' * len(heads)}", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def first_sentence(text: str) -> str:
    """Return the text up to its first full stop, without it."""
    return text.partition(". ")[0].removesuffix(".")
