"""The closing table of a compile: what each group took by default, takes now, and cannot take less than; then the whole model.

The job fills the dataclasses; this module only words and aligns them. Every time is modelled and says so.
"""
from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TextIO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from aoec.base.text import plural
from aoec.report import shares, spread
from aoec.report.shares import Shares
from aoec.report.spread import Within

PLAIN_WIDTH = 80  # columns where neither a terminal nor $COLUMNS tells
WIDTHS = (80, 200)  # the narrowest that numbers fit, the widest that is used
SHORTEST = 14  # characters of what a group is
FIRST_LEFT_OUT = ("holds", "runs on", "bound by", "gain", "gap", "within")  # columns, in this order, where a terminal is too narrow for all
MOST_ROWS, MOST_SAVING = 14, 5  # rows that are shown where not all are asked for; of them those with the largest gains
SHORTEST_S = 0.1  # of a part of the work that is named by itself
WIDE_GAP = 1.0  # above which a gap has its reason beside it
COVERS = {"rule": "rules", "proxy": "proxies", "no stock rule": "no rule"}  # in the first sentence
PLACES = {"cube": "AI Core", "vector": "AI Core", "host": "host", "view": "view"}
# for outputs that cannot show them
ASCII = {"µs": "us", "×": "x", "→": "->", "–": "-", "…": "~", "─": "-", "²": "2", "≈": "~"}


@dataclass(frozen=True)
class Times:
    """Microseconds: by the default schedule, by the one in use, and the lower bound; None where nothing models them."""

    default_us: float | None = None
    tuned_us: float | None = None
    bound_us: float | None = None

    @property
    def gain(self) -> float | None:
        """Return the share of the default's time that is saved: 0.25 is a quarter."""
        return (self.default_us - self.tuned_us) / self.default_us if self.default_us and self.tuned_us is not None else None

    @property
    def gap(self) -> float | None:
        """Return how far above the bound: 0.08 is 8 %."""
        return self.tuned_us / self.bound_us - 1 if self.bound_us and self.tuned_us is not None else None


@dataclass(frozen=True)
class StockRow:
    """Equal groups as CANN has them without tuning: `name` of the first, `what` it is, how many; modelled microseconds of one, its bound.
    `cover`: how good the rule behind it is ("rule", "proxy", "fixed block", "no stock rule"), `rule`: which it is, `differs`: in what our
    schedule is not its tiling."""

    name: str
    what: str
    count: int
    us: float
    bound_us: float
    cover: str
    rule: str = ""
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stock:
    """The whole model as CANN would run it without tuning, all modelled: microseconds of one inference and of groups timed alone,
    inferences a second. `product`: whose public rules they are; `shares`: cover -> its part of the AI Core's time; `seconds`: what it
    took to find."""

    product: str
    latency_us: float
    isolated_us: float
    throughput_per_s: float | None
    shares: Mapping[str, float]
    rows: tuple[StockRow, ...] = ()
    seconds: float = 0.0

    @property
    def words(self) -> str:
        """Return the basis of its time, such as "rules 12 %, proxies 80 %"."""
        return ", ".join(f"{COVERS.get(name, name)} {100 * part:.0f} %" for name, part in self.shares.items() if part >= 0.005)


@dataclass(frozen=True)
class Held:
    """How a gain fares on `machines` whose numbers vary within their confidence: on how many it is one, and the largest share of the
    default's time that remains on any (1.02: 2 % slower). `confirmed`: enough of them for a gain to be called one."""

    machines: int
    faster: int
    worst: float
    confirmed: bool


@dataclass(frozen=True)
class Row:
    """Equal groups: `name` of the first, `what` it is (operators and shape), how many there are; times are of one of them.

    `bound_by`: cube, vector, MTE1, MTE2, FIXP, MTE3, launch or ""; `kind`: the group's, cube, vector, host or view; `proof`: "space",
    "bound" or "". `why`: what a gap above 100 % comes from, in a few characters.
    """

    name: str
    what: str
    times: Times
    count: int = 1
    bound_by: str = ""
    kind: str = "cube"
    proof: str = ""
    held: Held | None = None  # None where default and tuned are one schedule
    candidates: Mapping[str, int] = field(default_factory=dict)  # that this run looked at, by how they ended; none where the bank had it
    spent: Mapping[str, Any] = field(default_factory=dict)  # what looked at them, as jobs/tune/budget.py says it; none likewise
    within: Within | None = None  # how far `tuned` may be off, where that was asked for
    why: str = ""


