"""Plans against fixed rules: sums, the exit code, rows that are kept, and what a plan that is searched finds."""
from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench import plans
from bench.networks import NETWORKS
from bench.plans import WIDTH, Case, Row, Shelf, change, page, totals

ROW = Row("resnet50", 16, "Ascend310P3", "aoec 0.1.0", "0123456789abcdef", 0, 5789.7, 4184.3, ("g1..g14 in 8", "g16..g27 in 4"))
ROWS = [ROW, replace(ROW, network="gpt2", rules_us=100.0, plan_us=100.0, regions=()),
        replace(ROW, network="unet", target="Ascend310B1", rules_us=100.0, plan_us=110.0),
        replace(ROW, network="crnn", target="Ascend310B1", rules_us=0.0, plan_us=0.0, failed="CheckError: " + "x" * 99)]


def test_sums_are_of_a_target_and_batch_and_leave_out_what_failed() -> None:
    assert [t.figures for t in totals(ROWS)] == [
        ("Ascend310P3", "16", "2", "5,890", "4,284", "-27.3 %", "-15.0 %", "1", "0"),
        ("Ascend310B1", "16", "1", "100", "110", "+10.0 %", "+10.0 %", "0", "1"),
        ("all", "", "3", "5,990", "4,394", "-26.6 %", "-7.4 %", "1", "1")]
    assert change(0.0, 0.0) == "–"


def test_lines_fit_a_terminal() -> None:
    wide = replace(ROW, network="bert-base-512-int8", rules_us=1234567.8, plan_us=1134567.8)
    lines = [plans.HEAD, *[r.line() for r in (wide, *ROWS)], *[t.line() for t in totals([wide, *ROWS])]]
    assert max(map(len, lines)) <= WIDTH and all(r.network in r.line() for r in ROWS)


def test_the_page_says_what_is_modelled_and_holds_all_rows() -> None:
    text = page(ROWS)
    assert "modelled" in text and "Nothing ran on an NPU" in text and "--trials 0" in text
    assert [line for line in text.splitlines() if line.startswith("| resnet50")] == [ROW.cells()]
    assert ROW.cells() == "| resnet50 | 16 | Ascend310P3 | 5,789.7 | 4,184.3 | -27.7 % | 2 |"


@pytest.mark.parametrize("made, code", [(ROW, 0), (replace(ROW, plan_us=ROW.rules_us + 1), 1), (replace(ROW, failed="MemoryError: "), 1)])
def test_finished_rows_are_kept_and_failed_ones_are_made_again(
        made: Row, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Case] = []

    def compared(case: Case, trials: int, bank: Path) -> Row:
        asked.append(case)
        return replace(made, network=case.network)

    monkeypatch.setattr(plans, "compared", compared)
    words = ["--models", "gpt2", "unet", "--batches", "16", "--targets", "Ascend310P3", "--trials", "0", "--bank", str(tmp_path / "b.db"),
             "--json", str(tmp_path / "out.json"), "--write", str(tmp_path / "plans.md")]
    assert [plans.main(words), plans.main(words)] == [code, code]
    assert [c.network for c in asked] == ["gpt2", "unet"] * (1 + bool(made.failed))
    said = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert said["times"] == "modelled" and [r["network"] for r in said["rows"]] == ["gpt2", "unet"]
    assert said["rows"][0] == json.loads(json.dumps(asdict(replace(made, network="gpt2"))))
    assert (tmp_path / "plans.md").read_text("utf-8").count("| 16 | Ascend310P3 |") == 2


def test_a_model_that_does_not_compile_is_a_row(tmp_path: Path) -> None:
    row = plans.compared(Case("mlp_softmax", 1, "Ascend0"), 0, tmp_path / "b.db")
    assert row.failed.startswith("TargetError: ") and "Ascend0" in row.failed and "\n" not in row.failed
    shelf = Shelf(tmp_path / "b.json")
    shelf.put(Case("mlp_softmax", 1, "Ascend0"), 0, row)
    assert Shelf(tmp_path / "b.json").find(Case("mlp_softmax", 1, "Ascend0"), 0) is None


# of one batch in `make test`, of two beside each other in `make test-all`
@pytest.mark.parametrize("batches", [(16,), pytest.param((1, 16), marks=pytest.mark.slow)])
def test_rules_and_plan_have_schedules_of_one_search(batches: tuple[int, ...], tmp_path: Path) -> None:
    """In a process of its own each; a plan of the same schedules is no slower than the model by rules."""
    cases = [Case("mlp_softmax", b, "Ascend310B1") for b in batches]
    rows = dict(plans.rows_of(cases, 2, tmp_path / "b.db", len(batches), Shelf(tmp_path / "b.json")))
    assert set(rows) == set(cases) and "mlp_softmax" in NETWORKS
    for case, row in rows.items():
        assert (row.network, row.batch, row.trials, row.failed, row.on_host) == (case.network, case.batch, 2, "", 0)
        assert 0 < row.plan_us <= row.rules_us and row.peak_mb > 0 and row.cpu_seconds > 0
    assert dict(plans.rows_of(cases, 2, tmp_path / "b.db", 2, Shelf(tmp_path / "b.json"))) == rows
