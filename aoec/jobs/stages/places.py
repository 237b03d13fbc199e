"""Places in a text of refusals that were made after the text was read. A caret is put under them."""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from aoec.base.errors import AoecError, CheckError, UnsupportedError
from aoec.base.text import beginning, quote_line
from aoec.ir.schedule import Step, Trace


def with_place(error: AoecError, text: str, source: str, place: tuple[int, int] = (0, 0)) -> CheckError:
    """Return the refusal with its place in the text: `place`, or the line that it quotes. Other lines that it quotes are numbered."""
    message = getattr(error, "message", "") or str(error)
    if place[0]:
        return CheckError(message, text, *place, source)
    line, column = quoted_place(message, text)
    return CheckError(number_lines(message, text, line), text, line, column, source)


@contextmanager
def blocks_shown(text: str, source: str) -> Iterator[None]:
    """Raise CheckError with the place in the func's text where the code inside refuses a block of the func."""
    try:
        yield
    except UnsupportedError as e:
        found = re.search(rf"^[^#\n]*?(?<!\w)({re.escape(e.at)})[ \t]*:", text, re.MULTILINE) if e.at else None
        if found is None:
            raise
        at = found.start(1)
        raise CheckError(str(e), text, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), source) from e


def shown_definition(error: AoecError, texts: Mapping[str, str], name: str) -> AoecError:
    """Return the refusal of an operator of the user's own with its place in the text of its definition. Return the refusal itself where it
    concerns something else, or has a place.

    `texts`: source -> text. A message names the operator, perhaps the tensor whose statement it concerns, and quotes a part of the text."""
    said = re.search(rf"(?<!\w){re.escape(name)}: (?:(\w+): )?(.*)", str(error))
    for source, text in texts.items():
        head = re.search(rf"^[ \t]*({re.escape(name)})[ \t]*\(", text, re.MULTILINE)
        if said is None or head is None or bool(getattr(error, "line", False)):
            continue
        begin, end = max(text.find("{", head.end()), head.end()), text.find("}", head.end())
        at = statement_place(text, begin, end if end > 0 else len(text), said[1] or "", said[2]) or head.start(1)
        return CheckError(str(error), text, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), source)
    return error


def statement_place(text: str, start: int, end: int, target: str, quote: str) -> int:
    """Return where in a part of a text the longest beginning of a quote is, else the statement that writes a target. Return 0 where neither
    is there."""
    code = [(at, c) for at, c in enumerate(text[start:end], start) if not c.isspace()]
    plain, wanted = "".join(c for _, c in code), close(quote)
    longest = next((n for n in range(min(len(wanted), len(plain)), 3, -1) if wanted[:n] in plain), 0)
    if longest and re.match(r"\w+\[", wanted):
        return code[plain.find(wanted[:longest])][0]
    found = re.compile(rf"(?<!\w)({re.escape(target)})\s*\[[^=]*?\]\s*(?:=|\+=|max=|min=)").search(text, start, end) if target else None
    return found.start(1) if found else 0


def quoted_place(message: str, text: str) -> tuple[int, int]:
    """Return line and column (from 1) of the line of a program that a message quotes or names as `space X`. Return 0, 0 where there is
    none. Of several lines, the one at the beginning of the message counts, then the one with the longest quote, then the first in the
    message."""
    best, place, said = (False, 0, 0), (0, 0), close(message)
    for number, code, row in lines(text):
        head = re.match(r"(?:space|stream|input|output|temp|for) \w+\b", code)
        for quote, where in ((close(beginning(code)), said), (head[0] if head else "", message)):
            if len(quote) > 6 and (at := where.find(quote)) >= 0 and (found := (at == 0, len(quote), -at)) > best:
                best, place = found, (number, row.index(code) + 1)
    return place


def number_lines(message: str, text: str, first: int) -> str:
    """Return the message with line numbers behind the lines that it quotes. The line `first`, or one equal to it, gets no number."""
    numbers: dict[str, list[int]] = {}
    for number, code, _ in lines(text):
        numbers.setdefault(quote_line(code), []).append(number)
    for quote, found in sorted(numbers.items(), key=lambda q: -len(q[0])):
        at = message.find(quote + " ")
        if len(quote) > 6 and "(" in quote and at >= 0 and first not in found:
            end = at + len(quote)
            message = f"{message[:end]} in line {' or '.join(map(str, found))}{message[end:]}"
    return message


def lines(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number from 1, what is not comment, the line) of each line that says something."""
    for number, row in enumerate(text.splitlines(), 1):
        if code := row.split("#")[0].strip():
            yield number, code, row


def close(text: str) -> str:
    """Return the text without its spaces: people set them as they like."""
    return "".join(text.split())


def step_places(text: str) -> Iterator[tuple[int, int]]:
    """Yield line and column (from 1) of each step of a schedule's text: a name before a parenthesis that nothing encloses."""
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("#")[0]
        for at, c in enumerate(code):
            if c == "(" and depth == 0:
                name = code[:at].rstrip()
                yield number, len(name) - len(name.split()[-1] if name.split() else "") + 1
            depth += (c in "([") - (c in ")]")


def blamed_step(trace: Trace, known: Trace, legal: Callable[[Trace], bool]) -> int:
    """Return the number of the step to point at where a schedule fails only as a whole. `known`: the schedule before it was edited.

    It is a step that differs. The first is taken that makes the schedule legal when it alone is undone, else the first that differs. Where
    none differs (the func or the machine is another one), it is the first split.
    """
    steps, before = trace.steps, known.steps
    edited = [n for n in range(len(steps)) if n >= len(before) or steps[n] != before[n]]
    if len(steps) == len(before) and len(edited) > 1:
        cures = (n for n in edited if legal(Trace(_with(steps, n, before[n]))))
        return next(cures, edited[0])
    return edited[0] if edited else next((n for n, s in enumerate(steps) if s.primitive == "split"), 0)


def _with(steps: tuple[Step, ...], number: int, step: Step) -> tuple[Step, ...]:
    return (*steps[:number], step, *steps[number + 1:])
