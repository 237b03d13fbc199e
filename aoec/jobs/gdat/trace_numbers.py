"""Numbers and names of a trace, from a file that may come from anybody. Each is checked, and refused with its place."""
from __future__ import annotations

import math
from typing import Any

from aoec.base.errors import CheckError, one_line

NAME_LIMIT = 1_000  # characters of a gradient's name
SIZE_LIMIT = 1 << 50  # bytes of one gradient
TIME_LIMIT_US = 1e12  # eleven days
SHOWN = 40  # characters of a value that is refused


def read_time(said: Any, what: str, where: str, source: str) -> float:
    """Return a time in µs. Raise CheckError where it is no finite number from 0 to TIME_LIMIT_US."""
    number = _number(said)
    if number is None or not 0 <= number <= TIME_LIMIT_US:
        raise CheckError(f"{where}: {what} is {_show(said)}; give µs, from 0 to {TIME_LIMIT_US:g}", source=source)
    return number


def read_size(said: Any, what: str, where: str, source: str) -> int:
    """Return a size in bytes. Raise CheckError where it is no whole number from 1 to SIZE_LIMIT."""
    number = _number(said)
    if number is None or number != int(number) or not 1 <= number <= SIZE_LIMIT:
        raise CheckError(f"{where}: {what} is {_show(said)}; give a whole number of bytes, from 1 to {SIZE_LIMIT:,}", source=source)
    return int(number)


def read_name(said: Any, where: str, source: str) -> str:
    """Return a name, with escapes for what cannot be printed. Raise CheckError where it is none, or too long."""
    if not isinstance(said, str) or not said.strip() or len(said) > NAME_LIMIT:
        raise CheckError(f"{where}: the name is {_show(said)}; give a text of 1 to {NAME_LIMIT:,} characters", source=source)
    return one_line(said.strip())


def check_rising(us: float, before: float, where: str, source: str) -> None:
    """Raise CheckError where a time is before the one in front of it."""
    if us < before:
        raise CheckError(f"{where}: the gradient is ready at {us:g} µs, before the one in front of it at {before:g}: times must not fall",
                         source=source)


def _number(said: Any) -> float | None:
    """Return a finite number. Return None for anything else. A text counts where it is written as a number."""
    if isinstance(said, bool) or not isinstance(said, (int, float, str)):
        return None
    try:
        number = float(said)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _show(said: Any) -> str:
    return one_line(repr(said)[:SHOWN]) if said is not None else "missing"
