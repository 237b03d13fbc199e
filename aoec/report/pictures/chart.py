"""Lines of modelled time along a swept variable as one self-contained SVG: no scripts, no outside fonts; hovering shows values."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from aoec.report.pictures.panel import text
from aoec.report.sweep import Line, Sheet, lines

WIDTH, LEFT, TOP, HEIGHT, RIGHT = 900, 80, 70, 420, 30  # pixels: picture, plot's left, top and height, margin
PLOT = WIDTH - LEFT - RIGHT
DECADE = 10.0  # a range that spans as much is drawn on a log scale
COLOURS = ("#33658a", "#c8553d", "#2a9d8f", "#7b4fa3", "#e0a030", "#588157", "#d07fb4", "#666666", "#1d6b62", "#a3542a")
DASHES = ("", "7 3", "2 3", "9 3 2 3")  # one for each round of the colours
MOST_DOTS = 4000  # of all lines: more are not told apart
LABELS = 14  # on an axis
FEW = 60  # points of a line that have room for a mark of full size
STYLE = """text{font-family:sans-serif;font-size:12px;fill:#222}.t{font-size:16px;font-weight:bold}.s{fill:#666}
.g{stroke:#e4e4e4;stroke-width:1}.a{stroke:#444;stroke-width:1;fill:none}.p{fill:none;stroke-width:2}
.b{fill:none;stroke:#999;stroke-dasharray:3 3}"""


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` as pixels from `start` to `stop`, evenly or by their logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, v = (log10(x) if self.log else x for x in (self.low, self.high, value))
        return self.start + (self.stop - self.start) * ((v - low) / (high - low) if high > low else 0.5)


def chart(sheet: Sheet) -> str:
    """Return the text of the SVG."""
    drawn, bounds = lines(sheet)
    xs = sorted({x for line in drawn for x in (*line.best, *line.illegal)})
    times = [t for line in (*drawn, *bounds) for t in line.best.values()] + [t for line in drawn for _, t in line.every]
    times += [line.level for line in drawn if line.level is not None]
    across, up = x_scale(xs), y_scale(times)
    parts = [*grid(xs, across, up, sheet.x), *(p for line in bounds for p in bound(line, across, up))]
    budget = MOST_DOTS // max(len(drawn), 1)
    for i, line in enumerate(drawn):
        parts += curve(line, COLOURS[i % len(COLOURS)], DASHES[i // len(COLOURS) % len(DASHES)], across, up, budget)
    y, legend = key(drawn, bool(bounds), any(line.illegal for line in drawn))
    size = f'width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{STYLE}</style>",
                      f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>', *head(sheet), *parts, *legend, "</svg>"]) + "\n"


def head(sheet: Sheet) -> Iterator[str]:
    """Draw the title, and a line that says what the times are."""
    yield text(LEFT, 28, sheet.title, "t")
    over = [name for name in sheet.swept if name != sheet.x and name not in sheet.apart]
    best = f"; lines: the fastest over {', '.join(over)}, dots: every row" if over else ""
    yield text(LEFT, 48, f"modelled time, {sheet.state}{best}", "s")


# ---------------------------------------------------------------- axes

def x_scale(xs: Sequence[int]) -> Scale:
    low, high = (min(xs), max(xs)) if xs else (0, 1)
    return Scale(low, high, LEFT + 12, LEFT + PLOT - 12, low > 0 and high / low >= DECADE)


def y_scale(times: Sequence[float]) -> Scale:
    """Return the scale of times, upwards: from 0, or on a log scale from a round number below the least."""
    low, high = (min(times), max(times)) if times else (0.0, 1.0)
    if low > 0 and high / low >= DECADE:
        return Scale(round_down(low), round_up(high), TOP + HEIGHT, TOP, True)
    return Scale(0.0, high * 1.08 or 1.0, TOP + HEIGHT, TOP, False)


def round_down(value: float) -> float:
    """Return the largest of 1, 2, 5 times a power of ten that is not above."""
    unit = 10.0 ** floor(log10(value))
    return max(m * unit for m in (1, 2, 5) if m * unit <= value * (1 + 1e-9))


def round_up(value: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is not below."""
    unit = 10.0 ** floor(log10(value))
    return min(m * unit for m in (1, 2, 5, 10) if m * unit >= value * (1 - 1e-9))


def marks(scale: Scale) -> list[float]:
    """Return round values along a scale."""
    if scale.log:
        decades = range(floor(log10(scale.low)), ceil(log10(scale.high)) + 1)
        factors = (1, 2, 5) if len(decades) <= 5 else (1,)
        found = [m * 10.0**d for d in decades for m in factors]
    else:
        step = round_up((scale.high - scale.low) / 8 or 1.0)
        found = [step * i for i in range(ceil(scale.low / step), floor(scale.high / step) + 1)]
    return [v for v in found if scale.low * (1 - 1e-9) <= v <= scale.high * (1 + 1e-9)]


def grid(xs: Sequence[int], across: Scale, up: Scale, name: str) -> Iterator[str]:
    """Draw grid lines with their values, the frame, and the names of both axes."""
    for v in marks(up):
        y = up.at(v)
        yield f'<line class="g" x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + PLOT}" y2="{y:.1f}"/>'
        yield text(LEFT - 6, y + 4, f"{v:,.10g}", anchor="end")
    for v in xs if len(xs) <= LABELS else marks(across):
        x = across.at(v)
        yield f'<line class="g" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + HEIGHT}"/>'
        yield text(x, TOP + HEIGHT + 18, f"{v:.10g}", anchor="middle")
    yield f'<rect class="a" x="{LEFT}" y="{TOP}" width="{PLOT}" height="{HEIGHT}"/>'
    yield text(LEFT + PLOT / 2, TOP + HEIGHT + 40, name + (" (log scale)" if across.log else ""), anchor="middle")
    middle, words = TOP + HEIGHT / 2, "µs, modelled" + (" (log scale)" if up.log else "")
    yield f'<g transform="rotate(-90 20 {middle})">{text(20, middle, words, anchor="middle")}</g>'


# ---------------------------------------------------------------- lines

def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the data of a path through pixels."""
    return " ".join(f"{'L' if i else 'M'}{x:.1f},{y:.1f}" for i, (x, y) in enumerate(points))


def curve(line: Line, colour: str, dash: str, across: Scale, up: Scale, dots: int) -> Iterator[str]:
    """Yield a line through its best times, with every row as a dot; a cross at the bottom where it has none."""
    how = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
    if line.level is not None:
        y = up.at(line.level)
        words = escape(f"{line.label}: {line.level:,.2f} µs modelled")
        yield f'<path class="p" {how} d="M{LEFT},{y:.1f} L{LEFT + PLOT},{y:.1f}"><title>{words}</title></path>'
    for run in runs(line):
        yield f'<path class="p" {how} d="{path([(across.at(x), up.at(line.best[x])) for x in run])}"/>'
    step = max(1, ceil(len(line.every) / max(dots, 1)))
    for x, us in line.every[::step]:
        if us != line.best[x]:
            yield f'<circle cx="{across.at(x):.1f}" cy="{up.at(us):.1f}" r="1.8" fill="{colour}" opacity=".35"/>'
    radius = 4 if len(line.best) <= FEW else 1.5
    for x, us in line.best.items():
        yield (f'<circle cx="{across.at(x):.1f}" cy="{up.at(us):.1f}" r="{radius}" fill="{colour}">'
               f"<title>{escape(f'{line.label}, {x}: {us:,.2f} µs modelled')}</title></circle>")
    for x, why in line.illegal.items():
        if x >= 0:
            yield cross(across.at(x), colour, f"{line.label}, {x}: illegal: {why}")


def runs(line: Line) -> list[list[int]]:
    """Return the x of a line in order, cut where one between two is illegal: no line goes through what cannot be."""
    out: list[list[int]] = [[]]
    for x in sorted({*line.best, *line.illegal}):
        if x in line.illegal:
            out.append([])
        else:
            out[-1].append(x)
    return [run for run in out if run]


def cross(x: float, colour: str, words: str) -> str:
    """Return a small cross on the lower edge."""
    y = TOP + HEIGHT - 7
    d = f"M{x - 4:.1f},{y - 4} L{x + 4:.1f},{y + 4} M{x - 4:.1f},{y + 4} L{x + 4:.1f},{y - 4}"
    return f'<path class="p" stroke="{colour}" d="{d}"><title>{escape(words)}</title></path>'


def bound(line: Line, across: Scale, up: Scale) -> Iterator[str]:
    """Yield a thin dashed line at the lower bounds."""
    points = [(across.at(x), up.at(us)) for x, us in sorted(line.best.items())]
    yield f'<path class="b" d="{path(points)}"><title>{escape(line.label)}</title></path>'


def key(drawn: Sequence[Line], bounds: bool, crosses: bool) -> tuple[int, list[str]]:
    """Return (height of the picture, what the lines are)."""
    x, y, out = float(LEFT), TOP + HEIGHT + 68, []
    entries = [(f'class="p" stroke="{COLOURS[i % len(COLOURS)]}" stroke-dasharray="{DASHES[i // len(COLOURS) % len(DASHES)]}"', line.label)
               for i, line in enumerate(drawn)]
    entries += [('class="b"', "lower bound of any schedule")] if bounds else []
    entries += [('class="p" stroke="none"', "×: illegal")] if crosses else []
    for how, words in entries:
        width = 40 + 7.0 * len(words)
        if x + width > WIDTH - RIGHT and x > LEFT:
            x, y = float(LEFT), y + 20
        out += [f'<path {how} d="M{x:.1f},{y - 4} L{x + 24:.1f},{y - 4}"/>', text(x + 30, y, words)]
        x += width
    return y + 24, out