@dataclass(frozen=True)
class Report:
    """A whole compile. `latency`: one inference on one timeline from `state`; `isolated`: the sum of the groups timed alone.

    `throughput_per_s`: inferences a second in steady state, by default and as tuned; `images`: how many one takes, 0 where it takes none.
    `notes`: further lines, shown last.
    """

    model: str
    target: str
    precision: str
    rows: tuple[Row, ...]
    latency: Times
    isolated: Times
    throughput_per_s: tuple[float, float] | None = None
    state: str = ""
    trials: int = 0  # candidates that strategies had timed, which a budget counts
    seconds: Mapping[str, float] = field(default_factory=dict)  # part of the work -> what it took by this computer's clock
    found: int = 0  # distinct groups whose schedule was in the bank
    tuned: bool = True
    notes: tuple[str, ...] = ()
    fidelity: Mapping[str, Any] | None = None  # to published measurements, by operator class (report/fidelity.py)
    near: tuple[tuple[str, str], ...] = ()  # the same in words: classes, and how near
    held: Held | None = None  # of all groups whose schedule is another than the default, one after the other
    lowered: Mapping[str, int] = field(default_factory=dict)  # operator -> nodes of less precision than the model declares
    rewrites: Mapping[str, int] = field(default_factory=dict)  # rewrite of the graph -> at how many places it was applied
    images: int = 0
    gear: str = ""  # of a model that is compiled for several shapes: which it is
    hint: str = ""  # what would make it faster, where nothing was searched and the bank does not know all of it
    beside: Mapping[str, int] = field(default_factory=dict)  # legal candidates timed for other ends, by Phase (search/space/trials.py)
    bounded: int = 0  # candidates that proofs decided by bounds, without a time
    searches: Mapping[str, Any] = field(default_factory=dict)  # func and memory state -> counts that repeat its search
    metric: str = "latency"  # what was tuned for, or throughput
    stock: Stock | None = None  # where it was asked for, and the product has public rules
    within: Mapping[str, Within] = field(default_factory=dict)  # "latency" and "isolated" -> how far `tuned` may be off, where asked for
    shares: Shares | None = None  # what of the gain is whose


def as_dict(report: Report) -> dict[str, Any]:
    """Return the report as plain values for JSON; every time is labelled modelled."""
    throughput = dict(zip(("default", "tuned"), report.throughput_per_s)) if report.throughput_per_s else None
    return {
        "times": "modelled", "model": report.model, "target": report.target, "precision": report.precision,
        "lowered": dict(report.lowered), "rewrites": dict(report.rewrites), "state": report.state,
        "groups": [{"name": r.name, "what": r.what, "count": r.count, **_times(r.times), "bound_by": r.bound_by, "kind": r.kind,
                    "runs_on": PLACES[r.kind], "proof": r.proof, "held": _fields(r.held), "candidates": dict(r.candidates),
                    "spent": dict(r.spent), "within": _fields(r.within), "why": r.why}
                   for r in report.rows],
        "metric": report.metric, "stock": stock_as_dict(report.stock), "shares": shares.as_dict(report.shares) if report.shares else None,
        "latency": _times(report.latency), "isolated": _times(report.isolated), "throughput_per_s": throughput, "images": report.images,
        "trials": report.trials, "beside": dict(report.beside), "bounded": report.bounded, "searches": dict(report.searches),
        "seconds": _total_seconds(report), "seconds_by_part": seconds_by_part(report.seconds), "found_in_bank": report.found,
        "tuned": report.tuned,
        "notes": [*report.notes, *(f"times of {classes}: {words}" for classes, words in report.near)],
        "within": {name: _fields(w) for name, w in report.within.items()},
        "held": _fields(report.held), "fidelity": report.fidelity, **({"gear": report.gear} if report.gear else {}),
    }


def seconds_by_part(took: Mapping[str, float]) -> dict[str, float]:
    """Return part of the work -> seconds, to the millisecond."""
    return {part: round(seconds, 3) for part, seconds in took.items()}


def _total_seconds(report: Report) -> float | None:
    """Return the seconds that all parts of the work took together. Return None where nobody measured them."""
    return sum(report.seconds.values()) if report.seconds else None


