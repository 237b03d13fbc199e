"""Slices as part of a compile: values against onnxruntime, every stage's text, entering a dump again, reports and refusals."""
from __future__ import annotations

import json
import re
from pathlib import Path

import onnx
import pytest

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.choose.regions import Whole, fit, regions
from aoec.jobs.run.run import random_feeds
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_model
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.frontend.written import seeded

TEXT = """<ir_version: 8, opset_import: ["": 17]>
images (float[6,16,8,8] x, float[16,16,3,3] w1, float[16] b1) => (float[6,16,8,8] y) {
  c = Conv<pads=[1,1,1,1]>(x, w1, b1) y = Relu(c)
}"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a convolution in it."""
    onnx.save(seeded(TEXT), tmp_path / "images.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def compiled(*words: str) -> int:
    return cli.main(["compile", *words, "--bank", "b.db", "--base", "none", "--jobs", "1"])


def test_a_compiled_model_in_slices(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["images.onnx", "--target", "Ascend310P3", "--slices", "g0..g1/3", "--verify", "--dump", "d", "--json", "-o", "a.aoec"]
    assert compiled(*words) == 0
    said = capsys.readouterr().out
    assert "g0..g1 in 3" in json.loads(said)["notes"][0] and "within" in said
    assert {"slice x3", "g1_1of3"} <= set(re.findall(r'"(.*?)"', said))
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
    assert cli.main(["deliver", "a.aoec", "--to", "out", "--all", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    cut = [g for g in said["groups"] if "_1of3" in g["name"] and g["record"]]
    assert cut and all("it is a slice" in g["record"]["doubt"] for g in cut) and said["deliverable"]["share"] == 0
    assert "g0..g1 in 3: no public file tells CANN of that" in said["notes"][0] and said["notes"][0] in Path("out/APPLY.md").read_text()


@pytest.mark.parametrize("words, said", [
    (["--slices", "g0..g2/5000"], "no 5000 equal parts"), (["--slices", "g7/2"], "there is no group g7"),
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


# ---------------------------------------------------------------- the search

SMALL = """name = "small"
extends = "Ascend310P3"
shared.l2_usable_bytes = {value = 12000, source = "a test", confidence = "estimate"}
shared.l2_size_bytes = {value = 16000, source = "a test", confidence = "estimate"}
shared.hbm_bytes_per_s = {value = 1e9, source = "a test", confidence = "estimate"}
"""


def test_regions_that_pay_are_found_taken_and_remembered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With 12 KB of L2 and little bandwidth, 2 KB an image and 12 KB a batch: a chain of three runs in slices of its batch."""
    (folder / "small.toml").write_text(SMALL)
    words = ["images.onnx", "--target", "small.toml", "--slices", "auto", "--verify"]
    assert compiled(*words, "-o", "a.aoec") == 0
    said = capsys.readouterr()
    assert re.search(r"slices: [0-9.,]+ -> [0-9.,]+ us modelled", said.err) and "groups in slices" in said.out and "onnxruntime" in said.out
    cut = load_artifact("a.aoec")
    assert any(g.name.endswith("_1of2") or g.name.endswith("_1of3") or g.name.endswith("_1of6") for g in cut.graph.groups)
    before, after = map(number, re.search(r"slices: ([0-9.,]+) -> ([0-9.,]+) us", said.err).groups())  # type: ignore[union-attr]
    assert after < before and dict(cut.figures)["latency_ns"] == pytest.approx(1000 * after, rel=0.01)
    assert compiled(*words[:-1], "-o", "again.aoec") == 0 and Path("again.aoec").read_bytes() == Path("a.aoec").read_bytes()


def number(text: str) -> float:
    return float(text.replace(",", ""))


def chain(images: int, length: int) -> Graph:
    """Groups of one operator, one behind the other, on images of a megabyte."""
    tensors = tuple(Tensor(n, "fp16", (images, 64, 64, 128)) for n in "xabc"[:length + 1])
    nodes = tuple(OpNode(op, op, (x.name,), (y.name,)) for op, x, y in zip(("relu", "abs"), tensors, tensors[1:]))
    groups = tuple(Group(f"g{i}", "vector", (n.name,)) for i, n in enumerate(nodes))
    return Graph("chain", ("x",), (tensors[length].name,), tensors, nodes, groups)


@pytest.mark.parametrize("images, length, wanted", [(2, 2, []), (12, 1, []), (12, 2, [("g0", "g1")]), (13, 2, [("g0", "g1")])])
def test_what_gains_nothing_is_not_cut(images: int, length: int, wanted: list[tuple[str, str]]) -> None:
    """Of 2 MB a tensor all stays in L2; of 12 MB a part does, and slices of at most 4 MB keep what lies between two groups; of 13 they are
    uneven. One group has nothing between."""
    graph, machine = chain(images, length), load("Ascend310P3")
    whole = {}
    for t in tasks(graph, machine):
        p = problem(t.func, machine, t.state)
        best = start(p).best
        whole[t.group.name] = Whole(show(p.trace(best)), measure(p.program(best), machine, t.state))
    found = regions(graph, machine, whole)
    assert [(r.first, r.last) for r in found] == wanted
    assert all((images % r.slices == 0) == (images == 12) and images > r.slices >= 3 for r in found)
    assert length == 1 or regions(graph, machine, {"g0": whole["g0"]}) == []  # what has no schedule runs on the host


def test_the_tiles_of_half_a_product_are_shared_out_anew() -> None:
    """Among eight cores by columns too, where the rows of the whole product are enough for all."""
    machine, text = load("Ascend310P3"), "matmul(m={}, k=768, n=50257)"
    p, half = (problem(lower_operator(text.format(rows)), machine) for rows in (2048, 1024))
    found = fit(half, show(p.trace(start(p).default)))
    assert found is not None
    (ticks,) = half.cost([found])
    assert ticks is not None and ticks <= 1.01 * start(half).default_ticks
