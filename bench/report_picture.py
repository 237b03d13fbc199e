"""The picture of a report at the head of the READMEs: the closing sentence, times as bars, launches, and the timeline of one kernel.

    python bench/report_picture.py [--network bert-layer] [--target Ascend910B3] [--budget 40] [--svg docs/report.svg]

A model of the zoo (seeded weights, fp16, batch 1) is compiled with `--tune --report`, and nothing from a bank. The drawing takes what it
shows from that report: from the first lines that the command prints, report.json and index.html. So the same model version gives the same
bytes. Every time is modelled. Values are not checked here (bench/zoo.py does that).
"""
from __future__ import annotations

import argparse
import io
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import wrap
from typing import Any
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnx

from aoec import cli
from aoec.base.text import clip_name
from aoec.report.pictures.panel import text
from bench.networks import NETWORKS
from bench.networks import text as texts

LAYER = "bert-layer"  # BERT-base with its embeddings, one of its twelve layers, and its pooler
MARGIN, WIDTH = 16, 846  # of the picture, in its own units; a README shows it about 800 pixels wide
LABELS, BAR = 92, 560  # where bars and lanes begin; the length of the longest bar
LANES = WIDTH - LABELS - MARGIN  # the length of a lane
LANE, HEIGHT = 16, 12  # from a lane to the next; of a lane
LETTERS, SMALL = 88, 112  # of a line of words, in bold and in small letters
SIDES = ("stock", "default", "tuned", "bound")
KEY = (("work w4", "works"), ("wait", "waits for a flag"), ("issue", "issues"), ("stall", "stalls"))
# names of colours, in light and in dark mode: those of the report page
COLOURS = {
    "ink": ("#1c2126", "#e4e7ea"), "muted": ("#59636d", "#9aa5af"), "paper": ("#ffffff", "#15181b"), "raised": ("#f5f6f7", "#1e2226"),
    "line": ("#d9dee2", "#363c42"), "default": ("#8a949d", "#7f8a94"), "tuned": ("#0067b1", "#57aef0"), "bound": ("#b05a00", "#eda33b"),
    "wait": ("#f0cf9f", "#6b4a1c"), "issue": ("#b9c0c6", "#59626a"), "stall": ("#dfe3e6", "#343a40"), "vector": ("#7b4fa3", "#b185db")}
RULES = """text{font-family:sans-serif;font-size:12px;fill:var(--ink)}.t{font-size:14px;font-weight:bold}.l{font-size:13px;font-weight:bold}
.s,.ops{fill:var(--muted)}.head{font-weight:bold}.paper{fill:var(--paper)}.lane0{fill:var(--raised)}.join,.axis{stroke:var(--line);fill:none}
.arc{stroke:var(--muted);fill:none;opacity:.7}.cube rect,.tuned,.work{fill:var(--tuned)}.vector rect{fill:var(--vector)}
.host rect{fill:var(--bound)}.several rect,.default,.stock{fill:var(--default)}.stock{opacity:.55}
.bound{fill:none;stroke:var(--bound);stroke-width:2}.w1{opacity:.3}.w2{opacity:.5}.w3{opacity:.75}
.wait{fill:var(--wait)}.issue{fill:var(--issue)}.stall{fill:var(--stall)}"""


def make_model(network: str) -> onnx.ModelProto:
    """Return the ONNX model of a network, batch 1, seed 0."""
    model = (texts.bert_base(1, 0, layers=1) if network == LAYER else NETWORKS[network](1, 0)).model
    model.graph.name = network
    return model


def write_report(network: str, target: str, budget: int, folder: Path) -> str:
    """Return what a compile of the network prints; the folder holds its report."""
    path = folder / f"{network}.onnx"
    onnx.save(make_model(network), path)
    said, other = io.StringIO(), io.StringIO()
    words = ["compile", str(path), "--tune", "--budget", str(budget), "--target", target, "--bank", str(folder / "bank.db"), "--base",
             "none", "--no-verify", "--stock", "--report", str(folder), "-o", str(folder / "made.aoec")]
    with redirect_stdout(said), redirect_stderr(other):
        code = cli.main(words)
    if code:
        raise SystemExit(other.getvalue())
    return said.getvalue()


