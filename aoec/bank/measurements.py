"""Measured times: the times that a device took for operators. They are kept beside the records, whose times are modelled. Neither kind
ever replaces the other.

A measured time is that of one operator of a profile (of so many calls of equal shapes). Its name is the file's hash and the operator's
first line there. So each is kept once, even if a file is read twice or banks are merged in any order.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.bank.record import TEXT_LIMIT
from aoec.bank.rows import Kind, Rows, any_of, block, hex_digits

WHEN = ("", "before", "after")  # of what was delivered; "" of a profile alone


@dataclass(frozen=True, order=True)
class Measured:
    """`target`: the chip; `func_key`: of the func that does the same, "" where none is known here; `trace`: the schedule that is taken to
    have run, "" of the vendor's own, which is not known; `work`: the operator and its sizes in words. `time_ns`: the median of its
    `calls`; `cores`: 0 where the file does not say. `source`: the file's name, `digest` the first 16 hex digits of its sha256, `line` the
    first that it is in."""

    target: str
    digest: str
    line: int
    func_key: str
    trace: str
    work: str
    op_type: str
    op_name: str
    when: str
    time_ns: int
    least_ns: int
    most_ns: int
    calls: int
    cores: int
    source: str
    created: str = ""

    @property
    def us(self) -> float:
        return self.time_ns / 1e3


KEY = ("target", "digest", "line")


class Measurements(Rows[Measured]):
    """The measured times in a bank's file."""

    def list(self, target: str | None = None, func_key: str = "") -> tuple[Measured, ...]:
        """Return measured times, sorted. `target` selects by name, `func_key` by the beginning of the key. A bank of an older aoec has
        none."""
        return self.of(target, func_key=func_key)


def _order(m: Measured) -> tuple[object, ...]:
    """Return which of two of one key is kept: one that knows its func and schedule, then any, always the same. When it was read is no
    matter."""
    return bool(m.func_key), bool(m.trace), replace(m, created="")


def _fault(m: Measured) -> str:
    """Return why the times of one cannot be; "" where they can."""
    good = 0 < m.least_ns <= m.time_ns <= m.most_ns and m.calls
    return "" if good else f"lies between its least and its most: {m.least_ns}, {m.time_ns}, {m.most_ns}"


def _good_key(text: str) -> bool:
    return not text or hex_digits(64)(text)


MEASURED = Kind(Measured, KEY, "measured", "measured", 1, "a measured time",
                {"digest": hex_digits(16), "func_key": _good_key, "when": any_of(WHEN), "trace": block(TEXT_LIMIT)}, {}, _fault,
                lambda a, b: max(a, b, key=_order))
