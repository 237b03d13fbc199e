"""How far a modelled time may be off, as a range: what the numbers of the machine leave open, and what published small kernels took."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aoec.report.fidelity import Small, small_kernels

QUANTILES = (0.05, 0.95)


@dataclass(frozen=True)
class Within:
    """A range of microseconds about a modelled time of `us`: of nine in ten of `machines`, whose numbers vary within their confidence.

    `published`: it was widened to hold what published kernels of such a size took.
    """

    us: float
    low_us: float
    high_us: float
    machines: int
    published: bool = False

    def __str__(self) -> str:
        """Return words such as ±8%, or -5% +160% where the sides differ."""
        down, up = (round(100 * (1 - self.low_us / self.us)), round(100 * (self.high_us / self.us - 1))) if self.us else (0, 0)
        return f"±{max(down, up)}%" if abs(down - up) <= 1 + max(down, up) // 4 else f"{-down:+d}% {up:+d}%"


def range_about(us: float, on_machines: Sequence[float]) -> Within:
    """Return the range of a time that would be so many microseconds on each of the machines; a small kernel's is widened by published
    ones."""
    low, high = (float(x) for x in np.quantile(on_machines, QUANTILES))
    plain = Within(us, min(low, us), max(high, us), len(on_machines))
    return widen(plain, small_kernels())


def widen(plain: Within, known: Small | None) -> Within:
    """Return the range with what published small kernels took, where the kernel is as small as they are."""
    if known is None or plain.us >= known.limit_us:
        return plain
    return Within(plain.us, min(plain.low_us, plain.us * known.least), max(plain.high_us, plain.us * known.most), plain.machines, True)


def sum_of(us: float, parts: Sequence[tuple[float, Within, Sequence[float]]]) -> Within:
    """Return the range of a whole that takes `us`, of parts (how often, its range, its times on the machines).

    What a machine does to one part it does to all: parts are summed machine by machine. Of what published small kernels took besides, the
    median is common to all small parts, and the rest is independent from part to part, so its squares add.
    """
    totals = np.sum([count * np.asarray(times) for count, _, times in parts], axis=0)
    middle = sum(count * w.us for count, w, _ in parts)
    low, high = (float(x) for x in np.quantile(totals, QUANTILES))
    widened, known = [count * w.us for count, w, _ in parts if w.published], small_kernels()
    if widened and known:
        one = float(np.linalg.norm(widened))
        low -= one * max(known.median - known.least, 0.0) - sum(widened) * max(known.median - 1.0, 0.0)
        high += one * max(known.most - known.median, 0.0) + sum(widened) * max(known.median - 1.0, 0.0)
    scale = us / middle if middle else 1.0  # launches that follow each other overlap, and the host takes its own time
    return Within(us, min(low * scale, us), max(high * scale, us), parts[0][1].machines, bool(widened))


def in_words(w: Mapping[str, Any]) -> str:
    """Return a range that was made plain values, as people read it."""
    besides = f"; widened, for {small_kernels()}" if w["published"] else ""
    return f"{w['low_us']:,.2f} to {w['high_us']:,.2f} us, on nine in ten of {w['machines']} machines with varied numbers{besides}"


def legend(machines: int, published: bool) -> list[tuple[str, str]]:
    """Return how to read the ranges."""
    lines = [("within", f"nine in ten of {machines} machines, with numbers varied within their confidence, lie in this range about tuned")]
    return [*lines, ("", f"small kernels: widened, for {small_kernels()}")] if published else lines
