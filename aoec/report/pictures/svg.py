"""A timeline as one self-contained SVG: summary bars, the whole run as a strip, and windows in which single instructions show.

No scripts, no outside fonts or styles; hovering over anything shows its words. Slices thinner than a pixel that follow each
other are drawn as one, ever more coarsely until the text is below SIZE_LIMIT.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from xml.sax.saxutils import escape

from aoec.base.text import plural
from aoec.report.pictures.panel import AXIS, LANE, LEFT, WIDTH, Colours, Panel, text
from aoec.report.pictures.timeline import LANES, Core, Timeline
from aoec.report.reasons import HEADS, KINDS, percent, state_words

SIZE_LIMIT = 1_900_000  # characters; viewers and mail stay quick below two megabytes
BAR = {"busy": "#4c78a8", "memory": "#e0a030", "issue": "#9d9da1", "queue": "#c9bcdc", "flags": "#e8c4c4", "cross": "#c98bb9",
       "head": "#c5d5c5", "idle": "#f4f4f4"}
STYLE = """text{font-family:sans-serif;font-size:11px;fill:#222}.t{font-size:16px;font-weight:bold}.v{font-size:13px}.s{fill:#666}
.l{font-size:12px;font-weight:bold}.w{fill:url(#hatch);stroke:#d9b3b3;stroke-width:.5}.m{fill:url(#shared)}.d{opacity:.45}
.b{font-size:10px;fill:#fff;pointer-events:none}.f{font-size:10px;fill:#8a4b4b;font-style:italic;pointer-events:none}
.a{fill:none;stroke:#444;stroke-width:.8;opacity:.55;marker-end:url(#head)}.g{stroke:#ddd;stroke-width:1}.u{stroke:#888;stroke-width:1}.r{fill:#f7f7f7}"""
DEFINITIONS = """<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#fbf1f1"/><rect width="2" height="6" fill="#efd6d6"/></pattern>
<pattern id="shared" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="2" height="4" fill="#fff" opacity=".45"/></pattern>
<marker id="head" markerWidth="6" markerHeight="6" refX="5" refY="3" orient="auto">
<path d="M0,0 L6,3 L0,6 z" fill="#444"/></marker></defs>"""


def picture(timeline: Timeline, limit: int = SIZE_LIMIT) -> str:
    """Return the text of the SVG: of the windows of each core."""
    for pixels in (1.0, 2.0, 4.0, 8.0, 16.0, 64.0):
        drawn = _draw(timeline, pixels)
        if len(drawn) < limit:
            break
    return drawn


def _draw(timeline: Timeline, pixels: float) -> str:
    colours, parts = Colours(timeline.cores), []
    y, head = _head(timeline)
    y, bars = _summary(timeline, y)
    y, legend = _legend(colours, y)
    for core in timeline.cores:
        y, drawn = _core(timeline, core, colours, pixels, y)
        parts += drawn
    size = f'width="{WIDTH}" height="{y + 10:.0f}" viewBox="0 0 {WIDTH} {y + 10:.0f}"'
    first = [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{STYLE}</style>", DEFINITIONS,
             f'<rect width="{WIDTH}" height="{y + 10:.0f}" fill="#fff"/>']
    return "\n".join([*first, *head, *bars, *legend, *parts, "</svg>"]) + "\n"


def _head(timeline: Timeline) -> tuple[float, list[str]]:
    """Title, memory state, verdict and hints."""
    m = timeline.measure
    title = (f"{timeline.program} on {timeline.target}: modelled {m['time_us']:,.2f} µs, of which launch {m['launch_us']:,.2f} µs; "
             f"{m['cycles']:,.0f} cycles at {timeline.clock_mhz:,.0f} MHz on {plural(m['cores'], 'core')}")
    lines = [("s", f"timed from {state_words(m['state'])}"), ("v", m["verdict"]["sentence"]),
             *[("s", f"hint: {a}") for a in m["verdict"]["advice"][:3]]]
    out = [text(14, 26, title, "t")] + [text(14, 48 + 17 * i, words, kind) for i, (kind, words) in enumerate(lines)]
    return 48 + 17 * len(lines), out


def _summary(timeline: Timeline, y: float) -> tuple[float, list[str]]:
    """Return bars of where each pipe's time went, of the core that ends last; their key."""
    accounts = timeline.measure["reasons"]["accounts"]
    kinds = [k for k in KINDS if any(a[k] for a in accounts.values())]
    out, x = [], float(LEFT)
    for kind in kinds:
        words = HEADS.get(kind, kind)
        out.append(f'<rect x="{x}" y="{y - 1}" width="11" height="11" fill="{BAR[kind]}" stroke="#999" stroke-width=".5"/>')
        out.append(text(x + 15, y + 9, words))
        x += 34 + 6.2 * len(words)
    y += 18
    for pipe, account in accounts.items():
        out += _bar(pipe, account, kinds, y)
        y += 16
    return y + 10, out


def _bar(pipe: str, account: Mapping[str, float], kinds: Sequence[str], y: float) -> Iterator[str]:
    stream, _, name = pipe.rpartition(".")
    yield text(LEFT - 8, y + 10, f"{stream} {LANES[name]}".strip(), "l", "end")
    x, scale = float(LEFT), 760 / max(account["total"], 1)
    for kind in kinds:
        width = account[kind] * scale
        if width > 0.05:
            share = f"{HEADS.get(kind, kind)}: {account[kind]:,.0f} cycles, {percent(account[kind] / account['total'])}"
            yield (f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="12" fill="{BAR[kind]}" stroke="#999" stroke-width=".4">'
                   f"<title>{escape(f'{pipe} {share}')}</title></rect>")
        x += width
    held = (account["busy"] + account["memory"]) / max(account["total"], 1)
    yield text(LEFT + 770, y + 10, f"{percent(held)} held")


def _legend(colours: Colours, y: float) -> tuple[float, list[str]]:
    """Return the colours of instructions, and what the hatches mean."""
    entries = [(f'fill="{c}"', words) for words, c in colours.legend()]
    entries += [('class="w"', "waits for a flag"), ('fill="#4c78a8"', "until its result is there"), ('fill="#bbb"', "scalar unit issues"),
                ('fill="#d6cbe3"', "stalls")]
    out, x = [], float(LEFT)
    for how, words in entries:
        if x + 30 + 6.2 * len(words) > WIDTH:
            x, y = float(LEFT), y + 17
        height, top = (3, y + 6) if words.startswith("until") else (11, y - 1)
        out.append(f'<rect x="{x:.0f}" y="{top}" width="14" height="{height}" {how}/>')
        out.append(text(x + 18, y + 9, words))
        x += 34 + 6.2 * len(words)
    return y + 26, out


def _core(timeline: Timeline, core: Core, colours: Colours, pixels: float, y: float) -> tuple[float, list[str]]:
    """Return a core: the strip of all of it, then its windows."""
    shown = core.windows
    out = [text(14, y + 12, f"core {core.name} ({core.process})" + (f"; {core.note}" if core.note else ""), "v")]
    y += 20
    if shown[0].start > 0 or shown[0].stop < core.end:
        strip = Panel(timeline, replace(core, lanes=core.strip), colours, 0.0, max(core.end, 1.0), y, pixels, height=10)
        out += strip.draw(arrows=False, labels=False)
        out += [strip.mark(w.start, w.stop) for w in shown]
        y = strip.bottom + 8
    for w in shown:
        out.append(text(LEFT, y + 10, w.caption, "l"))
        panel = Panel(timeline, core, colours, w.start, w.stop, y + 14, pixels, height=LANE)
        out += panel.draw(arrows=True, labels=True)
        y = panel.bottom + 10
    return y + AXIS / 2, out
