"""One window of a core's timeline as SVG: lanes of rectangles on a scale, waits hatched, flags as arrows, axes of cycles and µs."""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from aoec.base.text import plural
from aoec.report.pictures.timeline import Arrow, Core, Slice, Timeline

WIDTH, LEFT, RIGHT = 1500, 110, 20  # pixels: of the picture, before and after the lanes
LANE, GAP, AXIS = 24, 9, 18  # of a lane, between two, of an axis
ARROWS = 90  # most arrows in one window: the longest waits
LETTER = 5.6  # pixels, about
PALETTES = {"CUBE": ("#c8553d", "#e59a83"), "MTE1": ("#2a9d8f", "#7bc8bd", "#1d6b62"), "MTE2": ("#33658a", "#6fa3cf", "#1f3d54", "#98c1d9"),
            "MTE3": ("#588157", "#a3b18a"), "FIXP": ("#588157", "#a3b18a"), "SCALAR": ("#888888",),
            "VECTOR": ("#7b4fa3", "#b185db", "#d07fb4", "#5a3d8a", "#c9a0dc", "#e0aaff")}


class Colours:
    """A colour for each instruction and buffer of a lane, in the order in which they come."""

    def __init__(self, cores: Sequence[Core]) -> None:
        self.known: dict[tuple[str, str, str], str] = {}
        for core in cores:
            for lane, slices in core.lanes.items():
                for s in (*core.strip.get(lane, ()), *slices):
                    if s.kind == "run" and self.key(lane, s) not in self.known:
                        mine = PALETTES[lane]
                        self.known[self.key(lane, s)] = mine[sum(k[0] == lane for k in self.known) % len(mine)]

    def key(self, lane: str, s: Slice) -> tuple[str, str, str]:
        """Return products are told apart by their instruction, all else by the buffer too."""
        return lane, s.op, "" if lane == "CUBE" else s.label

    def of(self, lane: str, s: Slice) -> str:
        return self.known.get(self.key(lane, s), "#bbb" if s.kind == "issue" else "#d6cbe3")

    def legend(self) -> list[tuple[str, str]]:
        """Return (words, colour) of the first sixteen."""
        return [(f"{op} {label}" if label not in ("", op) else op, c) for (_, op, label), c in list(self.known.items())[:16]]


