"""Small drawings of the report page as SVG without colours of their own: classes that page.css gives a colour, light or dark."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Any
from xml.sax.saxutils import escape

from aoec.base.text import plural
from aoec.report.pictures.chart import Scale, marks, path, round_down, round_up
from aoec.report.pictures.panel import text
from aoec.report.pictures.timeline import Core, Slice

WIDTH, HEIGHT = 420, 262  # pixels of a plot; what a phone shows without making its words too small
LEFT, TOP, RIGHT, BOTTOM = 52, 26, 14, 40
STRIP = 720  # pixels of a timeline's lane
LEVELS = 4  # of how much of a pixel is work


@dataclass(frozen=True)
class Point:
    """A schedule: modelled µs with launch; bytes that cross HBM, and all that cross GM."""

    name: str
    us: float
    hbm_bytes: float
    gm_bytes: float


@dataclass(frozen=True)
class Roofline:
    """Rates are a µs, of all cores; `operations`: of one run of the group."""

    operations: int
    unit: str
    peak_per_us: float
    hbm_bytes_per_us: float
    l2_bytes_per_us: float
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Axes:
    """A plot's two scales, and what stands beside them."""

    across: Scale
    up: Scale
    x: str
    y: str

    def frame(self) -> Iterator[str]:
        """Draw grid lines, numbers and names."""
        for v in thin_out(marks(self.up), 7):
            y = self.up.at(v)
            yield f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
            yield text(LEFT - 6, y + 4, short(v), "n", "end")
        for v in thin_out(marks(self.across), 6):
            x = self.across.at(v)
            yield f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
            yield text(x, HEIGHT - BOTTOM + 15, short(v), "n", "middle")
        yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, self.x, "n", "middle")
        yield text(4, 11, self.y, "n")


def thin_out(values: Sequence[float], most: int) -> Sequence[float]:
    """Return at most so many of the values, evenly."""
    return values[::ceil(len(values) / most)] if values else values


def short(v: float) -> str:
    """Return a number in few characters: 1.5, 200, 30k, 2M."""
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(v) >= unit:
            return f"{v / (1e3 if name == 'k' else unit):.4g}{name}"
    return f"{v:.4g}"


def plot(axes: Axes, parts: Sequence[str], words: str) -> str:
    """Return the SVG of a plot; `words` say it to those who do not see it."""
    inside = "".join([*axes.frame(), *parts])
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(words)}</title>{inside}</svg>'


# ---------------------------------------------------------------- the search

def convergence(improvements: Sequence[Mapping[str, Any]], trials: int, bound_us: float | None) -> str:
    """Return the best time so far over legal trials, as steps; the bound where it is near enough to be seen."""
    times = [i["us"] for i in improvements]
    last = max(trials, improvements[-1]["trials"], 2)
    low = min(times)
    span = max(max(times) - low, 0.02 * low)
    seen = bound_us is not None and low - bound_us < 2 * span
    least = min(low, bound_us) if seen and bound_us is not None else low
    scale = Scale(least - 0.1 * span, least + max(max(times) - least, span) + 0.1 * span, HEIGHT - BOTTOM, TOP, False)
    axes = Axes(Scale(1, last, LEFT, WIDTH - RIGHT, True), scale, "legal trials (log scale)", "µs, modelled")
    parts = [] if bound_us is None else _level(axes, bound_us, seen)
    corners: list[tuple[float, float]] = []
    for i in improvements:
        x, y = axes.across.at(max(i["trials"], 1)), axes.up.at(i["us"])
        corners += [(x, corners[-1][1]), (x, y)] if corners else [(x, y)]
    corners.append((axes.across.at(last), corners[-1][1]))
    parts.append(f'<path class="curve" d="{path(corners)}"/>')
    parts += [draw_dot(axes.across.at(max(i["trials"], 1)), axes.up.at(i["us"]), "tuned", 2.5,
                   f"trial {i['trials']:,}: {i['us']:,.2f} µs modelled") for i in improvements]
    return plot(axes, parts, f"best time so far: from {times[0]:,.2f} to {low:,.2f} µs, modelled, in {plural(last, 'trial')}")


def _level(axes: Axes, bound_us: float, seen: bool) -> list[str]:
    """Return the bound as a line, or in words where it is too far below to be seen."""
    y = axes.up.at(bound_us) if seen else HEIGHT - BOTTOM
    words = text(LEFT + 4, y - 4, "bound" if seen else f"bound {bound_us:,.2f} µs: below", "n")
    return [words, f'<line class="bound" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>' if seen else ""]


def draw_dot(x: float, y: float, kind: str, radius: float, words: str) -> str:
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escape(words)}</title></circle>'


# ---------------------------------------------------------------- roofs

