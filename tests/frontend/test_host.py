"""What index notation does not define runs on the host, through ONNX's reference; a text of the graph is enough to do it."""
from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from aoec import ops
from aoec.base.errors import UnsupportedError
from aoec.frontend.translate.onnx import load
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.lowering.arrange.fuse import fuse

from .models import graph_of, model, node, normal, run

X = (1, 4, 5, 6)
F = np.float32
HOST = {
    "numbers": model([node("RoiAlign", "x r b", "y", output_height=2, output_width=3, sampling_ratio=2, spatial_scale=0.5)],
                     {"x": X}, ["y"], {"r": F([[0, 1, 5, 6], [2, 2, 4, 5]]), "b": np.array([0, 0])}),
    "own reference": model([node("LRN", "x", "y", size=33, alpha=0.1)], {"x": (1, 4, 2, 2)}, ["y"]),
    "strings": model([node("RoiAlign", "x r b", "y", coordinate_transformation_mode="output_half_pixel", sampling_ratio=1)],
                     {"x": X}, ["y"], {"r": F([[0, 1, 5, 6]]), "b": np.array([0])}),
    # more pairs of places and updates than the AI Core is given to compare
    "integers": model([node("Cast", "x", "c", to=TensorProto.INT64), node("ScatterElements", "c i u", "y", axis=1)],
                      {"x": (4, 1100)}, ["y"],
                      {"i": np.arange(4400).reshape(4, 1100) * 7 % 1100, "u": np.arange(4400).reshape(4, 1100)},
                      types={"y": TensorProto.INT64}),
    # as many of elements of a list
    "several results": model([node("TopK", "x k", "y z", axis=1)], {"x": (1, 512, 300)}, ["y", "z"], {"k": np.array([33])},
                             types={"z": TensorProto.INT64}),
    "in the middle": model([node("Relu", "x", "a"), node("LRN", "a", "b", size=33), node("Conv", "b w", "y")], {"x": X}, ["y"],
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


def test_bodies_within_bodies_and_without_an_argument() -> None:
    """SoftmaxCrossEntropyLoss is made of NegativeLogLikelihoodLoss, which has a body itself; LinearAttention lacks its fourth argument
    of five."""
    nodes = [helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], reduction="sum"),
             helper.make_node("LinearAttention", ["q", "q", "q", "", "d"], ["z", "state"], kv_num_heads=2, q_num_heads=2,
                              update_rule="gated"),
             helper.make_node("MeanVarianceNormalization", ["m"], ["n"])]  # whose axes are left at their default
    inputs = {"x": (3, 5), "q": (1, 2, 4), "d": (1, 2, 4), "m": (2, 3, 2, 2)}
    proto = model(nodes, inputs, ["y", "z", "n"], {"t": np.array([1, 0, 4])}, opset=27)
    proto.ir_version = 13
    feeds = {"x": normal(3, 5), "q": normal(1, 2, 4), "d": -np.abs(normal(1, 2, 4)), "m": normal(2, 3, 2, 2)}
    graph, weights, notices = load(proto, precision="fp32")
    assert notices == []
    got = ops.evaluate(graph, feeds, weights)
    for output, expected in zip(graph.outputs, ReferenceEvaluator(proto).run(None, feeds)):
        np.testing.assert_allclose(got[output], expected, rtol=1e-4, atol=1e-5)


BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
COUNTED = {"i": INT64, "go": BOOL, "on": BOOL}
LOOP = graph_of([node("Add", "s x", "t"), node("Mul", "t b", "row"), node("Identity", "go", "on")], {"i": (), "go": (), "s": (2, 3)},
                ["on", "t", "row"], COUNTED)
STOPS = graph_of([node("Add", "s a", "t"), node("ReduceSum", "t", "sum", keepdims=0), node("Less", "sum limit", "on")],
                 {"i": (), "go": (), "s": (2, 3)}, ["on", "t"], COUNTED)
