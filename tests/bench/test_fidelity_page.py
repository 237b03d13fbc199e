"""docs/fidelity.md: its table and its plot are what the program makes of the published rows, and its list of rows that gave a number."""
from __future__ import annotations

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from aoec.base.errors import AoecError
from bench.cases.case import METRICS, Case, read_cases
from bench.cases.eligible import why_not
from bench.cases.kept import Kept
from bench.cases.page import METRIC_WORDS, figures, independent, with_blocks
from bench.cases.plot import svg, title_of
from bench.cases.read_from import READ_FROM
from bench.cases.score import Result
from bench.fidelity import PUBLISHED, main, results_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/fidelity.md").read_text("utf-8")
TABLE = PAGE.partition("<!-- figures: made by a program -->\n")[2].partition("\n<!-- figures: end -->")[0]


@cache
def published() -> list[Case]:
    """The rows that the page is of."""
    return [c for c in read_cases([PUBLISHED]) if c.kind in ("tile", "micro")]


def counts(table: str) -> list[list[str]]:
    """The cells of each line that depend on no time: operators, chip, rows, those that gave a number, independent ones."""
    return [line.split(" | ")[:5] for line in table.splitlines() if line.startswith("|")]


@pytest.mark.slow
def test_the_page_holds_what_the_program_prints() -> None:
    results = results_of(published(), PUBLISHED.parent, Kept(None), 0)
    assert figures(results) == TABLE, "python bench/fidelity.py --page --write"
    assert svg(results, title_of(results)) == (ROOT / "docs/fidelity.svg").read_text("utf-8"), "--svg docs/fidelity.svg"


def test_lines_of_the_page_that_are_quick_to_make(capsys: pytest.CaptureFixture[str]) -> None:
    """All rows of a class and chip give the line that stands in the page."""
    for family, chip, shown in (("elementwise", "910B4", "910B4"), ("copy", "910B-24c", "910B-24c, as Ascend910B1")):
        ids = [c.id for c in published() if (c.family, c.chip) == (family, chip) and not why_not(c)]
        assert main(["--page", "--only", ",".join(ids)]) == 0
        found, = [said for said in capsys.readouterr().out.splitlines() if said.startswith(f"| {family} | {shown} |")]
        assert found in TABLE, "python bench/fidelity.py --page --write"


def test_counts_of_the_page_are_those_of_the_rows() -> None:
    """With any times, and what can be modelled by the list of eligible rows."""
    with (ROOT / "bench/cases/eligible.csv").open(encoding="utf-8", newline="") as f:
        expressible = {r["id"] for r in csv.DictReader(f) if r["expressible"] == "yes"}
    some = [Result(c, c.value if c.id in expressible else None, why_not=why_not(c)) for c in published()]
    assert counts(figures(some)) == counts(TABLE)


def test_rows_that_gave_a_number_are_published_rows() -> None:
    known = {c.id for c in read_cases([PUBLISHED])}
    assert set(READ_FROM) <= known and all(READ_FROM.values())
    assert re.search(r"bench/cases/read_from\.py", PAGE)


def test_independent_rows_are_counted_alone() -> None:
    """The error of a row that gave a number is in the line of all rows, and not in that of the independent ones."""
    gave, free = (next(c for c in published() if (c.id in READ_FROM) is which and not why_not(c) and "950" not in c.chip)
                  for which in (True, False))
    first, second = Result(gave, 2 * gave.value), Result(free, 0.9 * free.value)
    assert not independent(first) and independent(second)
    lines = figures([first, second, replace(second, modelled=None)]).splitlines()
    assert f"| **all counted rows** |  | 2 | 1 | 1 | 55.0 % | 55.0 % | 100 % too slow ({gave.id}) |" in lines
    assert f"| **independent rows alone** |  | 1 | 0 | 1 | 10.0 % | 10.0 % | 10 % too fast ({free.id}) |" in lines
    assert lines[-1].startswith("3 rows count, and 2 of them can be modelled.")


def test_nothing_modelled_is_a_table_too() -> None:
    assert "| **all counted rows** |  | 0 | 0 | 0 | - | - | - |" in figures([])


def test_the_page_is_written_with_all_its_rows_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--write"], ["--page", "--write", "--only", "m0336"], ["--page", "--write", "--state", "cold"]):
        with pytest.raises(SystemExit):
            main(words)
        assert "--write goes with --page" in capsys.readouterr().err
    with pytest.raises(AoecError, match="no lines"):
        with_blocks("a page without marks", {"figures": "x"})


def test_metrics_have_words() -> None:
    assert METRIC_WORDS.keys() == METRICS.keys()
