"""What index notation does not define runs on the host, through ONNX's reference; a text of the graph is enough to do it."""
from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from aoec import ops
from aoec.base.errors import UnsupportedError
from aoec.frontend.onnx import load
from aoec.ir.parse import parse_graph
from aoec.ir.show import show
from aoec.lowering.fuse import fuse

from .models import model, node, normal, run

X = (1, 4, 5, 6)
HOST = {
    "numbers": model([node("CumSum", "x a", "y", reverse=1)], {"x": X}, ["y"], {"a": np.array(2)}),
    "own reference": model([node("LRN", "x", "y", size=3, alpha=0.1)], {"x": X}, ["y"]),
    "strings": model([node("GridSample", "x g", "y", padding_mode="border")], {"x": X}, ["y"], {"g": normal(1, 3, 2, 2)}),
    "integers": model([node("ArgMax", "x", "y", axis=1)], {"x": X}, ["y"], types={"y": TensorProto.INT64}),
    "gather": model([node("Gather", "x i", "y", axis=3)], {"x": X}, ["y"], {"i": np.array([5, 0, 2])}),
    "several results": model([node("TopK", "x k", "y z", axis=1)], {"x": X}, ["y", "z"], {"k": np.array([2])},
                             types={"z": TensorProto.INT64}),
    "in the middle": model([node("Relu", "x", "a"), node("LRN", "a", "b", size=3), node("Conv", "b w", "y")], {"x": X}, ["y"],
                           {"w": normal(3, 4, 2, 2)}),
}


@pytest.mark.parametrize("name", HOST)
def test_matches_onnxruntime_through_text(name: str) -> None:
    proto = HOST[name]
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": normal(*shape)}
    graph, weights, notices = load(proto, precision="fp32")
    assert len(notices) == 1 and "which run on the host" in notices[0]
    fused, stored = fuse(graph, weights)
    assert any(g.kind == "host" for g in fused.groups)
    got = ops.evaluate(parse_graph(show(fused)), feeds, stored)
    for output, expected in zip(graph.outputs, run(proto, feeds)):
        assert got[output].dtype == expected.dtype
        np.testing.assert_allclose(got[output], expected, rtol=1e-5, atol=1e-6)


def test_functions_of_onnx_are_inlined() -> None:
    proto = model([node("LayerNormalization", "x s", "y", axis=-1)], {"x": (2, 3, 8)}, ["y"], {"s": normal(8)})
    graph, weights, _ = load(proto, precision="fp32")
    feeds = {"x": normal(2, 3, 8)}
    assert not any(n.op == "host.LayerNormalization" for n in graph.nodes)
    np.testing.assert_allclose(ops.evaluate(graph, feeds, weights)["y"], run(proto, feeds)[0], rtol=1e-4, atol=1e-5)


def test_subgraphs_are_refused() -> None:
    branch = helper.make_graph([node("Relu", "x", "r")], "b", [], [helper.make_tensor_value_info("r", TensorProto.FLOAT, X)])
    other = helper.make_graph([node("Neg", "x", "n")], "c", [], [helper.make_tensor_value_info("n", TensorProto.FLOAT, X)])
    proto = model([node("If", "c", "y", then_branch=branch, else_branch=other)], {"x": X, "c": ()}, ["y"], types={"c": TensorProto.BOOL})
    with pytest.raises(UnsupportedError, match=r"unsupported operators: If \(1 node\)"):
        load(proto)


def test_indices_of_max_pool_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"MaxPool with indices \(1 node\)"):
        load(model([node("MaxPool", "x", "y i", kernel_shape=[2, 2])], {"x": X}, ["y", "i"], types={"i": TensorProto.INT64}))


def test_a_shape_that_depends_on_data_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="depends on data"):
        load(model([node("NonZero", "x", "y")], {"x": X}, ["y"], types={"y": TensorProto.INT64}))