DOUBLE = TensorProto.DOUBLE
SCAN = graph_of([node("Add", "s r", "t"), node("Mul", "t t", "u")], {"s": (2,), "r": (2,)}, ["t", "u"], dict.fromkeys("srtu", DOUBLE))
# what only the host runs, or holds: model -> its inputs
WHOLE = {
    "if": model([node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "c"),
                 node("If", "c", "y", then_branch=graph_of([node("Mul", "x b", "p")], {}, ["p"]),
                      else_branch=graph_of([node("Sub", "x b", "q")], {}, ["q"]))],
                {"x": (2, 3)}, ["y"], {"b": normal(3), "zero": np.float32(0).reshape(())}),
    "loop": model([node("ReduceMax", "x", "top", keepdims=0), node("Mul", "top three", "some"), node("Cast", "some", "m", to=INT64),
                   node("Loop", "m - x", "y rows", body=LOOP)], {"x": (2, 3)}, ["y", "rows"],
                  {"b": normal(2, 3), "three": np.float32(3).reshape(())}),
    "loop that stops": model([node("Abs", "x", "a"), node("Loop", "- c a", "y", body=STOPS)], {"x": (2, 3)}, ["y"],
                             {"c": np.array(True), "limit": np.float32(30).reshape(())}),
    "scan backward": model([node("Cast", "x", "d", to=DOUBLE),
                            node("Scan", "s d", "y z", body=SCAN, num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1],
                                 scan_output_axes=[1], scan_output_directions=[1])], {"x": (2, 5)}, ["y", "z"],
                           {"s": normal(2).astype(np.float64)}, types={"y": DOUBLE, "z": DOUBLE}),
    "shape that depends on data": model([node("Relu", "x", "r"), node("NonZero", "r", "n"), node("Transpose", "n", "y")], {"x": X}, ["y"],
                                        types={"y": INT64}),
    "and is fixed again": model([node("NonZero", "x", "n"), node("Slice", "n a b c", "t"), node("Cast", "t", "f", to=1),
                                 node("Reshape", "f s", "g"), node("Exp", "g", "y")], {"x": X}, ["y"],
                                {"a": np.array([0]), "b": np.array([6]), "c": np.array([1]), "s": np.array([4, 6])}),
    "doubles": model([node("Cast", "x", "d", to=TensorProto.DOUBLE), node("Mul", "d big", "e"), node("Div", "e big", "f"),
                      node("Cast", "f", "y", to=1)], {"x": X}, ["y"], {"big": np.array(1e300)}),
    "sequences": model([node("SplitToSequence", "x", "s", axis=1, keepdims=0), node("SequenceAt", "s i", "a"), node("Exp", "a", "y")],
                       {"x": X}, ["y"], {"i": np.array(2)}),
    "strings": model([node("Cast", "x", "n", to=INT64), node("Cast", "n", "s", to=TensorProto.STRING), node("StringConcat", "s t", "y")],
                     {"x": (3,)}, ["y"], {"t": np.array(["a", "bc", ""], object)}, types={"y": TensorProto.STRING}, opset=20),
}


@pytest.mark.parametrize("name", WHOLE)
def test_values_that_only_the_host_holds(name: str) -> None:
    proto = WHOLE[name]
    feeds = {"x": normal(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])}
    graph, weights, _ = load(proto, precision="fp32")
    fused, stored = fuse(graph, weights)
    got = ops.evaluate(parse_graph(show(fused)), feeds, stored)
    assert any(g.kind == "host" for g in fused.groups)
    for output, expected in zip(graph.outputs, run(proto, feeds)):
        if name == "strings":
            assert got[output].tolist() == expected.tolist()
            continue
        assert (got[output].dtype, got[output].shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(got[output], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ordered", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("outputs", ["y", "y first inverse counts"])
def test_what_there_is_once(ordered: int, axis: int | None, outputs: str) -> None:
    """Sorted and in the order in which it is first seen, along each axis."""
    along = {} if axis is None else {"axis": axis}
    proto = model([node("Unique", "x", outputs, sorted=ordered, **along)], {"x": (5, 7)}, outputs.split(),
                  types=dict.fromkeys(outputs.split()[1:], INT64))
    x = np.random.default_rng(3).integers(0, 2, (5, 7)).astype(np.float32)
    x[:, 4], x[3] = x[:, 1], x[0]
    graph, weights, _ = load(proto, precision="fp32")
    got = ops.evaluate(graph, {"x": x}, weights)
    for output, expected in zip(graph.outputs, run(proto, {"x": x})):
        assert got[output].dtype == expected.dtype and np.array_equal(got[output], expected)


def test_the_host_takes_reals_as_declared() -> None:
    proto = model([node("SequenceConstruct", "x x", "s"), node("SequenceErase", "s", "y")], {"x": (4,)}, ["y"],
                  types={"x": TensorProto.FLOAT16})
    proto.graph.output[0].CopyFrom(helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT16, None))
    for precision in ("fp32", "fp16"):
        graph, weights, _ = load(proto, precision=precision)
        x = np.float16([1.0, 300.0, 2.0, 1.0])
        (got,) = ops.evaluate(graph, {"x": x}, weights)["y"]
        assert got.dtype == np.float16 and np.array_equal(got, x)


def test_random_numbers_are_the_same_each_time() -> None:
    proto = model([node("RandomNormalLike", "x", "a"), node("RandomNormalLike", "x", "b")], {"x": X}, ["a", "b"])
    graph, weights, _ = load(proto, precision="fp32")
    one, other = (ops.evaluate(graph, {"x": normal(*X)}, weights) for _ in range(2))
    assert np.array_equal(one["a"], other["a"]) and not np.array_equal(one["a"], one["b"])


def test_what_nothing_runs_is_refused() -> None:
    proto = model([helper.make_node("Gradient", ["x"], ["y"], domain="ai.onnx.preview.training", xs=["x"], y="x")], {"x": X}, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.preview.training", 1))
    with pytest.raises(UnsupportedError, match=r"ai.onnx.preview.training.Gradient \(1 node\)"):
        load(proto)