@dataclass
class Panel:
    """Cycles `start` to `stop` at `top`, lanes `height` pixels high; slices below `pixels` are merged."""

    timeline: Timeline
    core: Core
    colours: Colours
    start: float
    stop: float
    top: float
    pixels: float
    height: float

    def __post_init__(self) -> None:
        self.scale = (WIDTH - LEFT - RIGHT) / max(self.stop - self.start, 1e-9)
        self.pitch = self.height + (GAP if self.height > 12 else 2)
        self.lanes = [lane for lane, slices in self.core.lanes.items() if slices]
        self.first = self.top + AXIS
        self.bottom = self.first + self.pitch * len(self.lanes) + AXIS

    def x(self, cycles: float) -> float:
        """Return pixels of a time, kept inside the panel."""
        return LEFT + (min(max(cycles, self.start), self.stop) - self.start) * self.scale

    def y(self, lane: str) -> float:
        return self.first + self.pitch * self.lanes.index(lane)

    def draw(self, arrows: bool, labels: bool) -> list[str]:
        """Return the elements of the whole panel."""
        out = list(self.axes())
        for lane in self.lanes:
            y = self.y(lane)
            out.append(f'<rect class="r" x="{LEFT}" y="{y:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{self.height}"/>')
            out.append(text(LEFT - 8, y + self.height / 2 + 4, lane, "l" if labels else "s", "end"))
            out += self.lane(lane, labels)
        if arrows:
            out += self.arrows()
        return out

    def mark(self, start: float, stop: float) -> str:
        """Return a frame around a part of the panel."""
        x, width = self.x(start), max(self.x(stop) - self.x(start), 2)
        height = self.pitch * len(self.lanes) + 2
        return (f'<rect x="{x:.1f}" y="{self.first - 2:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" stroke="#d00" '
                'stroke-width="1.2"/>')

    # ---- slices

    def lane(self, lane: str, labels: bool) -> Iterator[str]:
        """Yield its rectangles, those thinner than a pixel merged with their neighbours."""
        thin: list[Slice] = []
        for s in self.visible(self.core.lanes[lane]):
            if (s.end - s.start) * self.scale < self.pixels:
                if thin and (s.start - thin[-1].end) * self.scale >= self.pixels:
                    yield self.merge_slices(lane, thin)
                    thin = []
                thin.append(s)
                continue
            if thin:
                yield self.merge_slices(lane, thin)
                thin = []
            yield from self.slice(lane, s, labels)
        if thin:
            yield self.merge_slices(lane, thin)

    def visible(self, slices: Iterable[Slice]) -> Iterator[Slice]:
        return (s for s in slices if s.end >= self.start and s.start <= self.stop)

    def merge_slices(self, lane: str, slices: Sequence[Slice]) -> str:
        """Draw thin slices as one rectangle, in the colour of the most frequent one."""
        runs = [s for s in slices if s.kind == "run"] or list(slices)
        colour = Counter(self.colours.of(lane, s) for s in runs).most_common(1)[0][0] if runs[0].kind != "wait" else "#efd6d6"
        span = f"{plural(len(slices), 'slice')}, cycles {slices[0].start:,.1f} to {slices[-1].end:,.1f}"
        return self.rectangle(lane, slices[0].start, slices[-1].end, f'fill="{colour}" opacity=".85"', span)

    def rectangle(self, lane: str, start: float, end: float, how: str, words: str, least: float = 0.7) -> str:
        x = self.x(start)
        width = max(self.x(end) - x, least)
        return (f'<rect x="{x:.2f}" y="{self.y(lane):.1f}" width="{width:.2f}" height="{self.height}" {how}>'
                f"<title>{escape(words)}</title></rect>")

    def slice(self, lane: str, s: Slice, labels: bool) -> Iterator[str]:
        """Yield a rectangle with its words; the part due to shared memory striped; a thin bar until the result is there."""
        how, words = 'class="w"' if s.kind == "wait" else f'fill="{self.colours.of(lane, s)}"', describe(self.timeline, s)
        if s.facts.get("share", 1.0) < 1.0:  # of a strip: paler where less of it is work
            how += f' opacity="{0.2 + 0.8 * s.facts["share"]:.2f}"'
        yield self.rectangle(lane, s.start, s.end, how, words)
        if s.kind == "run" and s.end - s.start > s.own and labels:
            yield self.rectangle(lane, s.start + s.own, s.end, 'class="m"', words)
        if s.kind == "run" and s.done > s.end and labels and self.x(s.done) - self.x(s.end) > 0.5:
            x = self.x(s.end)
            yield (f'<rect class="d" x="{x:.2f}" y="{self.y(lane) + self.height - 3:.1f}" width="{self.x(s.done) - x:.2f}" height="3" '
                   f'fill="{self.colours.of(lane, s)}"/>')
        if labels:
            yield from self.label(lane, s)

    def label(self, lane: str, s: Slice) -> Iterator[str]:
        """Yield its short name where there is room."""
        words = s.label.removeprefix("wait for ") if s.kind == "wait" else s.label
        left, right = self.x(s.start), self.x(s.end)
        if right - left > LETTER * len(words) + 4:
            yield text((left + right) / 2, self.y(lane) + self.height / 2 + 3.5, words, "b" if s.kind == "run" else "f", "middle")

    # ---- arrows and axes

    def arrows(self) -> Iterator[str]:
        """Draw the flags that ended a wait in the window, from the lane that set them."""
        inside = [a for a in self.core.arrows if self.start <= a.set_at and a.go_at <= self.stop and a.source in self.lanes]
        step = max(1, -(-len(inside) // ARROWS))
        for a in inside[::step]:
            yield self.arrow(a)

    def arrow(self, a: Arrow) -> str:
        down = self.y(a.target) > self.y(a.source)
        y1, y2 = self.y(a.source) + (self.height if down else 0), self.y(a.target) + (0 if down else self.height)
        if a.source == a.target:
            y2 = y1
        x1, x2, middle = self.x(a.set_at), self.x(a.go_at), (y1 + y2) / 2
        return (f'<path class="a" d="M{x1:.1f},{y1:.1f} C{x1 + 6:.1f},{middle:.1f} {x2 - 6:.1f},{middle:.1f} {x2:.1f},{y2:.1f}">'
                f"<title>{escape(f'flag {a.flag}: set at cycle {a.set_at:,.1f}, goes on at {a.go_at:,.1f}')}</title></path>")

    def axes(self) -> Iterator[str]:
        """Yield lines and numbers: cycles above, microseconds below, each in round numbers."""
        foot = self.first + self.pitch * len(self.lanes)
        for x, words in self.numbers(1.0):
            yield f'<line class="g" x1="{x:.1f}" x2="{x:.1f}" y1="{self.first - 4:.1f}" y2="{foot:.1f}"/>'
            yield text(x, self.first - 6, words, "s", self.anchor(x))
        for x, words in self.numbers(self.timeline.clock_mhz):
            yield f'<line class="u" x1="{x:.1f}" x2="{x:.1f}" y1="{foot - 3:.1f}" y2="{foot:.1f}"/>'
            yield text(x, foot + 10, f"{words} µs", "s", self.anchor(x))
        yield text(LEFT - 34, self.first - 6, "cycles", "s", "end")

    def numbers(self, unit: float) -> Iterator[tuple[float, str]]:
        """Yield (pixels, number) of round multiples of a unit of so many cycles."""
        step = nice((self.stop - self.start) / 12 / unit)
        first, last = ceil(self.start / unit / step), floor(self.stop / unit / step)
        for i in range(first, last + 1):
            yield self.x(i * step * unit), f"{i * step:,.{places(step)}f}"

    def anchor(self, x: float) -> str:
        """Return how a number stands at its place: at the end of the panel it must not leave the picture."""
        return "middle" if x < WIDTH - RIGHT - 30 else "end"


def describe(timeline: Timeline, s: Slice) -> str:
    """Return what hovering shows: name, times, iteration numbers, sizes and bytes."""
    name = f"{s.op} {s.label}" if s.kind == "run" and s.op != s.label else s.label
    lines = [name, f"cycles {s.start:,.1f} to {s.end:,.1f} ({s.end - s.start:,.1f}), {timeline.us(s.start):,.3f} µs"]
    if s.kind == "run":
        shared = s.end - s.start - s.own
        lines[1] += f", done {s.done:,.1f}" + (f", {shared:,.1f} of it because memory is shared" if shared > 0 else "")
    loops = s.facts.get("loops") or {}
    rest = {k: v for k, v in s.facts.items() if k not in ("loops", "for")}
    lines += [" ".join(f"{k}={v}" for k, v in loops.items()), ", ".join(f"{k} {_figure(v)}" for k, v in rest.items())]
    return "\n".join(x for x in lines if x)


def _figure(v: object) -> str:
    return f"{v:,.0f}" if isinstance(v, (int, float)) and (v >= 1 or v == 0) else f"{v:g}" if isinstance(v, float) else str(v)


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return a line of words; control characters of names are left out."""
    clean = escape("".join(c if c.isprintable() else "?" for c in words))
    how = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    return f'<text x="{x:.1f}" y="{y:.1f}"{how}>{clean}</text>'


def nice(step: float) -> float:
    """Return the next of 1, 2, 5 times a power of ten."""
    power: float = 10.0 ** floor(log10(max(step, 1e-6)))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * 0.999)


def places(step: float) -> int:
    """Return decimals of multiples of a step that is 1, 2 or 5 times a power of ten."""
    return max(0, -floor(log10(step * 1.001)))
