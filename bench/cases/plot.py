"""A scatter plot of modelled against measured values, log-log, as a self-contained SVG; a pointer shows each case."""
from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from bench.cases.eligible import apart
from bench.cases.score import Result, score

SIZE, LEFT, RIGHT, BOTTOM, TOP = 640, 96, 44, 60, 40  # of the drawing, in its own units
COLOURS = ("#1f6fb4", "#d95f02", "#1b9e77", "#7b5ea7", "#c0392b", "#8d6e3f", "#3a3a3a", "#e0a800")


def svg(results: Sequence[Result], title: str) -> str:
    """Return the plot of the results that are modelled; filled marks are counted, open ones are not."""
    told = [r for r in results if r.modelled]
    values = [v for r in told for v in (r.case.value, r.modelled or 1.0)] or [1.0, 10.0]
    low, high = floor(log10(min(values))), max(ceil(log10(max(values))), floor(log10(min(values))) + 1)
    at = _Axis(low, high)
    families = sorted({r.case.family for r in told})
    colour = {f: COLOURS[i % len(COLOURS)] for i, f in enumerate(families)}
    box = f"0 0 {SIZE + LEFT + RIGHT} {SIZE + BOTTOM + TOP}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif" font-size="12">',
             f'<rect width="100%" height="100%" fill="white"/><text x="{LEFT}" y="22" font-size="15">{escape(title)}</text>',
             *at.grid(), *at.band(), *[mark(r, at, colour[r.case.family]) for r in told], *legend(families, colour), "</svg>"]
    return "\n".join(parts) + "\n"


class _Axis:
    """Places of values on both axes, which have one range."""

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high

    def x(self, value: float) -> float:
        return LEFT + SIZE * (log10(value) - self.low) / (self.high - self.low)

    def y(self, value: float) -> float:
        return TOP + SIZE - SIZE * (log10(value) - self.low) / (self.high - self.low)

    def grid(self) -> list[str]:
        """Return lines and labels at powers of ten, and the names of the axes."""
        out = []
        for power in range(self.low, self.high + 1):
            x, y, words = self.x(10.0**power), self.y(10.0**power), label(power)
            out.append(f'<path d="M{x:.1f} {TOP}V{TOP + SIZE}M{LEFT} {y:.1f}H{LEFT + SIZE}" stroke="#ddd"/>')
            out.append(f'<text x="{x:.1f}" y="{TOP + SIZE + 16}" text-anchor="middle">{words}</text>')
            out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{words}</text>')
        middle = SIZE / 2
        return [*out, f'<text x="{LEFT + middle}" y="{TOP + SIZE + 38}" text-anchor="middle">measured, µs</text>',
                f'<text x="18" y="{TOP + middle}" text-anchor="middle" transform="rotate(-90 18 {TOP + middle})">modelled, µs</text>']

    def band(self) -> list[str]:
        """Return the lines of equality, and of 10 % to either side."""
        low, high = 10.0**self.low, 10.0**self.high
        lines = []
        for factor, dash in ((1.0, ""), (1.1, "4 4"), (1 / 1.1, "4 4")):
            a, b = max(low, low / factor), min(high, high / factor)
            lines.append(f'<path d="M{self.x(a):.1f} {self.y(a * factor):.1f}L{self.x(b):.1f} {self.y(b * factor):.1f}" '
                         f'stroke="#888" stroke-dasharray="{dash}" fill="none"/>')
        return lines


def mark(r: Result, at: _Axis, colour: str) -> str:
    """Return a circle, with what it is for a pointer."""
    assert r.modelled
    counted = not r.why_not and not apart(r.case)
    fill = colour if counted else "none"
    words = (f"{r.case.id} {r.case.chip} {r.case.operator} {r.case.shape.text} {r.case.tile}: "
             f"modelled {r.modelled:,.2f}, measured {r.case.value:,.2f}")
    return (f'<circle cx="{at.x(r.case.value):.1f}" cy="{at.y(r.modelled):.1f}" r="4" fill="{fill}" fill-opacity="0.7" stroke="{colour}">'
            f"<title>{escape(words)}</title></circle>")


def legend(families: Sequence[str], colour: dict[str, str]) -> list[str]:
    """Return the classes of operators by colour, and what marks and lines mean."""
    out = []
    for i, f in enumerate(families):
        y = TOP + 14 + 18 * i
        out.append(f'<circle cx="{LEFT + 14}" cy="{y}" r="4" fill="{colour[f]}"/><text x="{LEFT + 24}" y="{y + 4}">{escape(f)}</text>')
    y = TOP + 18 + 18 * len(families)
    return [*out, *[f'<text x="{LEFT + 10}" y="{y + 16 * i}" fill="#666">{words}</text>' for i, words in enumerate(
        ("filled: counted; open: looked at, not counted", "lines: equal, and 10 % to either side"))]]


def label(power: int) -> str:
    """Return a power of ten to read."""
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:.{-power}f}"


def title_of(results: Sequence[Result]) -> str:
    """Return a line with the figures of the counted cases."""
    s = score(r for r in results if not r.why_not and not apart(r.case))
    if s.median_error is None:
        return "modelled against measured"
    return f"modelled against measured: {s.rows} counted cases, median error {s.median_error:.1%}" + (
        f", Spearman {s.spearman:.3f}" if s.spearman is not None else "")
