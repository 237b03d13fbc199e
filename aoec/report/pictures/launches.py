"""A picture of a model as it was imported and as it is launched.

Each launch has a row. Its operators are on the left. A bar on the right is its time. Rows stand in the order in which the launches run.
A result for the next launch has no arrow. An arc on the right shows a result that a later launch reads.
Where there are very many launches, those that take the most time have rows of their own. Each run of the others is one row.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from aoec.base.text import clip_name

MOST_ROWS = 300
ROW, TOP = 22, 30  # pixels: of a row, above the first
LEFT, BARS, BAR, ARCS = 372, 392, 150, 780  # pixels: where operators end, where bars begin, how long the longest is, where arcs begin
LANE, MOST_LANES = 8, 22  # pixels between arcs, and how many there are side by side
LETTERS, NAMED = 52, 28  # of a row's words, on the left and on the right


@dataclass(frozen=True)
class Launch:
    """A launch in its place: `imported` are the operators of the model that it does, `added` those that lowering put in, both as (name,
    word). `us`: modelled, of all slices. `reads`: the names of launches that make what it reads."""

    name: str
    kind: str
    imported: tuple[tuple[str, str], ...]
    added: tuple[tuple[str, str], ...]
    us: float
    slices: int = 1
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Structure:
    """A model's launches, and beside them the operators of the imported model that no launch does under its own name, by word: constants
    that were calculated, moves that became views, operators that others took up."""

    launches: tuple[Launch, ...]
    elsewhere: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Row:
    """A launch, or several that follow each other."""

    launches: tuple[Launch, ...]

    @property
    def us(self) -> float:
        """Return the modelled time of the launches in µs."""
        return sum(x.us for x in self.launches)

    @property
    def kind(self) -> str:
        """Return the kind of a launch, or "several"."""
        return self.launches[0].kind if len(self.launches) == 1 else "several"


def rows(launches: Sequence[Launch], most: int = MOST_ROWS) -> list[Row]:
    """Return a row for each of the launches that take the most, and one for each run of others."""
    heavy = {x.name for x in sorted(launches, key=lambda x: -x.us)[:max(1, most // 2)]} if len(launches) > most else None
    out: list[Row] = []
    for x in launches:
        light = heavy is not None and x.name not in heavy
        if light and out and (len(out[-1].launches) > 1 or out[-1].launches[0].name not in (heavy or ())):
            out[-1] = Row((*out[-1].launches, x))
        else:
            out.append(Row((x,)))
    return out


def picture(structure: Structure, most: int = MOST_ROWS) -> str:
    """Return the drawing as SVG, whose colours the page has; "" of a model without launches."""
    listed = rows(structure.launches, most)
    if not listed:
        return ""
    arcs, lanes = arc_lanes(listed)
    width, height = ARCS + (lanes + 1) * LANE + 10, TOP + ROW * len(listed) + 8
    longest = max(r.us for r in listed) or 1.0
    out = [f'<svg class="launches" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
           f'aria-label="operators as imported, and launches in order">',
           f'<text class="head" x="{LEFT}" y="18" text-anchor="end">operators as imported</text>',
           f'<text class="head" x="{BARS}" y="18">launches in order, µs modelled</text>']
    for i, r in enumerate(listed):
        out += _row(r, TOP + ROW * i, longest)
    out += [_arc(a, b, lane) for a, b, lane in arcs]
    return "\n".join([*out, "</svg>"])


def _row(r: Row, y: int, longest: float) -> Iterator[str]:
    """Yield the elements of a row whose top is at y."""
    first, middle, length = r.launches[0], y + ROW / 2, max(1.0, BAR * r.us / longest)
    imported, added = ([pair for x in r.launches for pair in getattr(x, field)] for field in ("imported", "added"))
    left = count_words([word for _, word in imported])
    title = escape(clip_name("; ".join(f"{name} ({word})" for name, word in (*imported, *added)), 400))
    named = first.name if len(r.launches) == 1 else f"{len(r.launches):,} launches"
    extra = f" + {count_words([word for _, word in added])}" if added else ""
    sliced = f" in {first.slices} slices" if len(r.launches) == 1 and first.slices > 1 else ""
    yield f'<g class={quoteattr(r.kind)}><title>{title}</title>'
    yield f'<text class="ops" x="{LEFT}" y="{middle + 4:.1f}" text-anchor="end">{escape(clip_name(left, LETTERS))}</text>'
    yield f'<path class="join" d="M{LEFT + 4} {middle:.1f}H{BARS - 4}"/>'
    yield f'<rect x="{BARS}" y="{y + 4}" width="{length:.1f}" height="{ROW - 8}"/>'
    said = clip_name(f"{named}{sliced}{extra}", NAMED)
    yield f'<text x="{BARS + length + 6:.1f}" y="{middle + 4:.1f}">{r.us:,.2f} <tspan class="ops">{escape(said)}</tspan></text></g>'


def count_words(words: Sequence[str]) -> str:
    """Return words in the order in which they come, each once with its number."""
    return ", ".join(f"{word} ×{n}" if n > 1 else word for word, n in Counter(words).items()) or "–"


def arc_lanes(listed: Sequence[Row]) -> tuple[list[tuple[int, int, int]], int]:
    """Return ((row, later row, lane) of each edge that is not from a row to the next, how many lanes they take); in one lane no two arcs
    meet unless they come from one row. Where lanes are too few the last one holds the rest."""
    at = {x.name: i for i, r in enumerate(listed) for x in r.launches}
    edges = sorted({(at[name], i) for i, r in enumerate(listed) for x in r.launches for name in x.reads if name in at and at[name] < i - 1},
                   key=lambda e: (e[1] - e[0], e))
    taken: list[list[tuple[int, int]]] = []
    out = []
    for a, b in edges:
        lane = next((i for i, own in enumerate(taken) if all(b <= c or d <= a or c == a for c, d in own)), len(taken))
        lane = min(lane, MOST_LANES - 1)
        if lane == len(taken):
            taken.append([])
        taken[lane].append((a, b))
        out.append((a, b, lane))
    return out, len(taken)


def _arc(a: int, b: int, lane: int) -> str:
    """Return an arc from a row to a later one, with its head."""
    x, y0, y1 = ARCS + (lane + 1) * LANE, TOP + ROW * a + ROW / 2 + 3, TOP + ROW * b + ROW / 2 - 3
    head = f"M{ARCS + 4} {y1 - 3:.1f}L{ARCS} {y1:.1f}L{ARCS + 4} {y1 + 3:.1f}"
    return f'<path class="arc" d="M{ARCS} {y0:.1f}H{x}V{y1:.1f}H{ARCS}{head}"/>'