def stock_as_dict(stock: Stock | None) -> dict[str, Any] | None:
    """Return the stock model as plain values."""
    if stock is None:
        return None
    return {"product": stock.product, "latency_us": stock.latency_us, "isolated_us": stock.isolated_us,
            "throughput_per_s": stock.throughput_per_s, "shares": dict(stock.shares), "seconds": stock.seconds,
            "groups": [{**asdict(r), "differs": list(r.differs)} for r in stock.rows]}


def print_table(report: Report, file: TextIO | None = None, every: bool = False) -> None:
    """Print the report: in colour and as wide as a terminal allows, else plain text as wide as $COLUMNS says, or of 80 columns. `every`:
    all rows, and those of the stock model."""
    out = file or sys.stdout
    if out.isatty():
        console = Console(file=out, highlight=False)
        _print(report, Console(file=out, highlight=False, width=usable(console.width)), every)
        return
    asked = os.environ.get("COLUMNS", "")
    width = usable(int(asked)) if asked.isdecimal() and len(asked) < 6 else PLAIN_WIDTH
    out.write(_sayable(show_table(report, width, every), getattr(out, "encoding", None)))


def usable(width: int) -> int:
    """Return the width nearest to this one that a report is printed in."""
    return min(max(width, WIDTHS[0]), WIDTHS[1])


def show_table(report: Report, width: int = PLAIN_WIDTH, every: bool = False) -> str:
    """Return the report as plain text, no line longer than `width`."""
    console = Console(width=width, color_system=None, highlight=False, force_terminal=False, legacy_windows=False)
    with console.capture() as captured:
        _print(report, console, every)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def _sayable(text: str, encoding: str | None) -> str:
    """Return `text`. Where the output's encoding lacks one of its characters, return it in ASCII."""
    try:
        text.encode(encoding or "utf-8")
        return text
    except (UnicodeEncodeError, LookupError):
        for fancy, bare in ASCII.items():
            text = text.replace(fancy, bare)
        return text.encode("ascii", "replace").decode("ascii")


def sentence(report: Report) -> str:
    """Return the result in one sentence: times before and after, the reference, how they are known, and how long the job took."""
    after, ours, stock = (_figure(report, side) for side in ("tuned", "default", "stock"))
    gear = f", gear {report.gear}," if report.gear else ""
    images = "images" if report.images else "inferences"
    unit = f"{images}/s" if report.metric == "throughput" else "µs"
    of_ours = _change(ours, after) + " against our default" if ours != after else "our default schedules"
    if stock is not None and report.stock is not None:
        beside = f"({_change(stock, after)}) against CANN's stock tiling ({report.stock.words}), {of_ours}"
        said = f"{_number(stock)} → {_number(after)} {unit} {beside}"
    elif ours != after:
        said = f"{_number(ours)} → {_number(after)} {unit} ({_change(ours, after)}) against our default"
    else:
        said = f"{_number(after)} {unit}, {of_ours}"
    seconds = _total_seconds(report)
    took = [f"{seconds:,.0f} s" if seconds >= 9.5 else f"{seconds:,.1f} s"] if seconds is not None else []
    return f"{report.model}{gear} on {report.target}, {report.precision}: {'; '.join([said, 'modelled', *took])}"


def _figure(report: Report, side: str) -> float | None:
    """Return the figure that was tuned for, of one side: microseconds of an inference, or inferences (images) a second."""
    if report.metric == "throughput" and report.throughput_per_s is not None:
        per_s = {"default": report.throughput_per_s[0], "tuned": report.throughput_per_s[1],
                 "stock": report.stock.throughput_per_s if report.stock else None}[side]
        return None if per_s is None else per_s * (report.images or 1)
    return {"default": report.latency.default_us, "tuned": report.latency.tuned_us,
            "stock": report.stock.latency_us if report.stock else None}[side]


def _change(before: float | None, after: float | None) -> str:
    """Return the words of a change, such as "-31 %". Changes of less than 10 % have one decimal."""
    if not before or after is None:
        return "–"
    percent = 100 * (after / before - 1)
    said = f"{percent:+.0f}" if abs(percent) >= 9.95 else f"{percent:+.1f}"
    return f"{'0' if float(said) == 0 else said} %"