def read_sentence(said: str) -> str:
    """Return the closing sentence of what a compile prints, without the seconds that it took: these differ from run to run."""
    return re.sub(r"; [\d.,]+ s$", "", " ".join(said.partition("\n\n")[0].split()))


# ---------------------------------------------------------------- the drawing

def draw(sentence: str, facts: Mapping[str, Any], page: str) -> str:
    """Return the picture as SVG, of a closing sentence, report.json and index.html."""
    y, head = draw_head(sentence)
    y, bars = draw_bars(facts, y + 8)
    y, launches = draw_launches(facts, page, y + 22)
    y, kernel = draw_kernel(facts, page, y + 22)
    y += 26
    end = text(MARGIN, y, f"All times are modelled, none is measured on a device. {facts['tool']}, bench/report_picture.py", "s")
    said = (f"{sentence}. {count_words(facts)}. Times of one inference: "
            + ", ".join(f"{side} {us:,.1f} µs" for side, us in side_times(facts)) + ".")
    first = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 12:.0f}" viewBox="0 0 {WIDTH} {y + 12:.0f}" role="img" '
             f'aria-labelledby="title desc">',
             f'<title id="title">Report of {escape(facts["model"])} on {escape(facts["target"])}</title>',
             f'<desc id="desc">{escape(said)}</desc>', f"<style>{make_style()}</style>",
             f'<rect class="paper" width="{WIDTH}" height="{y + 12:.0f}"/>']
    return "\n".join([*first, *head, *bars, *launches, *kernel, end, "</svg>"]) + "\n"


def make_style() -> str:
    """Return the style: colours by name, those of dark mode where the reader has it, and the rules that name them."""
    light, dark = ("".join(f"--{name}:{pair[mode]};" for name, pair in COLOURS.items()) for mode in (0, 1))
    return f"svg{{{light}}}\n@media (prefers-color-scheme:dark){{svg{{{dark}}}}}\n{RULES}"


