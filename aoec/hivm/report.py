"""Which instruction and loops of a program stand at a line of its text, by the comments that kernel.py writes."""
from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "//:"  # begins the comment with an instruction
LOOP = re.compile(r"\{  // (for \w+ in .*)$")


def instruction_at(lines: Sequence[str], line: int) -> str:
    """Return the instruction of a line (from 1): that of its own comment, or of the one above it in its region; empty where none is
    said."""
    if not 0 < line <= len(lines):
        return ""
    for at in range(line - 1, -1, -1):
        text = lines[at]
        if MARK in text:
            before, _, said = text.partition(MARK)
            if at == line - 1 or not before.strip():
                return said.strip()
            return ""  # a flag of its own
        if LOOP.search(text) or text.lstrip().startswith("func.func"):
            return ""
    return ""


def loops_at(lines: Sequence[str], line: int) -> tuple[str, ...]:
    """Return the loops around a line, outermost first."""
    if not 0 < line <= len(lines):
        return ()
    out, depth = list[str](), len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for at in range(line - 2, -1, -1):
        text = lines[at]
        indent = len(text) - len(text.lstrip())
        if text.strip() and indent < depth:
            depth = indent
            if found := LOOP.search(text):
                out.append(found[1])
    return tuple(reversed(out))