def _print(report: Report, console: Console, every: bool = False) -> None:
    headline = _text(sentence(report))
    headline.stylize("bold")
    console.print(headline)
    rows = fold_views(report.rows)
    shown = rows if every else choose_rows(rows)
    table, left_out = _table(replace(report, rows=tuple(shown)), console)
    console.print(table)
    if len(shown) < len(rows):
        console.print(_text(_rest(rows, shown)))
    if left_out:
        console.print(_text(f"not shown in {console.width} columns: {', '.join(left_out)} (a wider terminal or --json has them)"))
    for line in _work(report):
        console.print(_text(line))
    console.print(_legend(report))
    if every and report.stock is not None:
        console.print(_stock_table(report.stock))
    for line in (*_places(report.rows), *report.notes):
        console.print(_text(line))
    if report.near and every:
        console.print(_text("how near times are to published measurements (docs/fidelity.md):"))
        console.print(_pairs(report.near))
    elif report.near:
        console.print(_text("how near modelled times are to published measurements: --all, or docs/fidelity.md"))


def choose_rows(rows: Sequence[Row], most: int = MOST_ROWS) -> list[Row]:
    """Choose about `most` of many rows: those with the largest gains, then those that take the most time. They keep their order."""
    if len(rows) <= most + 1:
        return list(rows)
    saving = sorted(range(len(rows)), key=lambda i: -_saving_us(rows[i]))[:MOST_SAVING]
    first = [i for i in saving if _saving_us(rows[i]) > 0]
    heavy = [i for i in sorted(range(len(rows)), key=lambda i: -_weight(rows[i])) if i not in first]
    return [rows[i] for i in sorted((first + heavy)[:most])]


def _weight(r: Row) -> float:
    return r.count * (r.times.tuned_us or 0.0)


def _saving_us(r: Row) -> float:
    return r.count * max(0.0, (r.times.default_us or 0.0) - (r.times.tuned_us or 0.0))


def _rest(rows: Sequence[Row], shown: Sequence[Row]) -> str:
    """Return a line with the number, time and gain of the rows that are not shown."""
    left = [r for r in rows if r not in shown]
    saved = sum(map(_saving_us, left))
    gained = f", in which tuning saved {_number(saved)}" if saved >= 0.005 else ""
    return f"and {plural(len(left), 'more row')} of {_number(sum(map(_weight, left)))} µs{gained} (--all, --report and --json have them)"


def _stock_table(stock: Stock) -> Table:
    """Return the groups of the stock model."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    rows = [(r.name, _text(r.what), str(r.count), _number(r.us), _number(r.bound_us), r.cover,
             _text("; ".join([*([r.rule] if r.rule else []), *r.differs]))) for r in stock.rows]
    for at, name in enumerate(("stock", "what", "×", "µs", "bound", "known by", "rule")):
        if name in ("what", "rule"):
            table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1, min_width=SHORTEST)
        else:
            table.add_column(name, justify="right" if name in ("×", "µs", "bound") else "left", no_wrap=True,
                             min_width=max(len(name), *(len(str(r[at])) for r in rows)) if rows else None)
    for row in rows:
        table.add_row(*row)
    return table


def fold_views(rows: Sequence[Row]) -> list[Row]:
    """Merge all views into one row, at the end. They move nothing and take no time, and a long sequence has a hundred of them."""
    views = [r for r in rows if r.kind == "view"]
    if len(views) < 2:
        return list(rows)
    words = Counter(word for r in views for word in [r.what] * r.count)
    what = ", ".join(f"{word} {n}" if n > 1 else word for word, n in words.most_common())
    return [*(r for r in rows if r.kind != "view"), Row("views", what, Times(), sum(r.count for r in views), kind="view")]


def _pairs(lines: Sequence[tuple[str, str]]) -> Table:
    """Return two columns of text; what is too long for a line goes on below its own column."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for first, second in lines:
        grid.add_row(_text("  " + first), _text(second))
    return grid


def _table(report: Report, console: Console) -> tuple[Table, list[str]]:
    """Return (the table, no wider than the console; the columns that are left out for that). Those are left out without which the rest
    needs the least width."""
    def needs(without: Sequence[str], most: int | None) -> int:
        return Measurement.get(console, console.options.update(width=10 * WIDTHS[1]), _table_of(report, without, most)).maximum

    why = any(r.why for r in report.rows)  # a reason stands there longer than a gain, which default and tuned say too
    optional = {"holds": any(r.held for r in report.rows), **dict.fromkeys(("gap", "gain", "within"), bool(report.within))}
    optional["gain"] |= why
    first = sorted(FIRST_LEFT_OUT, key=lambda name: name == "bound by") if why else FIRST_LEFT_OUT
    there = [name for name in first if optional.get(name, True)]
    left_out = next((there[:n] for n in range(len(there)) if needs(there[:n], SHORTEST) <= console.width), there)
    table = _table_of(report, left_out)
    table.width = min(console.width, needs(left_out, None))
    return table, left_out


