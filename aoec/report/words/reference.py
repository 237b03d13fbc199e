"""Text that the pages of words share: `aoec primitives`, `aoec instructions`, `aoec holes`, and what is made of them under docs/."""
from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap

NARROWEST, WIDE = 24, 140  # columns: of a text beside others, and of the longest line


def align_columns(rows: Sequence[Sequence[str]], width: int = 0) -> list[str]:
    """Return a line for each row, its columns to the left, the last one as long as it is. With a width, long ones take more lines."""
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]) - 1)]
    before = sum(widths) + 2 * len(widths)
    if width and width - before >= NARROWEST:
        return [line for r in rows for line in wrap(r[-1], width, initial_indent="  ".join([*(c.ljust(w) for c, w in zip(r, widths)), ""]),
                                                    subsequent_indent=" " * before) or ["  ".join(r).rstrip()]]
    return ["  ".join([*(c.ljust(w) for c, w in zip(r, widths)), r[-1]]).rstrip() for r in rows]


def terminal_width() -> int:
    """Return the columns of the terminal, or those that COLUMNS gives. Return at most WIDE, also where there is no terminal."""
    return min(get_terminal_size((WIDE, 24)).columns, WIDE)


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; a bar in a cell is escaped."""
    return [_row(heads), f"|{'---|' * len(heads)}", *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def first_sentence(text: str) -> str:
    """Return the text up to its first full stop, without it."""
    return text.partition(". ")[0].removesuffix(".")