def roofs(r: Mapping[str, Any]) -> str:
    """Return operations a second over operations a byte, both on log scales: roofs of HBM, of L2 and of the unit; for each schedule a dot
    over the bytes that cross HBM, and a ring over all that cross GM."""
    ops, peak = float(r["operations"]), float(r["peak_per_us"])
    places = [ops / b for p in r["points"] for b in (p["hbm_bytes"], p["gm_bytes"]) if b]
    ridge = [peak / r["hbm_bytes_per_us"], peak / r["l2_bytes_per_us"]]
    reached = [ops / p["us"] for p in r["points"]]
    left, right = round_down(min([*places, *ridge]) / 2), round_up(max([*places, *ridge]) * 2)
    floor_, top = round_down(min([*reached, left * r["hbm_bytes_per_us"]]) / 1.5), round_up(peak * 1.5)
    axes = Axes(Scale(left, right, LEFT, WIDTH - RIGHT, True), Scale(floor_ * 1e6, top * 1e6, HEIGHT - BOTTOM, TOP, True),
                "operations a byte", "operations a second")
    parts = [*_roof(axes, r["hbm_bytes_per_us"], peak, "HBM", "roof"), *_roof(axes, r["l2_bytes_per_us"], peak, "L2", "roof thin")]
    parts.append(text(WIDTH - RIGHT - 2, axes.up.at(peak * 1e6) - 4, f"{r['unit']}: {short(peak * 1e6)}/s", "n", "end"))
    for p in r["points"]:
        parts += _point(axes, p, ops)
    return plot(axes, parts, f"{short(ops)} operations; " + ", ".join(f"{p['name']}: {short(ops / p['us'] * 1e6)} a second, "
                             f"{ops / p['us'] / peak:.0%} of the unit's peak" for p in r["points"]) + "; modelled")


def _roof(axes: Axes, rate: float, peak: float, name: str, kind: str) -> list[str]:
    """Return a slope as far as the unit's peak, and the peak from there on."""
    start = max(axes.across.low, axes.up.low / 1e6 / rate)
    points = [(x, min(x * rate, peak) * 1e6) for x in (start, peak / rate, axes.across.high)]
    pixels = [(axes.across.at(x), axes.up.at(y)) for x, y in points]
    x, y = (pixels[0][0] + pixels[1][0]) / 2, (pixels[0][1] + pixels[1][1]) / 2
    return [f'<path class="{kind}" d="{path(pixels)}"/>', text(x - 6, y - 3, name, "n", "end")]


def _point(axes: Axes, p: Mapping[str, Any], ops: float) -> list[str]:
    """Draw the dot and ring of a schedule, at one height."""
    y, rate = axes.up.at(ops / p["us"] * 1e6), short(ops / p["us"] * 1e6)
    at = [(b, kind, f"{p['name']}: {rate}/s, {short(ops / b)} operations a byte of {what}")
          for b, kind, what in ((p["gm_bytes"], "ring", "all that crosses GM"), (p["hbm_bytes"], "", "HBM")) if b]
    xs = [axes.across.at(ops / b) for b, _, _ in at]
    line = [f'<line class="{p["name"]} tie" x1="{min(xs):.1f}" x2="{max(xs):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'] if xs else []
    return [*line, *(draw_dot(x, y, f"{p['name']} {kind}".strip(), 5 if not kind else 4, words) for x, (_, kind, words) in zip(xs, at))]


# ---------------------------------------------------------------- timelines

@dataclass(frozen=True)
class Strip:
    """A core's run: (lane, SVG) of each lane, which stretches to any width and so holds no words."""

    core: str
    note: str
    lanes: tuple[tuple[str, str], ...]


def strips(cores: Sequence[Core], until: float) -> tuple[Strip, ...]:
    """Return strips of cores on a scale from 0 to `until` cycles. The cause that holds most of a pixel colours it. More work is darker."""
    scale = STRIP / max(until, 1.0)
    return tuple(Strip(c.name, c.note, tuple((lane, _lane(slices, scale)) for lane, slices in c.strip.items() if slices)) for c in cores)


def _lane(slices: Sequence[Slice], scale: float) -> str:
    kinds: dict[str, list[str]] = {}
    for s in slices:
        level = min(ceil(s.facts.get("share", 1.0) * LEVELS), LEVELS)
        kind = f"work w{level}" if s.kind == "run" else s.kind
        x, width = s.start * scale, max((s.end - s.start) * scale, 0.3)
        top, height = (0.35, 0.3) if s.kind == "wait" else (0, 1)
        kinds.setdefault(kind, []).append(f"M{x:.1f} {top}h{width:.1f}v{height}h-{width:.1f}z")
    drawn = "".join(f'<path class="{kind}" d="{"".join(d)}"/>' for kind, d in sorted(kinds.items()))
    return f'<svg class="lane" viewBox="0 0 {STRIP} 1" preserveAspectRatio="none" aria-hidden="true">{drawn}</svg>'


def ticks(until: float, most: int = 6) -> list[float]:
    """Return round values from 0 up to a time, for an axis of words under stretched lanes."""
    step = round_up(until / most) if until > 0 else 1.0
    return [step * i for i in range(floor(until / step + 1e-9) + 1)]