def side_times(facts: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Return (side, µs of one inference) of each side that the report has."""
    times = {**facts["latency"], "stock_us": (facts.get("stock") or {}).get("latency_us")}
    return [(side, times[f"{side}_us"]) for side in SIDES if times[f"{side}_us"]]


def count_words(facts: Mapping[str, Any]) -> str:
    """Return how many operators become how many launches, in words."""
    launches = facts["structure"]["launches"]
    operators = sum(len(x["imported"]) for x in launches) + sum(facts["structure"]["elsewhere"].values())
    return f"{operators:,} operators as imported become {len(launches):,} launches"


def draw_head(sentence: str) -> tuple[float, list[str]]:
    """Return (where it ends, elements) of the closing sentence."""
    lines = wrap(sentence, LETTERS)
    return 10 + 20.0 * len(lines), [text(MARGIN, 26 + 20 * i, line, "t") for i, line in enumerate(lines)]


def draw_bars(facts: Mapping[str, Any], y: float) -> tuple[float, list[str]]:
    """Return (where they end, elements) of the bars: times of one inference."""
    times, out = side_times(facts), []
    most = max(us for _, us in times)
    for side, us in times:
        length = BAR * us / most
        out += [text(LABELS - 8, y + 12, side, "s", "end"),
                f'<rect class="{side}" x="{LABELS}" y="{y + 2:.1f}" width="{length:.1f}" height="12"/>',
                text(LABELS + length + 8, y + 12, f"{us:,.1f} µs")]
        y += 20
    return y, out


def draw_launches(facts: Mapping[str, Any], page: str, y: float) -> tuple[float, list[str]]:
    """Return (where it ends, elements) of the page's drawing of launches."""
    found = re.search(r'<svg class="launches" viewBox="0 0 (\d+) (\d+)"[^>]*>(.*?)</svg>', page, re.S)
    if not found:
        raise SystemExit("index.html has no drawing of launches")
    scale = min(1.0, WIDTH / int(found[1]))
    out = [text(MARGIN, y, count_words(facts), "l"), *draw_key((("cube", "cube"), ("vector", "vector")), y, 430),
           text(WIDTH - MARGIN, y, "an arc: a later launch reads it", "s", "end"),
           f'<g transform="translate(0 {y + 6:.1f}) scale({scale:.3f})">{found[3]}</g>']
    return y + 6 + scale * int(found[2]), out


def draw_key(entries: Sequence[tuple[str, str]], y: float, x: float) -> Iterator[str]:
    """Yield squares with words behind them, from x on."""
    for kind, words in entries:
        yield f'<g class="{kind}"><rect class="{kind}" x="{x}" y="{y - 10:.1f}" width="11" height="11"/></g>'
        yield text(x + 16, y, words, "s")
        x += 40 + 7 * len(words)


def draw_kernel(facts: Mapping[str, Any], page: str, y: float) -> tuple[float, list[str]]:
    """Return (where it ends, elements) of the timeline of the group that takes the most, by its tuned schedule."""
    group = facts["groups"][0]
    part = page.partition(' id="d0"')[2].partition("</details>")[0]
    side = part.partition('<i class="tuned">')[2]
    measure = group["detail"]["measures"]["tuned"]
    title = f"The launch that takes the most: {group['name']}, {group['what']}"
    said = wrap(f"{measure['time_us']:,.2f} µs, {measure['launch_us']:,.2f} of it launch; {measure['verdict']}", SMALL)
    out = [text(MARGIN, y, clip_name(title, LETTERS), "l"), *[text(MARGIN, y + 18 + 17 * i, line, "s") for i, line in enumerate(said)]]
    y += 38 + 17 * (len(said) - 1)
    out += draw_key(KEY, y, LABELS)
    y += 8
    for core, lanes in re.findall(r'<div class="core" role="img" aria-label="timeline of core ([^,"]+), tuned">(.*?)</div>', side, re.S):
        out.append(text(LABELS, y + 12, f"core {unescape(core)}", "s"))
        y += 18
        for pipe, drawing in re.findall(r'<span class="pipe">([^<]*)</span>(<svg class="lane".*?</svg>)', lanes, re.S):
            out += [text(LABELS - 8, y + 10, unescape(pipe), "s", "end"),
                    f'<rect class="lane0" x="{LABELS}" y="{y:.1f}" width="{LANES}" height="{HEIGHT}"/>',
                    drawing.replace("<svg ", f'<svg x="{LABELS}" y="{y:.1f}" width="{LANES}" height="{HEIGHT}" ', 1)]
            y += LANE
    axis = side.partition('<div class="core axis"')[2].partition("</div></div>")[0]
    out.append(f'<path class="axis" d="M{LABELS} {y:.1f}h{LANES}"/>')
    for percent, words in re.findall(r'<span style="left:([\d.]+)%">([^<]*)</span>', axis):
        x = LABELS + LANES * float(percent) / 100
        out.append(text(x, y + 15, words, "s", "middle" if x < WIDTH - MARGIN - 10 else "end"))
    return y + 15, [*out, text(LABELS - 8, y + 15, "µs", "s", "end")]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", default=LAYER, choices=(LAYER, *NETWORKS))
    parser.add_argument("--target", default="Ascend910B3", metavar="NAME")
    parser.add_argument("--budget", type=int, default=40, metavar="N", help="trials for each different group (default: 40)")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="writes the picture")
    args = parser.parse_args(argv)
    with TemporaryDirectory() as name:
        folder = Path(name)
        sentence = read_sentence(write_report(args.network, args.target, args.budget, folder))
        facts = json.loads((folder / "report.json").read_text("utf-8"))
        made = draw(sentence, facts, (folder / "index.html").read_text("utf-8"))
    print(sentence)
    print(f"{count_words(facts)}; {len(made):,} characters")
    if args.svg:
        args.svg.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
