"""The check of a compiled model refuses none for what onnxruntime does otherwise by a known difference, and all that are wrong."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec import cli
from aoec.frontend import differences
from aoec.frontend.differences import DIFFERENCES, At, of_node
from aoec.jobs.verify import verify
from aoec.jobs.verify.known_differences import find_known
from tests.frontend.models import graph_of, model, node, run

F = np.float32
CROP = {"r": np.array([0, 0, 0.1, 0, 1, 1, 0.9, 0.8], F), "s": np.array([1, 1, 1, 1.5], F)}  # rows by scale 1: onnxruntime takes all


def net(*more: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    resize = node("Resize", "x r s", "y", mode="linear", coordinate_transformation_mode="tf_crop_and_resize")
    return model([resize, *more], {"x": (1, 2, 6, 5)}, outputs, CROP, opset=13)


def compiled(proto: onnx.ModelProto, folder: Path, *words: str) -> int:
    onnx.save(proto, str(folder / "m.onnx"))
    return cli.main(["compile", str(folder / "m.onnx"), "--precision", "keep", "--verify", "--bank", str(folder / "b.db"), "--base", "none",
                     "-o", str(folder / "m.aoec"), *words])


def test_a_model_is_not_refused_for_a_known_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compiled(net(), tmp_path) == 0 and (tmp_path / "m.aoec").exists()
    said = " ".join("".join(capsys.readouterr()).split())
    assert "of the operators' references" in said
    assert "onnxruntime differs by a known difference of Resize, tf_crop_and_resize, an axis of scale 1 (docs/operators.md)" in said


@pytest.mark.parametrize("rule, scale, size", [("align_corners", 2.5, 3), ("pytorch_half_pixel", 0.25, 4)])
def test_fractional_scales_are_held_against_onnxruntime(rule: str, scale: float, size: int, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    mode = "cubic" if scale < 1 else "linear"
    proto = model([node("Resize", "x - s", "y", mode=mode, coordinate_transformation_mode=rule)], {"x": (1, 1, size, size)}, ["y"],
                  {"s": np.array([1, 1, scale, scale], F)}, opset=13)
    assert compiled(proto, tmp_path) == 0
    assert "of onnxruntime" in " ".join("".join(capsys.readouterr()).split())


def test_wrong_values_behind_a_known_difference_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                            capsys: pytest.CaptureFixture[str]) -> None:
    real = verify.run_model
    monkeypatch.setattr(verify, "run_model", lambda *given: {name: x + 1 for name, x in real(*given).items()})
    assert compiled(net(), tmp_path) == 1 and not (tmp_path / "m.aoec").exists()
    said = " ".join("".join(capsys.readouterr()).split())
    assert "y differs by" in said and "--precision fp32" not in said  # of which it is


def test_outputs_that_do_not_hang_on_the_node_have_no_excuse(tmp_path: Path) -> None:
    """The other output of the model; and one behind a branch, which the node is in, has one."""
    proto = net(node("Relu", "y", "z"), node("Neg", "x", "w"), outputs=("z", "w"))
    onnx.save(proto, str(tmp_path / "m.onnx"))
    assert {name: op for name, (op, _) in find_known(str(tmp_path / "m.onnx"), {}).items()} == {"z": "Resize"}
    inner = graph_of([net().graph.node[0]], {}, ["y"])
    choice = node("If", "c", "v", then_branch=inner, else_branch=graph_of([node("Neg", "x", "z")], {}, ["z"]))
    branch = model([choice, node("Relu", "v", "w")], {"x": (1, 2, 6, 5), "c": ()}, ["w"], CROP, opset=13, types={"c": TensorProto.BOOL})
    onnx.save(branch, str(tmp_path / "b.onnx"))
    assert {*find_known(str(tmp_path / "b.onnx"), {})} == {"w"}


@pytest.mark.parametrize("bad, found", [(np.nan, True), (np.inf, True), (1.0, False)])
def test_differences_of_special_values_count_where_there_are_some(bad: float, found: bool, tmp_path: Path) -> None:
    nodes = [node("Exp", "x", "e"), node("MaxPool", "e", "y", kernel_shape=[2])]
    onnx.save(model(nodes, {"x": (1, 1, 4)}, ["y"]), str(tmp_path / "m.onnx"))
    values = {"e": np.array([[[1, bad, 2, 3]]], F)}
    assert bool(find_known(str(tmp_path / "m.onnx"), values)) is found


def test_the_table_says_where_we_differ() -> None:
    """Every place has words for all columns, and operators that ONNX has; a node of another domain is none of them."""
    for d in DIFFERENCES:
        assert all((d.when, d.says, d.onnxruntime, d.ours)) and all(onnx.defs.has(op) for op in d.operators)
    other = node("Resize", "x", "y")
    other.domain = "com.example"
    assert of_node(other, 13, {}) == [] and of_node(node("Relu", "x", "y"), 13, {}) == []
    assert len([*differences.rows()]) == len(DIFFERENCES) + 2
    assert At(other, 13, {}).text("mode", "none") == "none"


def test_the_case_is_one() -> None:
    """That onnxruntime passes over the region of an axis of scale 1, though ONNX's text has none of that."""
    x = np.arange(60, dtype=F).reshape(1, 2, 6, 5)
    rows = run(net(), {"x": x})[0][0, 0, :, 0]
    assert rows.tolist() == [0, 5, 10, 15, 20, 25]
