"""Slices as part of a compile: values against onnxruntime, every stage's text, entering a dump again, reports and refusals."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.jobs.run import random_feeds
from aoec.jobs.verify import verify_model

TEXT = """<ir_version: 8, opset_import: ["": 17]>
images (float[6,16,8,8] x, float[16,16,3,3] w1, float[16] b1) => (float[6,16,8,8] y) {
  c = Conv<pads=[1,1,1,1]>(x, w1, b1) y = Relu(c)
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a convolution in it."""
    model, random = onnx.parser.parse_model(TEXT), np.random.default_rng(1)
    for i in [i for i in model.graph.input if i.name != "x"]:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        model.graph.initializer.append(numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), i.name))
        model.graph.input.remove(i)
    onnx.save(model, tmp_path / "images.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled(*words: str) -> int:
    return cli.main(["compile", *words, "--bank", "b.db", "--base", "none", "--jobs", "1"])


def test_a_compiled_model_in_slices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["images.onnx", "--target", "Ascend310P3", "--slices", "g0..g1/3", "--verify", "--dump", "d", "-o", "a.aoec"]
    assert compiled(*words) == 0
    said = capsys.readouterr()
    assert "g0..g1 in 3" in said.out and "g1_1of3" in said.out and "within" in said.out and "slice x3" in said.out
    artifact = load_artifact("a.aoec")
    assert {g.name for g in artifact.graph.groups} >= {"g0_parts", "g0_1of3", "g1_3of3", "g1_joined"}
    assert len({id(g.program) for g in artifact.groups if g.program is not None}) < sum(g.program is not None for g in artifact.groups)
    agreement = verify_model(artifact, artifact.graph, artifact.weights, random_feeds(artifact, 3), "images.onnx")["y"]
    assert agreement.reference == "onnxruntime" and agreement.relative_error < 2e-3
    assert (folder / "d/funcs/g1_2of3.tir").is_file()
    assert compiled("d", "--from", "fuse", "-o", "again.aoec") == 0
    assert Path("again.aoec").read_bytes() == Path("a.aoec").read_bytes()  # the dumped graph says all of it
    assert cli.main(["slice", "d/fused.graph", "--regions", "g2/2", "-o", "e.graph"]) == 0
    assert "group g2_2of2" in Path("e.graph").read_text() and Path("e.graph.npz").is_file()
    capsys.readouterr()
    assert compiled("images.onnx", "--target", "Ascend310P3", "--slices", "g0..g1/3", "--json", "-o", "b.aoec") == 0
    assert any("g0..g1 in 3" in line for line in json.loads(capsys.readouterr().out)["notes"])
    assert Path("b.aoec").read_bytes() == Path("a.aoec").read_bytes()
    assert cli.main(["deliver", "a.aoec", "--to", "out", "--bank", "b.db"]) == 2
    assert "slices" in capsys.readouterr().err and not Path("out").exists()


@pytest.mark.parametrize("words, said", [
    (["--slices", "g0..g2/4"], "no 4 equal parts"), (["--slices", "g7/2"], "there is no group g7"),
    (["--slices", "g0:2"], "not of the form"), (["--slices", "g2..g0/2"], "no region")])
def test_what_is_no_region_is_one_sentence(folder: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = compiled("images.onnx", "--target", "Ascend310P3", *words, "-o", "a.aoec")
    except SystemExit as e:
        code = int(e.code or 0)
    last = capsys.readouterr().err.splitlines()[-1]
    assert code == 2 and last.startswith("aoec: error:") and said in last and not Path("a.aoec").exists()


def test_a_graph_without_groups_has_no_regions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["import", "images.onnx", "-o", "n.graph"]) == 0
    assert cli.main(["slice", "n.graph", "--regions", "g0/2"]) == 2
    assert "has no groups; run aoec fuse first" in capsys.readouterr().err