def _table_of(report: Report, without: Sequence[str], most: int | None = None) -> Table:
    """Return one table, so that the whole model's numbers stand under the groups'; numbers are never cut, words may be, to `most`
    characters."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    held, ranged = any(r.held for r in report.rows), bool(report.within)
    every = ("group", "what", "×", "default", "tuned", *["within"] * ranged, "bound", "gain", "gap", "bound by", "runs on",
             *["holds"] * held)
    names = [name for name in every if name not in without]

    def row(*cells: str | Text) -> None:
        table.add_row(*(cell for name, cell in zip(every, cells) if name not in without))

    for name in names:
        justify: Literal["left", "right"] = "left" if name in ("group", "what", "bound by", "runs on") else "right"
        cut = name == "what"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", ratio=1 if cut else None,
                         min_width=SHORTEST if cut else None, max_width=most if cut else None)
    for r in fold_views(report.rows):
        words = [f"{100 * r.held.faster // r.held.machines}%" if r.held else "–"] * held
        cells = _cells(r.times, r.proof, r.held, r.within, ranged)
        estimate = " ≈" * (r.kind == "host")
        row(_text(r.name), _text(r.what), str(r.count), *cells, _text(r.why or r.bound_by or "–"), PLACES[r.kind] + estimate, *words)
    table.add_section()
    for name, what, times in (("latency", "one inference, one timeline", report.latency),
                              ("isolated", "sum of groups timed alone", report.isolated)):
        row(name, what, "", *_cells(times, "", report.held, report.within.get(name), ranged), "", "")
    if report.throughput_per_s:
        default, tuned = report.throughput_per_s
        gain = Text(_percent(1 - default / tuned if tuned else None), style="green")
        each = report.images or 1
        row("throughput", "images a second" if report.images else "inferences a second", "", _number(each * default),
            Text(_number(each * tuned), style="bold"), *["–"] * ranged, "–", gain, "–", "", "")
    return table


def _cells(times: Times, proof: str, held: Held | None, within: Within | None, ranged: bool) -> tuple[str | Text, ...]:
    """Return cells: default, tuned, its range (where `ranged`), bound, gain and gap. A gap that is proved closed, or that nothing in the
    space can close, has a mark."""
    gain = Text(_percent(times.gain), style="green" if (times.gain or 0) >= 0.005 else "dim")
    if held and not held.confirmed and (times.gain or 0) > 0:
        gain = Text("≈ default", style="dim")
    gap = _percent(times.gap) + {"space": "*", "bound": "=", "": " "}[proof]
    return (_number(times.default_us), Text(_number(times.tuned_us), style="bold"), *[str(within or "–")] * ranged, _number(times.bound_us),
            gain, Text(gap, style=_gap_style(times.gap)))


def _gap_style(gap: float | None) -> str:
    return "dim" if gap is None else "green" if gap < 0.1 else "yellow" if gap < 0.6 else "red"


def _text(words: str) -> Text:
    """Return words from a model as they are: neither markup nor control characters of a terminal act."""
    return Text("".join(c if c.isprintable() else "?" for c in words))


def _number(value: float | None) -> str:
    """Return a figure with about four digits: no table needs more, and no model is as good."""
    if value is None:
        return "–"
    return f"{value:,.2f}" if abs(value) < 99.995 else f"{value:,.1f}" if abs(value) < 999.95 else f"{value:,.0f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%" if value < 9.995 else f"{100 * value:,.0f}%"


def _times(t: Times) -> dict[str, float | None]:
    return {"default_us": t.default_us, "tuned_us": t.tuned_us, "bound_us": t.bound_us, "gain": t.gain, "gap": t.gap}


def _work(report: Report) -> list[str]:
    """Return lines about the work: groups, trials, seconds, and the shares of the gain."""
    ours = [r for r in report.rows if PLACES[r.kind] == "AI Core"]
    work = [f"{plural(sum(r.count for r in ours), 'group')} on the AI Core, {len(ours):,} distinct"]
    work += [f"{report.found:,} found in the bank"] if report.found else []
    work += [plural(report.trials, "trial"), *_beside(report)] if report.tuned else [report.hint] if report.hint else []
    seconds = _total_seconds(report)
    work += [f"{seconds:,.1f} s"] if seconds is not None else []
    gain = shares.words(report.shares) if report.shares else ""
    return [", ".join(work) + ".", *([gain + "."] if gain else []), *([_took(report.seconds)] if len(report.seconds) > 1 else [])]


def _took(seconds: Mapping[str, float]) -> str:
    """Return the seconds of each part of the work. Short parts are summed into one, so that the parts add up to the whole."""
    long = {part: s for part, s in seconds.items() if s >= SHORTEST_S}
    rest = sum(seconds.values()) - sum(long.values())
    parts = [f"{part} {s:,.1f}" for part, s in (*long.items(), *([("rest", rest)] if rest >= SHORTEST_S / 2 else []))]
    return f"Seconds by this computer's clock: {', '.join(parts)}."


def _beside(report: Report) -> list[str]:
    """Return the candidates that were examined beside the trials. A budget does not count them."""
    other = ", ".join(f"{n:,} {name}" for name, n in report.beside.items() if n)
    timed = [f"{plural(sum(report.beside.values()), 'more candidate')} timed ({other})"] if other else []
    return [*timed, *([f"{report.bounded:,} decided by bounds"] if report.bounded else [])]


def _legend(report: Report) -> Table:
    """Return the legend of the table: a line for each of its words that needs one."""
    proofs = {r.proof for r in report.rows}
    marks = "; * best of its space, proved" * ("space" in proofs) + "; = at the bound" * ("bound" in proofs)
    images = f", in which an inference takes {report.images:,} images" if report.images > 1 else ""
    lines = [("times", "modelled, in µs")]
    lines += [("latency", f"starts from {report.state}; throughput is the steady state{images}")] if report.state else []
    lines += [("gain", "time saved against the default schedule"), ("gap", "time above the bound, which no schedule can beat" + marks)]
    if any(r.why for r in report.rows):
        lines.append(("bound by", "of a gap above 100 %: how much of the time the launch or the pipe takes, cores at work, or how much "
                                  "longer than the mean the last core takes (tail)"))
    if report.stock is not None:
        lines += _stock_legend(report.stock)
    if report.within:
        lines += spread.legend(next(iter(report.within.values())).machines, any(r.within and r.within.published for r in report.rows))
    return _pairs([*lines, *(_holding(report, report.held) if report.held else [])])


def _stock_legend(stock: Stock) -> list[tuple[str, str]]:
    """Return the meaning of the stock time, and the rules that it depends on."""
    parts = ", ".join(f"{name} {100 * part:.1f} %" for name, part in stock.shares.items())
    return [("stock", f"CANN without tuning, by its public rules for {stock.product} (docs/stock.md), modelled: "
                      f"{_number(stock.latency_us)} µs one inference, {_number(stock.isolated_us)} groups alone"),
            ("", f"known by: {parts} of that time; what has no rule takes our default")]


def _holding(report: Report, held: Held) -> list[tuple[str, str]]:
    """Return how far the gains hold."""
    worst = max((r for r in report.rows if r.held), key=lambda r: r.held.worst if r.held else 0.0)
    assert worst.held is not None
    unsure = sum(r.held is not None and not r.held.confirmed for r in report.rows)
    lines = [("holds", f"share of {held.machines} machines, with numbers varied within their confidence, on which tuned beats default"),
             ("", f"all groups together: {held.faster} of {held.machines}; worst case: {worst.name} takes "
              f"{100 * worst.held.worst:,.1f}% of its default's time")]
    close = ("≈ default", f"fewer than nine in ten of these machines confirm the gain ({plural(unsure, 'group')}); --robust picks by that")
    return [*lines, close] if unsure else lines


def _fields(x: Held | Within | None) -> dict[str, Any] | None:
    return None if x is None else asdict(x)


def _places(rows: Sequence[Row]) -> list[str]:
    """Return a line on what runs off the AI Core, where something does."""
    host = [r for r in rows if r.kind == "host"]
    count, us = sum(r.count for r in host), sum(r.count * (r.times.tuned_us or 0.0) for r in host)
    said = f"{plural(count, 'group')} on the host (≈), for about {us:,.0f} µs of the whole-model lines: an estimate (docs/design.md)."
    return [said] if host else []
