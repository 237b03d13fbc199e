"""A training step under one plan or several, above each other on one time axis, as one self-contained SVG.

Each plan has a lane of compute, a row of marks where gradients are ready, and a lane for each channel. Time in which compute waits is
hatched. Words stand only where they fit, so that none lie on each other. What is thinner than a pixel is drawn together.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import floor
from xml.sax.saxutils import escape

from aoec.base.text import plural
from aoec.ir.training import BucketPlan, StepSpan, StepTimeline, StepTrace
from aoec.report.pictures.panel import nice, places, text
from aoec.report.pictures.step_times import channels, collectives, compute_spans, fold, hidden_share, ready_times, waits
from aoec.report.results.gdat import how_timed

WIDTH, LEFT, RIGHT = 1120, 92, 24  # pixels: of the picture, before and after the lanes
PLOT = WIDTH - LEFT - RIGHT
HEAD, LANE, MARKS, GAP, BELOW = 44, 24, 12, 5, 14  # of a plan's two lines, a lane, the row of marks, between lanes, under a plan
AXIS, KEY = 34, 24
LETTER, BOLD = 6.9, 8.4  # pixels that a letter takes at most, on average over a line
LINKED = 24  # buckets up to which a line leads from a mark to its bucket
THIN = 1.0  # pixels: narrower spans of one kind that follow each other are drawn as one
KINDS = {"forward": "forward", "backward": "backward", "optimiser": "optimiser", "all_reduce": "all-reduce",
         "reduce_scatter": "reduce-scatter", "all_gather": "all-gather"}
COLOURS = {"ink": ("#1c2126", "#e4e7ea"), "muted": ("#59636d", "#9aa5af"), "paper": ("#ffffff", "#15181b"),
           "raised": ("#f5f6f7", "#1e2226"), "line": ("#d9dee2", "#363c42"), "bound": ("#b05a00", "#eda33b"),
           "wait": ("#f0cf9f", "#6b4a1c")}  # by name, light and dark, as those of the page
STYLE = """.step text{font-family:sans-serif;font-size:11px;fill:var(--ink)}.step .t{font-size:13px;font-weight:bold}
.step .s{fill:var(--muted)}.step .i{fill:#fff;pointer-events:none}
.step .v{stroke:var(--paper);stroke-width:4;paint-order:stroke;pointer-events:none}
.step .r{fill:var(--raised)}.step .g{stroke:var(--line);fill:none}.step .e{stroke:var(--ink);stroke-width:1.5}
.step .k{stroke:var(--ink);stroke-width:1}.step .c{stroke:var(--muted);stroke-width:.8;fill:none;opacity:.8}
.step .d{stroke:var(--bound);stroke-width:2;fill:none}.step .dw{fill:var(--bound);font-weight:bold}.step .paper{fill:var(--paper)}
.step .forward{fill:#46739c}.step .backward{fill:#1f4e79}.step .optimiser{fill:#6b4a99}.step .odd{opacity:.8}
.step .all_reduce,.step .reduce_scatter{fill:#a83c26}.step .all_gather{fill:#80610a}
.step .w{fill:url(#step-wait);stroke:var(--wait)}.step .h{fill:var(--wait)}.step .hp{fill:var(--paper)}"""
PATTERN = ('<defs><pattern id="step-wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
           '<rect class="hp" width="6" height="6"/><rect class="h" width="3" height="6"/></pattern></defs>')


@dataclass(frozen=True)
class Step:
    """A plan as it is drawn: its name in words, and the step that it gives."""

    title: str
    plan: BucketPlan
    timeline: StepTimeline


def picture(trace: StepTrace, steps: Sequence[Step], alone: bool = True) -> str:
    """Return the text of the SVG; the last of the steps is compared with the first. `alone`: as a file with colours of its own, light or
    dark as the reader has it; else as a part of a page, which has STYLE and the colours."""
    panels = Panels(trace, steps)
    drawn = panels.draw()
    size = f'width="{WIDTH}" height="{panels.height:.0f}" viewBox="0 0 {WIDTH} {panels.height:.0f}"'
    words = escape(_clean("; ".join(f"{s.title}: {figures(trace, s)}" for s in steps)))
    paper = f'<rect class="paper" width="{WIDTH}" height="{panels.height:.0f}"/>' if alone else ""
    first = [f'<svg xmlns="http://www.w3.org/2000/svg" class="step" {size} role="img"><title>{words}</title>',
             f"<style>{_variables()}{STYLE}</style>" if alone else "", PATTERN, paper]
    return "\n".join(x for x in [*first, *drawn, "</svg>"] if x) + "\n"


def _variables() -> str:
    light, dark = ("".join(f"--{name}:{both[i]};" for name, both in COLOURS.items()) for i in (0, 1))
    return f".step{{{light}}}\n@media (prefers-color-scheme:dark){{.step{{{dark}}}}}\n"


def milliseconds(us: float) -> str:
    """Return a time in ms, to four digits from 1 ms on, else to a tenth of a µs."""
    return f"{us / 1000:,.{2 if us >= 10_000 else 3 if us >= 1000 else 4}f}"


def figures(trace: StepTrace, step: Step) -> str:
    """Return the result of a plan in a line."""
    hidden = hidden_share(step.timeline)
    exposed = step.timeline.exposed_us
    share = exposed / step.timeline.step_us if step.timeline.step_us > 0 else 0.0
    so = "" if hidden is None else f"; {hidden:.0%} of the communication hidden"
    return (f"step {milliseconds(step.timeline.step_us)} ms; {milliseconds(exposed)} ms of it ({share:.1%}) for communication{so}; "
            f"{how_timed(trace.source)}")


class Panels:
    """The plans below each other, as many pixels high as they need."""

    def __init__(self, trace: StepTrace, steps: Sequence[Step]) -> None:
        self.trace, self.steps = trace, [replace(s, timeline=fold(s.timeline)) for s in steps]
        self.until = max(1e-3, *(s.timeline.step_us for s in steps))
        self.scale = PLOT / self.until
        self.tops, y = [], 8.0
        for s in self.steps:
            self.tops.append(y)
            y += HEAD + LANE + GAP + MARKS + GAP + len(channels(s.timeline)) * (LANE + GAP) + BELOW
        self.difference = y if len(steps) > 1 else None
        self.axis = y + (30 if len(steps) > 1 else 0)
        self.height = self.axis + AXIS + KEY

    def x(self, us: float) -> float:
        """Return pixels of a time, kept on the axis."""
        return LEFT + min(max(us, 0.0), self.until) * self.scale

    def draw(self) -> list[str]:
        """Return the elements of the picture. The axis comes first, so that it lies below the others."""
        out = [*self._axis()]
        for top, step in zip(self.tops, self.steps):
            out += self._panel(top, step)
        return [*out, *self._saving(), *self._key()]

    # ---- the axis

    def _axis(self) -> Iterator[str]:
        """Draw round numbers of ms, and lines through the lanes of all plans."""
        step = nice(self.until / 1000 / 10)
        feet = [*self.tops[1:], self.difference or self.axis]
        for i in range(floor(self.until / 1000 / step + 1e-9) + 1):
            x = self.x(i * step * 1000)
            lines = "".join(f"M{x:.1f},{top + HEAD - 4:.1f} V{foot - BELOW + 4:.1f} " for top, foot in zip(self.tops, feet))
            yield f'<path class="g" d="{lines}M{x:.1f},{self.axis - 4:.1f} V{self.axis:.1f}"/>'
            words = f"{i * step:,.{places(step)}f}"
            wide = len(words) * LETTER / 2
            if x - wide > LEFT - 40 and x + wide < WIDTH:
                yield text(x, self.axis + 14, words, "s", "middle")
        yield text(LEFT - 48, self.axis + 14, "ms", "s", "end")

    # ---- a plan

    def _panel(self, top: float, step: Step) -> Iterator[str]:
        """Yield the lines and lanes of a plan."""
        yield text(12, top + 15, _fit(step.title, (WIDTH - 24) / BOLD), "t")
        yield text(12, top + 33, _fit(figures(self.trace, step), (WIDTH - 24) / LETTER), "s")
        compute = top + HEAD
        marks = compute + LANE + GAP
        yield self._ground(compute, LANE, "compute")
        for begin, end in waits(step.timeline):
            yield self._rectangle("w", compute, begin, end, f"compute waits {milliseconds(end - begin)} ms for communication")
            yield from self._words("v", compute, begin, end, (f"waits {milliseconds(end - begin)} ms", "waits"))
        yield from self._lane(compute, compute_spans(step.timeline), False)
        ready = ready_times(self.trace, step.timeline)
        yield self._ground(marks, MARKS, "ready")
        yield from self._marks(marks, ready)
        sent = [[s for s in collectives(step.timeline) if s.lane == lane] for lane in channels(step.timeline)]
        rows = [(marks + MARKS + GAP + i * (LANE + GAP), mine) for i, mine in enumerate(sent)]
        yield from (self._ground(y, LANE, mine[0].lane) for y, mine in rows)
        if len(step.plan.ends) <= LINKED:
            for y, mine in rows:  # below the buckets of all channels
                yield from self._links(marks + MARKS, y, mine, step.plan, ready)
        for y, mine in rows:
            yield from self._lane(y, mine, True)
        end, foot = self.x(step.timeline.step_us), marks + MARKS + GAP + len(rows) * (LANE + GAP)
        yield (f'<line class="e" x1="{end:.1f}" x2="{end:.1f}" y1="{compute - 6:.1f}" y2="{foot:.1f}">'
               f"<title>{escape(f'the step ends: {milliseconds(step.timeline.step_us)} ms')}</title></line>")

    def _ground(self, y: float, height: float, name: str) -> str:
        """Return an empty lane and its name."""
        return (f'<rect class="r" x="{LEFT}" y="{y:.1f}" width="{PLOT}" height="{height}"/>'
                + text(LEFT - 8, y + height / 2 + 4, name, "", "end"))

    def _lane(self, y: float, spans: Sequence[StepSpan], buckets: bool) -> Iterator[str]:
        """Yield its spans, neighbours in two shades where they are buckets; thin ones together."""
        thin: list[StepSpan] = []
        for number, s in enumerate(spans):
            if thin and (s.kind != thin[-1].kind or self._width(s) >= THIN or self.x(s.begin_us) - self.x(thin[-1].end_us) >= THIN):
                yield self._together(y, thin)
                thin = []
            if self._width(s) < THIN:
                thin.append(s)
                continue
            kind = f"{s.kind} odd" if buckets and number % 2 else s.kind
            yield self._rectangle(kind, y, s.begin_us, s.end_us, f"{s.name}: {KINDS.get(s.kind, s.kind)}, {self._span_words(s)}")
            yield from self._words("i", y, s.begin_us, s.end_us, self._names(s))
        if thin:
            yield self._together(y, thin)

    def _width(self, s: StepSpan) -> float:
        return self.x(s.end_us) - self.x(s.begin_us)

    def _together(self, y: float, spans: Sequence[StepSpan]) -> str:
        """Draw thin spans of one kind as one rectangle."""
        if len(spans) == 1:
            s = spans[0]
            return self._rectangle(s.kind, y, s.begin_us, s.end_us, f"{s.name}: {KINDS.get(s.kind, s.kind)}, {self._span_words(s)}")
        words = f"{spans[0].name} to {spans[-1].name}: {plural(len(spans), KINDS.get(spans[0].kind, spans[0].kind))}"
        return self._rectangle(spans[0].kind, y, spans[0].begin_us, spans[-1].end_us, words)

    def _span_words(self, s: StepSpan) -> str:
        return f"{milliseconds(s.end_us - s.begin_us)} ms from {milliseconds(s.begin_us)}"

    def _names(self, s: StepSpan) -> tuple[str, ...]:
        """Return the words of a span, the longest first."""
        word = KINDS.get(s.kind, s.kind)
        if s.name in ("", s.kind, word):
            return (f"{word} {milliseconds(s.end_us - s.begin_us)} ms", word)
        return (f"{s.name}: {word} {milliseconds(s.end_us - s.begin_us)} ms", s.name, s.name.rpartition(" ")[2])

    def _rectangle(self, kind: str, y: float, begin: float, end: float, words: str) -> str:
        x = self.x(begin)
        width = max(self.x(end) - x, 0.5)
        return (f'<rect class="{kind}" x="{x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{LANE}">'
                f"<title>{escape(_clean(words))}</title></rect>")

    def _words(self, kind: str, y: float, begin: float, end: float, choices: Iterable[str]) -> Iterator[str]:
        """Yield the first of the words that fit between two times; nothing where none do."""
        left, right = self.x(begin), self.x(end)
        for words in choices:
            if words and len(words) * LETTER + 6 <= right - left:
                yield text((left + right) / 2, y + LANE / 2 + 4, words, kind, "middle")
                return

    def _marks(self, y: float, ready: Sequence[float]) -> Iterator[str]:
        """Yield a mark where gradients are ready, at most one a pixel."""
        at: dict[int, list[int]] = {}
        for number, us in enumerate(ready):
            at.setdefault(floor(self.x(us)), []).append(number)
        for pixel, numbers in at.items():
            names = self.trace.gradients[numbers[0]].name
            words = names if len(numbers) == 1 else f"{len(numbers)} gradients from {names}"
            x, when = self.x(ready[numbers[0]]) if len(numbers) == 1 else pixel + 0.5, milliseconds(ready[numbers[-1]])
            size = sum(self.trace.gradients[n].size for n in numbers)
            yield (f'<line class="k" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y + MARKS:.1f}">'
                   f"<title>{escape(_clean(f'{words}: {size / 1e6:,.3f} MB, ready at {when} ms'))}</title></line>")

    def _links(self, above: float, below: float, spans: Sequence[StepSpan], plan: BucketPlan, ready: Sequence[float]) -> Iterator[str]:
        """Yield a line from the mark of each bucket's last gradient to the begin of the bucket, where that is in the same step."""
        for s in spans:
            number = bucket_of(s)
            if s.kind != "all_gather" and number is not None and number < len(plan.ends):
                a, b = self.x(ready[plan.ends[number]]), self.x(s.begin_us)
                if b >= a - THIN:
                    yield f'<path class="c" d="M{a:.1f},{above:.1f} L{b:.1f},{below:.1f}"/>'

    # ---- below the plans

    def _saving(self) -> Iterator[str]:
        """Yield how much shorter the last plan's step is than the first one's."""
        if self.difference is None:
            return
        first, last = (s.timeline.step_us for s in (self.steps[0], self.steps[-1]))
        saved, y = first - last, self.difference + 6
        words = (f"step {'-' if saved >= 0 else '+'}{milliseconds(abs(saved))} ms ({-saved / first if first > 0 else 0.0:+.1%})"
                 if milliseconds(abs(saved)).strip("0.,") else "both steps take the same time")
        a, b = sorted((self.x(first), self.x(last)))
        if b - a >= 0.5:
            yield f'<path class="d" d="M{a:.1f},{y - 4} V{y + 4} M{a:.1f},{y} H{b:.1f} M{b:.1f},{y - 4} V{y + 4}"/>'
            for x in (a, b):
                yield f'<line class="g" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{self.axis:.1f}"/>'
        wide = len(words) * BOLD
        middle = min(max((a + b) / 2, LEFT + wide / 2), WIDTH - 6 - wide / 2)
        yield text(middle, y + 18, words, "dw", "middle")

    def _key(self) -> Iterator[str]:
        """Yield what the colours are."""
        used = {s.kind for step in self.steps for s in step.timeline.spans}
        entries = [(kind, words) for kind, words in KINDS.items() if kind in used]
        entries += [("w", "compute waits")] if any(waits(s.timeline) for s in self.steps) else []
        x, y = float(LEFT), self.axis + AXIS
        for kind, words in entries:
            yield f'<rect class="{kind}" x="{x:.1f}" y="{y - 9:.1f}" width="12" height="11"/>'
            yield text(x + 17, y, words, "s")
            x += 34 + LETTER * len(words)
        yield f'<line class="k" x1="{x + 4:.1f}" x2="{x + 4:.1f}" y1="{y - 9:.1f}" y2="{y + 2:.1f}"/>'
        yield text(x + 12, y, "a gradient is ready", "s")


def bucket_of(span: StepSpan) -> int | None:
    """Return the number of the bucket that a collective sends, by its name's last word."""
    last = span.name.rpartition(" ")[2]
    return int(last) if last.isascii() and last.isdigit() else None


def _clean(words: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in words)


def _fit(words: str, most: float) -> str:
    return words if len(words) <= most else words[:max(int(most) - 1, 0)] + "…"
