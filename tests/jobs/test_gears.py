"""Gears: one file for several shapes of the inputs; which runs is a matter of what is fed, and all share their constants."""
from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import aoec
from aoec.artifact.artifact import load, load_gears, pack
from aoec.base.errors import AoecError, CheckError
from aoec.cli import main
from aoec.frontend.translate.gears import Asked, gears
from tests.frontend.models import normal
from tests.oracle.schemas import faults

pytestmark = pytest.mark.usefixtures("few")

W = normal(24, 8, seed=3)


def net() -> onnx.ModelProto:
    """y[N, L, 8] = relu(x @ w) and s[N], what is fed twice: dimensions with and without names."""
    nodes = [helper.make_node(*n) for n in (("MatMul", ["x", "w"], ["a"]), ("Relu", ["a"], ["y"]), ("Add", ["t", "t"], ["s"]))]
    ends = {"x": ["N", "L", 24], "t": [None], "y": ["N", "L", 8], "s": None}
    inputs, outputs = ([helper.make_tensor_value_info(n, TensorProto.FLOAT, ends[n]) for n in names] for names in ("xt", "ys"))
    graph = helper.make_graph(nodes, "net", inputs, outputs, [onnx.numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the compiled model, its dump, and its bank."""
    folder = tmp_path_factory.mktemp("gears")
    session = aoec.compile(net(), folder / "net.aoec", input_shape={"x": (-1, -1, 24)}, dynamic_dims=[(1, 16), (2, 3)], precision="fp32",
                           bank=folder / "bank.db", dump=folder / "dump", report=folder / "report", verify=True)
    assert [g["gear"] for g in session.report["gears"]] == ["1,16", "2,3"]
    return folder


def feeds(n: int, length: int) -> dict[str, np.ndarray]:
    return {"x": normal(n, length, 24, seed=n), "t": np.ones(1, np.float32)}


@pytest.mark.parametrize("n, length", [(1, 16), (2, 3)])
def test_the_gear_runs_that_takes_what_is_fed(made: Path, n: int, length: int) -> None:
    session = aoec.Session(made / "net.aoec")
    y, s = session.run(None, feeds(n, length))
    np.testing.assert_allclose(y, np.maximum(feeds(n, length)["x"] @ W, 0), rtol=1e-5, atol=1e-5)
    assert s.tolist() == [2]


def test_a_session_describes_what_varies_by_the_models_names(made: Path) -> None:
    session = aoec.Session(made / "net.aoec")
    assert [(i.name, i.shape) for i in session.get_inputs()] == [("x", ["N", "L", 24]), ("t", [1])]
    assert [(o.name, o.shape) for o in session.get_outputs()] == [("y", ["N", "L", 8]), ("s", [1])]
    assert [(g.name, g.shapes["x"]) for g in session.gears] == [("1,16", (1, 16, 24)), ("2,3", (2, 3, 24))]
    assert all(g.modelled["latency_us"] > 0 for g in session.gears) and session.gears[0].modelled != session.gears[1].modelled


@pytest.mark.parametrize("given, words", [
    (feeds(3, 3), r"no gear of this model takes x\[3, 3, 24\], t\[1\]; its gears are 1,16 \(x fp32\[1, 16, 24\]\); 2,3"),
    ({"x": normal(1, 16, 24)}, "input t is missing"), ({**feeds(2, 3), "z": normal(1)}, "no input z"),
    ({**feeds(2, 3), "x": np.ones((2, 3, 24), np.int64)}, "cast it first")])
def test_what_no_gear_takes_is_one_sentence(made: Path, given: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(CheckError, match=words):
        aoec.Session(made / "net.aoec").run(None, given)


def test_each_gear_has_a_report_and_a_way_to_the_others(made: Path) -> None:
    folders = {"1,16": "gear_1x16", "2,3": "gear_2x3"}
    for gear, folder in folders.items():
        said = json.loads((made / "report" / folder / "report.json").read_text())
        page = (made / "report" / folder / "index.html").read_text()
        assert faults("report", said) == [] and said["gear"] == gear and not said["tuned"] and "Not tuned" in page
        assert [f"../{other}/index.html" in page for other in folders.values()] == [True, True]
    assert 'href="gear_1x16/index.html"' in (made / "report" / "index.html").read_text()


def test_constants_are_stored_and_held_once(made: Path) -> None:
    with zipfile.ZipFile(made / "net.aoec") as z:
        assert sum(name.startswith("weights/") for name in z.namelist()) == 1
        assert {f"graphs/{i}.graph" for i in range(2)} <= set(z.namelist())
    one, other = load_gears(made / "net.aoec")
    for (name, a), b in zip(one.weights.items(), other.weights.values(), strict=True):
        assert np.shares_memory(a, b), name
    with pytest.raises(CheckError, match="has 2 gears, and one shape"):
        load(made / "net.aoec")


@pytest.mark.parametrize("stage", ["import", "fuse", "schedule", "emit"])
def test_a_dump_of_gears_is_entered_again(made: Path, stage: str) -> None:
    again = made / f"{stage}.aoec"
    aoec.compile(made / "dump", again, start=stage, bank=made / "bank.db")
    assert again.read_bytes() == (made / "net.aoec").read_bytes()


def test_the_dump_of_a_gear_is_a_dump_of_its_own(made: Path) -> None:
    session = aoec.compile(made / "dump" / "gear_2x3", made / "alone.aoec", start="emit", bank=made / "bank.db")
    assert load(made / "alone.aoec").gear == "" and session.get_inputs()[0].shape == [2, 3, 24]


def test_gears_that_contradict_each_other_are_refused(made: Path) -> None:
    one, other = load_gears(made / "net.aoec")
    assert pack(one, other) == (made / "net.aoec").read_bytes()
    for wrong, words in ((replace(other, gear="1,16"), "has the name of another"), (replace(other, gear=""), "has no name"),
                         (replace(one, gear="3"), "has the shape of inputs of another"),
                         (replace(other, precision="fp16"), "another model, machine or precision")):
        (made / "bad.aoec").write_bytes(pack(one, wrong))
        with pytest.raises(CheckError, match=words):
            load_gears(made / "bad.aoec")


def test_the_command_line_runs_gears(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(made / "net.aoec")
    assert main(["run", file, "--random", "--gear", "2,3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["gear"] == "2,3" and said["outputs"]["y"]["shape"] == [2, 3, 8]
    np.savez(made / "in.npz", **feeds(1, 16))
    assert main(["run", file, "--inputs", str(made / "in.npz")]) == 0
    assert "gear 1,16" in capsys.readouterr().out
    assert main(["run", file, "--random", "--gear", "7"]) == 2
    assert "no gear 7" in capsys.readouterr().err


X, B = {"x": (-1, -1, 24)}, {"x": (-1, 4, 24)}


@pytest.mark.parametrize("shapes, asked, words", [
    (X, Asked(dims=((1, 2),)), "1 gear, and 2 to 100 are taken; a single shape"),
    (X, Asked(dims=tuple((1, n + 1) for n in range(101))), "101 gears"),
    (X, Asked(dims=((1, 2), (3, 4), (1, 2))), "the gear 1,2 twice"), (X, Asked(dims=((1, 2), (0, 2))), "value below 1"),
    (X, Asked(dims=((1, 2), (3,))), "gear 3 has 1 value, and 2 dimensions are -1"),
    ({}, Asked(dims=((1,), (2,))), "0 dimensions are -1 in --input-shape, which is not given"),
    (B, Asked(batches=(4,)), "1 gear, and 2 to 100"), (B, Asked(batches=(4, 8, 4)), "the gear 4 twice"),
    (X, Asked(batches=(1, 2)), "first dimensions alone"),
    ({"x": (2, 4, 24), "t": (3,)}, Asked(batches=(1, 2)), "the first dimension of no input is free"),
    (B, Asked((1, 2), ((1,), (2,))), "exclude each other")])
def test_a_list_of_gears_that_cannot_be_is_one_sentence(shapes: dict[str, tuple[int, ...]], asked: Asked, words: str) -> None:
    with pytest.raises(CheckError, match=words):
        gears(net().graph, shapes, asked)


def test_batches_go_to_every_first_dimension_that_is_free() -> None:
    assert [(g.name, dict(g.shapes)) for g in gears(net().graph, {"x": (-1, 4, 24)}, Asked(batches=(2, 8)))] == [
        ("2", {"x": (2, 4, 24), "t": (2,)}), ("8", {"x": (8, 4, 24), "t": (8,)})]
    assert [dict(g.shapes) for g in gears(net().graph, {"x": (-1, 4, 24), "t": (5,)}, Asked(batches=(2, 8)))] == [
        {"x": (2, 4, 24), "t": (5,)}, {"x": (8, 4, 24), "t": (5,)}]


@pytest.mark.parametrize("shapes, words", [({"z": (-1,)}, "names z; the inputs of"), ({"x": (-1, 4, 25)}, "the model says"),
                                           ({}, "not bound .* those behind the first, for example: --input-shape x:-1,")])
def test_gears_that_the_model_does_not_take_are_refused(tmp_path: Path, shapes: dict[str, tuple[int, ...]], words: str) -> None:
    with pytest.raises(AoecError, match=words):
        aoec.compile(net(), tmp_path / "n.aoec", input_shape=shapes, dynamic_batch=[1, 2], bank=tmp_path / "b.db")
