"""docs/stock.md says what the rules and the table of fusions are."""
from __future__ import annotations

from pathlib import Path

from aoec.jobs.stock.cover import COVERS
from aoec.search.stock.fusions import PRODUCTS, fusions
from aoec.search.stock.templates import TEMPLATES
from tests.search.test_stock_vectors import VECTORS

PAGE = (Path(__file__).parents[2] / "docs" / "stock.md").read_text("utf-8")


def test_the_table_of_fusions_is_the_one_that_groups() -> None:
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
    shown = {r[0]: r for r in rows}
    for f in fusions():
        assert shown[f.pattern][1:4] == [f.words["910B"], f.words["310P"], f.source]
        assert f.here in shown[f.pattern][4] and all(f"{s}" in shown[f.pattern][4] for s in f.steps)
    assert set(PRODUCTS) == {"910B", "310P"}


def test_every_template_and_every_word_stands_there() -> None:
    for t in TEMPLATES:
        assert f"| {t.rule} | {t.name}" in PAGE, t.rule
    assert all(f"| {c} |" in PAGE for c in COVERS)
    assert len(VECTORS) == 12 and sum(not v.tiles for v in VECTORS if v.template == "base") == 1  # and one of R5: thirteen in all
