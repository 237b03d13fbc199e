"""Layouts of matrices between products as a kind of tuning: taken where they pay as tuned, told of as AOE does, and found again."""
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx.parser
import pytest

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.jobs.choose import formats
from aoec.jobs.compile import compile as compile_job
from aoec.jobs.compile.steps import choose_layouts
from aoec.jobs.run.run import random_feeds
from aoec.jobs.verify.verify import verify_model
from aoec.target.machine import load
from tests.frontend.written import seeded
from tests.lowering.test_nz import block
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")

TEXT = """<ir_version: 8, opset_import: ["": 17]>
mlp (float[32,48] x, float[48,64] v, float[64] b, float[64,48] w) => (float[32,48] y) {
  t = MatMul(x, v) u = Add(t, b) r = Relu(u) s = MatMul(r, w) y = Softmax(s)
}"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A folder with a network of two products and a softmax, and a machine on which rows that become fractals cost forty times as much."""
    onnx.save(seeded(TEXT), tmp_path / "mlp.onnx")
    place = next(p for p in load("Ascend910B3").sources if p.endswith(".nd2nz_load"))
    (tmp_path / "rows.toml").write_text(
        f'name = "rows"\nextends = "Ascend910B3"\n{place} = {{value = 1520, source = "a test", confidence = "estimate"}}\n')
    return tmp_path


def tuned(folder: Path, target: str, results: str) -> dict[str, Any]:
    """What the result file of a run says."""
    words = {"--target": target, "--bank": folder / f"{results}.db", "--results": folder / results, "-o": folder / f"{results}.aoec"}
    assert cli.main(["tune", str(folder / "mlp.onnx"), "--job", "opat", "--budget", "3", "--jobs", "1", "--base", "none",
                     *[str(word) for pair in words.items() for word in pair]]) == 0
    written = json.loads(max((folder / results).glob("aoe_result_opat_*.json")).read_text())
    assert faults("result", written) == []
    said: dict[str, Any] = written[1]["OPAT"]
    return said


def test_a_layout_that_pays_is_taken_told_and_found_again(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = tuned(job, str(job / "rows.toml"), "out")
    assert "found in the bank" not in capsys.readouterr().out  # what a run has put there itself is its own work
    (figures,) = [e["tune_performance"]["Format"] for e in first["repo_modified_operators"] if "Format" in e["tune_performance"]]
    assert figures["performance_after_tune(us)"] < figures["performance_before_tune(us)"] and figures["update_mode"] == "add"
    assert first["repo_summary"]["total_num"] == 4  # two products, a softmax, one format
    assert first["model_result_performance(ms)"] < first["model_baseline_performance(ms)"]
    artifact = load_artifact(job / "out.aoec")
    assert [t.name for t in artifact.graph.tensors if t.layout == "NZ"] and {g.kind for g in artifact.graph.groups} == {"cube", "vector"}
    agreement = verify_model(artifact, artifact.graph, artifact.weights, random_feeds(artifact, 3), str(job / "mlp.onnx"))["y"]
    assert agreement.reference == "onnxruntime" and agreement.relative_error < 2e-3
    before = (job / "out.aoec").read_bytes()
    assert cli.main(["compile", str(job / "mlp.onnx"), "--target", str(job / "rows.toml"), "--base", "none", "--bank", str(job / "out.db"),
                     "-o", str(job / "later.aoec")]) == 0
    assert (job / "later.aoec").read_bytes() == before  # what the bank knows needs no --tune
    again = tuned(job, str(job / "rows.toml"), "out")
    assert again["repo_summary"]["repo_add_num"] == 0 and again["repo_summary"]["total_num"] == 4
    assert again["model_baseline_performance(ms)"] == again["model_result_performance(ms)"] == first["model_result_performance(ms)"]
    assert (job / "out.aoec").read_bytes() == before


def test_a_bank_that_has_heard_of_nothing_costs_no_second_plan(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --tune, groups in NZ are lowered where the bank has something of one."""
    planned: list[bool] = []
    real = compile_job.group_model
    for module in (compile_job, choose_layouts):
        monkeypatch.setattr(module, "group_model", lambda stage, *rest: planned.append(bool(stage.graph.groups)) or real(stage, *rest))
    words = ["compile", str(job / "mlp.onnx"), "--base", "none", "--bank", str(job / "b.db"), "-o", str(job / "m.aoec")]
    assert cli.main(words) == 0 and planned == [False]
    assert cli.main([*words, "--tune", "--budget", "3", "--jobs", "1", "--no-verify"]) == 0 and planned[1:] != [False]
    del planned[:]
    assert cli.main(words) == 0 and planned[:2] == [False, True]


def test_nothing_changes_where_nothing_may_be_searched() -> None:
    assert formats.choose_formats(block("mlp"), "base", lambda graph, tune: None) == ([], "base", "base")  # type: ignore[arg-type, comparison-overlap]
