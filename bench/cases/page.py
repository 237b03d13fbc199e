"""The tables of docs/fidelity.md and docs/fidelity-details.md, which are written between marks of these pages."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import fill

from aoec.base.errors import AoecError
from aoec.report.words.reference import grid
from bench.cases.case import ALIASES, METRICS
from bench.cases.chips import CHIPS, chip_of
from bench.cases.eligible import apart, counted, not_counted
from bench.cases.read_from import READ_FROM
from bench.cases.score import Result, Score, score
from bench.cases.words import WORDS

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE, DETAILS = DOCS / "fidelity.md", DOCS / "fidelity-details.md"
HEAD = ("operators", "chip", "rows", "gave a number", "independent", "mean error", "median error", "worst error")
METRIC_WORDS = {
    "time": "task time, launch included", "core_time": "mean core's time, no launch", "max_core_time": "slowest core's time",
    "mac_time": "cube pipe, mean core", "mte1_time": "MTE1, mean core", "mte2_time": "MTE2, mean core", "mte3_time": "MTE3, mean core",
    "fixpipe_time": "FIXPIPE, mean core", "vec_time": "vector pipe, mean core", "scalar_time": "scalar unit, mean core",
    "cycles": "cycles of the slowest core", "bandwidth": "compulsory bytes / task time",
    "throughput": "of a whole model: batch x devices / time between inferences", "utilisation": "of a peak; listed, not compared"}


# ---------------------------------------------------------------- figures

def figures(results: Sequence[Result]) -> str:
    """Return the table of docs/fidelity.md: a line for each operator class and chip, lines for all of them, and what could not be
    modelled."""
    ours = [r for r in counted(results) if r.modelled is not None]
    groups: dict[tuple[str, str], list[Result]] = {}
    for r in ours:
        groups.setdefault((r.case.family, r.case.chip), []).append(r)
    lines = [cells(family, chip_words(chip), groups[family, chip]) for family, chip in sorted(groups)]
    lines += [cells("**all counted rows**", "", ours), cells("**independent rows alone**", "", [r for r in ours if independent(r)]),
              cells("950 generation, apart", "", [r for r in results if apart(r.case)]),
              cells("not counted: tile or dtype not stated, or doubtful", "", not_counted(results))]
    return "\n".join([*grid(HEAD, lines), "", in_words(len(counted(results)), score(ours))])


def independent(r: Result) -> bool:
    """Return whether no number and no reading of the machine was taken from a row."""
    return r.case.id not in READ_FROM


def cells(name: str, chip: str, results: Iterable[Result]) -> list[str]:
    """Return the cells of a line: what is modelled of some rows."""
    told = [r for r in results if r.modelled is not None]
    s, free = score(told), sum(map(independent, told))
    return [name, chip, str(s.rows), str(s.rows - free), str(free), percent(s.mean_error), percent(s.median_error), worst_words(told)]


def chip_words(name: str) -> str:
    """Return the chip as its source names it, with the target that stands for it."""
    target = chip_of(name).target
    return name if name in target else f"{name}, as {target}"


def percent(x: float | None) -> str:
    return "-" if x is None else f"{100 * x:.1f} %"


def worst_words(told: Sequence[Result]) -> str:
    """Return the largest error with its direction and its row."""
    if not told:
        return "-"
    r = max(told, key=lambda r: r.error or 0.0)
    return f"{100 * (r.error or 0.0):.0f} % too {'fast' if (r.ratio or 1.0) < 1 else 'slow'} ({r.case.id})"


def in_words(eligible: int, s: Score) -> str:
    """Return what the table does not say: rows that cannot be modelled, ranks and pairs."""
    rank = "" if s.spearman is None else f" The rank correlation is {s.spearman:.3f}."
    return (f"{eligible} rows count, and {s.rows} of them can be modelled.{rank} "
            f"Of {s.pairs} pairs of variants {s.right_pairs} are ordered correctly.")


# ---------------------------------------------------------------- the case format

def metrics() -> str:
    """Return the table of metrics, and the other names that are understood."""
    rows = [[f"`{name}`", ", ".join(units), METRIC_WORDS[name]] for name, units in METRICS.items()]
    others = "; ".join(f"`{alias}` = `{name}`" for alias, name in ALIASES.items())
    return "\n".join([*grid(("metric", "units", "what it is"), rows), "", fill(f"Other names: {others}.", 140)])


def tile_words() -> str:
    """Return the table of tile words."""
    def count(least: int, most: int) -> str:
        return "alone" if not most else str(least) if least == most else f"{least} to {most}"
    return "\n".join(grid(("word", "numbers", "what it says"), [
        [f"`{name}{'=' * bool(most)}`", count(least, most), words] for name, (least, most, words) in WORDS.items()]))


def chips() -> str:
    """Return the table of chips."""
    return "\n".join(grid(("name", "target", "remark"), [[name, c.target, c.remark] for name, c in CHIPS.items()]))


def details() -> str:
    """Return docs/fidelity-details.md with its tables as the code has them."""
    return with_blocks(DETAILS.read_text("utf-8"), {"metrics": metrics(), "tile words": tile_words(), "chips": chips()})


# ---------------------------------------------------------------- marks

def marks(name: str) -> tuple[str, str]:
    """Return the lines between which a block of a page stands."""
    return f"<!-- {name}: made by a program -->", f"<!-- {name}: end -->"


def with_blocks(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with each block between its marks. Raise AoecError where a mark is missing."""
    for name, block in blocks.items():
        begin, end = marks(name)
        before, mark, rest = page.partition(begin)
        _, last, behind = rest.partition(end)
        if not mark or not last:
            raise AoecError(f"the page has no lines {begin} and {end}")
        page = f"{before}{begin}\n{block}\n{end}{behind}"
    return page


def write_figures(results: Sequence[Result], path: Path = PAGE) -> None:
    """Put the table between the marks of docs/fidelity.md."""
    path.write_text(with_blocks(path.read_text("utf-8"), {"figures": figures(results)}), "utf-8")
