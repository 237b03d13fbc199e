"""Graphs written as ONNX again: onnxruntime makes of them what it makes of the models that they were read from, whole and in slices."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from aoec import cli
from aoec.artifact.artifact import load as load_artifact
from aoec.base.errors import UnsupportedError
from aoec.frontend.export.export import export
from aoec.frontend.export.steps import End
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.jobs.compile.ports import ports
from aoec.lowering.arrange.fuse import fuse

from .models import feeds_of, model, node, normal, run
from .test_operators import CASES
from .written import seeded

REFUSED = {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"}  # operator set 18 has them
CHAIN = """<ir_version: 8, opset_import: ["": 17]>
images (float[6,16,8,8] x, float[16,16,3,3] w1, float[16] b1, float[1024,40] w2) => (float[6,40] y, float16[6,16,8,8] z) {
  c = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(c) f = Flatten(r) m = MatMul(f, w2) y = Softmax(m) z = Cast<to=10>(r)
}"""


def written(graph: Graph, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """A graph as a model that onnx's checker takes."""
    inputs, outputs = ([End(p.name, p.tensor, p.dtype) for p in ports(graph, names, "")] for names in (graph.inputs, graph.outputs))
    proto = export(graph, weights, inputs, outputs)
    onnx.checker.check_model(proto, full_check=True)
    return proto


@pytest.mark.parametrize("name", CASES)
def test_a_graph_is_the_model_that_it_was_read_from(name: str) -> None:
    proto = CASES[name]
    feeds = feeds_of(proto)
    expected = run(proto, feeds)[0]
    for precision, tolerance in (("fp32", 1e-5), ("fp16", 4e-3)):
        graph, weights = fuse(*load(proto, precision=precision)[:2])
        if name in REFUSED:
            with pytest.raises(UnsupportedError, match="no operators of ONNX"):
                written(graph, weights)
            continue
        again = written(graph, weights)
        assert [(o.name, o.type.tensor_type.elem_type) for o in again.graph.output] \
            == [(o.name, o.type.tensor_type.elem_type) for o in onnx.shape_inference.infer_shapes(proto).graph.output]
        got = run(again, feeds)[0]
        assert got.shape == expected.shape
        assert np.abs(got.astype(np.float32) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.parametrize("op", ["Gelu", "Swish"])
def test_activations_that_are_one_word(op: str) -> None:
    nodes = {"Swish": [node("Sigmoid", "x", "s"), node("Mul", "x s", "y")], "Gelu": [node("Gelu", "x", "y", approximate="tanh")]}[op]
    proto, feeds = model(nodes, {"x": (4, 8)}, ["y"], opset=20), {"x": normal(4, 8)}
    graph, weights = fuse(*load(proto, precision="fp32")[:2])
    assert len(graph.nodes) == 1
    np.testing.assert_allclose(run(written(graph, weights), feeds)[0], run(proto, feeds)[0], rtol=1e-5, atol=1e-6)


def test_attention_is_spelled_out() -> None:
    """As exporters do, with the mask that is added to its scores."""
    nodes = [node("Transpose", "k", "t", perm=[0, 1, 3, 2]), node("MatMul", "q t", "s"), node("Mul", "s scale", "u"),
             node("Add", "u b", "w"), node("Softmax", "w", "p", axis=-1), node("MatMul", "p v", "y")]
    shapes = {"q": (1, 2, 64, 32), "k": (1, 2, 64, 32), "v": (1, 2, 64, 32)}
    proto = model(nodes, shapes, ["y"], {"scale": np.float32(0.2), "b": normal(64, 64)})
    feeds = {name: normal(*shape, seed=at) for at, (name, shape) in enumerate(shapes.items())}
    graph, weights, _ = load(proto, precision="fp16")
    assert [n.op for n in graph.nodes] == ["attention"]
    np.testing.assert_allclose(run(written(graph, weights), feeds)[0], run(proto, feeds)[0], rtol=1e-2, atol=2e-3)


def test_a_model_in_slices_runs_in_any_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.chdir(tmp_path)
    proto = seeded(CHAIN)
    onnx.save(proto, "images.onnx")
    assert cli.main(["compile", "images.onnx", "--target", "Ascend310P3", "--slices", "g0..g1/3", "--bank", "b.db", "--base", "none",
                     "--jobs", "1", "--dump", "d", "-o", "a.aoec"]) == 0
    assert any(g.name.endswith("_3of3") for g in load_artifact("a.aoec").graph.groups)
    feeds = {"x": normal(6, 16, 8, 8)}
    expected = run(proto, feeds)
    for source in ("a.aoec", "d/fused.graph"):
        assert cli.main(["export", source, "-o", "s.onnx"]) == 0
        again = onnx.load("s.onnx")
        assert [n.op_type for n in again.graph.node].count("Conv") == 3
        for got, wanted in zip(run(again, feeds), expected, strict=True):
            assert got.dtype == wanted.dtype
            np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=2e-2, atol=5e-3)
    before = Path("s.onnx").read_bytes()
    capsysbinary.readouterr()
    assert cli.main(["export", "d/fused.graph", "-o", "-"]) == 0 and capsysbinary.readouterr().out == before
    onnx.save(model([node("ConvInteger", "x w", "y")], {"x": (1, 1, 4, 4)}, ["y"], {"w": np.ones((1, 1, 2, 2), np.uint8)},
                    types={"x": onnx.TensorProto.UINT8, "y": onnx.TensorProto.INT32}), "bytes.onnx")
    assert cli.main(["import", "bytes.onnx", "-o", "bytes.graph"]) == 0
    capsysbinary.readouterr()
    assert cli.main(["export", "bytes.graph", "-o", "s.onnx"]) == 2 and Path("s.onnx").read_bytes() == before
    assert b"it is a product of whole numbers" in capsysbinary.readouterr().err
