"""bench/collectives.py: its rows, and the page and the facts that it makes."""
from __future__ import annotations

from pathlib import Path

import pytest

from aoec.base.errors import CheckError
from aoec.collectives.fidelity import rows_of
from aoec.collectives.system import load, names
from bench import collectives
from bench.cases.page import with_blocks


def test_the_page_and_the_facts_are_up_to_date() -> None:
    rows = collectives.read_rows(collectives.ROWS)
    blocks = {"systems": collectives.systems_table(), "figures": collectives.figures(rows), "not covered": collectives.left_out(rows)}
    page = collectives.PAGE.read_text("utf-8")
    assert with_blocks(page, blocks) == page, "python bench/collectives.py --page --write"
    facts = collectives.ROWS.parents[2] / "aoec/collectives/fidelity.toml"
    assert collectives.facts_toml(rows) == facts.read_text("utf-8"), "python bench/collectives.py --facts aoec/collectives/fidelity.toml"


def test_rows_are_compared_or_say_why_not() -> None:
    rows = collectives.read_rows(collectives.ROWS)
    assert len(rows) == 70 and len({r.id for r in rows}) == 70
    assert {r.role for r in rows if r.modelled is not None} == {"fit", "held out"}
    assert all(r.remark for r in rows if r.modelled is None)
    assert all(r.error < 0.16 for r in rows if r.role == "fit")


def test_errors_of_other_costs_are_not_shown(tmp_path: Path) -> None:
    assert rows_of(load("910b-8")).keys() == {"all_reduce"}
    assert sum(len(rows_of(load(n))) for n in names()) == 6
    own = tmp_path / "own.toml"
    own.write_text('title = "own"\n[ranks.8.all_reduce]\npieces = [{us = [1]}]\n', "utf-8")
    assert rows_of(load(str(own))) == {}


def test_a_damaged_row_is_refused(tmp_path: Path) -> None:
    text = collectives.ROWS.read_text("utf-8").replace("176.7,us,a3-16,fit", "176.7,us,a3-16,fitted", 1)
    path = tmp_path / "rows.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(CheckError, match="has a role"):
        collectives.read_rows(path)
