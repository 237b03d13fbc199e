"""Where in a text a refusal belongs that was made after the text was read: what a caret is put under."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from aoec.base.errors import AoecError, CheckError
from aoec.ir.schedule import Step, Trace

QUOTED = 97  # characters of a line that a refusal quotes before it is cut


def shown(error: AoecError, text: str, source: str, place: tuple[int, int] = (0, 0)) -> CheckError:
    """The refusal with its place in the text: `place`, or where the line stands that it quotes."""
    message = getattr(error, "message", "") or str(error)
    line, column = place if place[0] else quoted_place(message, text)
    return CheckError(message, text, line, column, source)


def quoted_place(message: str, text: str) -> tuple[int, int]:
    """Line and column (from 1) of the line of a program that a message quotes or names as `space X`; 0, 0 where there is none. Of several
    the longest quote counts, of equally long ones the first in the message: it begins with the instruction that is at fault."""
    best, place = (0, 0), (0, 0)
    for number, row in enumerate(text.splitlines(), 1):
        code = row.split("#")[0].strip()
        head = re.match(r"(?:space|stream|input|output|temp|for) \w+\b", code)
        for quote in (code[:QUOTED], head[0] if head else ""):
            if len(quote) > 6 and quote in message and (found := (len(quote), -message.index(quote))) > best:
                best, place = found, (number, row.index(code) + 1)
    return place


def step_places(text: str) -> Iterator[tuple[int, int]]:
    """Line and column (from 1) of each step of a schedule's text: a name before a parenthesis that nothing encloses."""
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0]
        for at, c in enumerate(code):
            if c == "(" and depth == 0:
                name = code[:at].rstrip()
                yield number, len(name) - len(name.split()[-1] if name.split() else "") + 1
            depth += (c in "([") - (c in ")]")


def blamed_step(trace: Trace, known: Trace, legal: Callable[[Trace], bool]) -> int:
    """The number of the step to point at where a schedule fails only as a whole, `known` being the schedule before it was edited.

    Of the steps that differ, the first whose change alone, taken back, makes the schedule legal; else the first that differs;
    where none does (the func or the machine is another one), the first split.
    """
    steps, before = trace.steps, known.steps
    edited = [n for n in range(len(steps)) if n >= len(before) or steps[n] != before[n]]
    if len(steps) == len(before) and len(edited) > 1:
        cures = (n for n in edited if legal(Trace(_with(steps, n, before[n]))))
        return next(cures, edited[0])
    return edited[0] if edited else next((n for n, s in enumerate(steps) if s.primitive == "split"), 0)


def _with(steps: tuple[Step, ...], number: int, step: Step) -> tuple[Step, ...]:
    return (*steps[:number], step, *steps[number + 1:])
