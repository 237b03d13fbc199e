"""Every ONNX operator that is translated gives what onnxruntime gives: as imported and as fused, in fp32 and fp16."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

from aoec import ops
from aoec.frontend.rules import HAND
from aoec.frontend.translate.onnx import load
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.lowering.arrange.fuse import fuse

from . import cases_cube, cases_vector
from .models import feeds_of, model, node, normal, run
from .test_core_rules import RULED

X = (1, 6, 9, 8)
ELSEWHERE = {"GridSample", "Scatter", "ScatterElements", "ScatterND", "TensorScatter"}  # test_sample.py, test_scatter.py


def one(op: str, *constants: np.ndarray, shape: tuple[int, ...] = X, opset: int = 17, second: bool = False,
        **attributes: object) -> onnx.ModelProto:
    """A model of one operator over an input of `shape`, perhaps one more, and constants."""
    names = " ".join(["x", *(["x2"] if second else []), *(f"c{at}" for at in range(len(constants)))])
    inputs = {"x": shape, **({"x2": shape} if second else {})}
    return model([node(op, names, "y", **attributes)], inputs, ["y"], {f"c{at}": c for at, c in enumerate(constants)}, opset)


def statistics(channels: int) -> tuple[np.ndarray, ...]:
    return tuple(normal(channels, seed=s) for s in (1, 2, 3)) + (np.abs(normal(channels, seed=4)) + 0.1,)


def whole(op: str, **attributes: object) -> onnx.ModelProto:
    """A model of one operator whose result are whole numbers."""
    return model([node(op, "x", "y", **attributes)], {"x": X}, ["y"], types={"y": onnx.TensorProto.INT64})


F = np.float32
CASES = {
    "Abs": one("Abs"), "Add": one("Add", second=True), "Add constant": one("Add", normal(6, 1, 1)), "Add scalar": one("Add", F(0.5)),
    "Add rows": one("Add", normal(8)),
    "AveragePool": one("AveragePool", kernel_shape=[3, 2], strides=[2, 1]),
    "AveragePool padded": one("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
    "AveragePool counted": one("AveragePool", kernel_shape=[3, 3], pads=[1, 0, 1, 1], count_include_pad=1),
    "AveragePool ceil": one("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "BatchNormalization": one("BatchNormalization", *statistics(6)), "Cast": one("Cast", to=1),
    "Clip": one("Clip", F(-0.5), F(0.7)), "Clip old": one("Clip", opset=9, min=-0.5, max=0.7), "Clip open": one("Clip", F(0.1)),
    "Concat": one("Concat", second=True, axis=1), "Concat whole": one("Concat", second=True, axis=1, shape=(1, 32, 3, 2)),
    "Conv": one("Conv", normal(5, 6, 3, 3)),
    "Conv full": one("Conv", normal(20, 6, 3, 2), normal(20), strides=[2, 1], pads=[1, 0, 2, 1]),
    "Conv dilated": one("Conv", normal(4, 6, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2]),
    "Conv grouped": one("Conv", normal(9, 2, 3, 3), group=3),
    "Conv depthwise": one("Conv", normal(32, 1, 3, 3), shape=(1, 32, 6, 5), group=32),
    "Conv same upper": one("Conv", normal(4, 6, 3, 2), auto_pad="SAME_UPPER", strides=[2, 2]),
    "Conv same lower": one("Conv", normal(4, 6, 2, 3), auto_pad="SAME_LOWER"),
    "Conv valid": one("Conv", normal(4, 6, 2, 3), auto_pad="VALID"),
    "Div": one("Div", F(3.0)), "Div by": one("Div", normal(6, 1, 1) + 9), "Dropout": one("Dropout", opset=9, ratio=0.3),
    "Erf": one("Erf"), "Exp": one("Exp"), "Flatten": one("Flatten", axis=2), "Gelu": one("Gelu", opset=20),
    "Gelu tanh": one("Gelu", opset=20, approximate="tanh"),
    "Gemm": one("Gemm", normal(7, 5), normal(5), shape=(3, 7)),
    "Gemm turned": one("Gemm", normal(5, 3), shape=(3, 7), transA=1, transB=1),
    "Gemm scaled": one("Gemm", normal(7, 5), normal(1, 5), shape=(3, 7), alpha=0.5, beta=2.0),
    "Gemm column": one("Gemm", normal(7, 5), normal(3, 1), shape=(3, 7)),
    "GlobalAveragePool": one("GlobalAveragePool"), "GlobalMaxPool": one("GlobalMaxPool"),
    "HardSigmoid": one("HardSigmoid", alpha=0.3),
    "HardSwish": one("HardSwish"), "LRN": one("LRN", size=3, alpha=0.3, beta=0.6, bias=1.5),
    "LRN of nets": one("LRN", size=5, alpha=0.3), "Identity": one("Identity"),
    "LayerNormalization": one("LayerNormalization", normal(8), normal(8, seed=1)),
    "LayerNormalization of images": one("LayerNormalization", normal(1, 9, 8), axis=2, epsilon=0.1),
    "LogSoftmax": one("LogSoftmax"),
    "Split": model([node("Split", "x c", "a y", axis=1)], {"x": X}, ["y"], {"c": np.array([2, 4])}),
    "Split even": model([node("Split", "x", "a y", axis=-1)], {"x": X}, ["y"]), "LogSoftmax old": one("LogSoftmax", opset=11),
    "RMSNormalization": one("RMSNormalization", normal(8), opset=23),
    "RMSNormalization of images": one("RMSNormalization", normal(9, 8), opset=23, axis=-2), "Swish": one("Swish", opset=24),
    "Swish steep": one("Swish", opset=24, alpha=1.5),
    "LeakyRelu": one("LeakyRelu", alpha=0.2),
    "Log": model([node("Abs", "x", "a"), node("Add", "a c", "b"), node("Log", "b", "y")], {"x": X}, ["y"], {"c": F(1.0)}),
    "MatMul": one("MatMul", normal(8, 5)), "MatMul dynamic": model(
        [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "y")], {"x": X}, ["y"]),
    "Max": one("Max", second=True), "Max scalar": one("Max", F(0.1)),
    "MaxPool": one("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "MaxPool ceil": one("MaxPool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    "Mean": one("Mean", second=True), "Mish": one("Mish", opset=18), "Min": one("Min", F(0.3)),
    "Mul": one("Mul", second=True), "Mul channels": one("Mul", normal(6, 1, 1)), "Neg": one("Neg"), "Pow": one("Pow", F(2.0)),
    "Pow cubed": one("Pow", F(3.0)),
    "Reciprocal": model([node("Exp", "x", "e"), node("Reciprocal", "e", "y")], {"x": X}, ["y"]),
    "ReduceMean": one("ReduceMean", axes=[2, 3], keepdims=0), "ReduceMean rows": one("ReduceMean", axes=[-1]),
    "ReduceMean apart": one("ReduceMean", axes=[0, 1, 3]), "ReduceSum nothing": one("ReduceSum", np.zeros(0, int), noop_with_empty_axes=1),
    "ReduceL1": one("ReduceL1", axes=[1, 3], keepdims=0), "ReduceL2": one("ReduceL2"), "ReduceSumSquare": one("ReduceSumSquare", axes=[2]),
    "ReduceLogSum": model([node("Exp", "x", "e"), node("ReduceLogSum", "e", "y", axes=[3])], {"x": X}, ["y"]),
    "ReduceLogSumExp": one("ReduceLogSumExp", axes=[1, 2], keepdims=0), "ReduceProd": one("ReduceProd", axes=[0, 2], shape=(2, 4, 3)),
    "ReduceProd of nothing": one("ReduceProd", shape=(2, 0, 3), axes=[1]),
    "InstanceNormalization": one("InstanceNormalization", normal(6), normal(6, seed=1), epsilon=0.1),
    "LpNormalization": one("LpNormalization", axis=1), "LpNormalization magnitudes": one("LpNormalization", p=1),
    "LayerNormalization mean": model([node("LayerNormalization", "x s", "z y", axis=2)], {"x": X}, ["y"], {"s": normal(9, 8)}),
    "LayerNormalization deviation": model([node("LayerNormalization", "x s", "z - y")], {"x": X}, ["y"], {"s": normal(8)}),
    "BatchNormalization of given": model([node("BatchNormalization", "x a a a b", "y")], {"x": (2, 6, 5), "a": (6,)}, ["y"],
                                         {"b": np.abs(normal(6)) + 1}),
    "Softmax of one": one("Softmax", axis=0), "LogSoftmax of one": one("LogSoftmax", axis=0),
    "Softmax first": one("Softmax", axis=0, shape=(5, 20)), "Softmax of long columns": one("Softmax", axis=1, shape=(1, 1100, 3)),
    "ReduceMax": one("ReduceMax", axes=[1], keepdims=0), "ReduceMin": one("ReduceMin", axes=[0, 2]),
    "ReduceSum": one("ReduceSum", np.array([1, -1]), keepdims=0), "Relu": one("Relu"), "Reshape": one("Reshape", np.array([2, -1, 12])),
    "Resize": one("Resize", np.zeros(0, F), np.array([1, 1, 2, 3], F), mode="nearest"),
    "Resize floor": one("Resize", np.zeros(0, F), np.array([1, 1, 3, 2], F), nearest_mode="floor",
                        coordinate_transformation_mode="asymmetric"),
    "Resize to": one("Resize", np.zeros(0, F), np.zeros(0, F), np.array([1, 6, 18, 16]), coordinate_transformation_mode="asymmetric"),
    "Resize linear": one("Resize", np.zeros(0, F), np.array([1, 1, 1.7, 0.6], F), mode="linear"),
    "Resize corners": one("Resize", np.zeros(0, F), np.zeros(0, F), np.array([1, 6, 14, 5]), mode="linear",
                          coordinate_transformation_mode="align_corners"),
    "Resize cubic": one("Resize", np.zeros(0, F), np.array([1, 1, 1.5, 2.2], F), mode="cubic", exclude_outside=1,
                        coordinate_transformation_mode="asymmetric"),
    "Resize antialias": one("Resize", np.zeros(0, F), np.array([1, 1, 0.6, 0.4], F), mode="linear", antialias=1, opset=18),
    "Resize nearest down": one("Resize", np.zeros(0, F), np.array([1, 1, 0.6, 1.3], F), nearest_mode="ceil"),
    "Resize crop": one("Resize", np.array([0, 0, 0.2, 0.3, 1, 1, 1.4, 0.9], F), np.zeros(0, F), np.array([1, 6, 7, 5]), mode="linear",
                       coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.0),
    "Resize old": one("Resize", np.array([1, 1, 2, 2], F), opset=10),
    "Sigmoid": one("Sigmoid"), "Slice": one("Slice", *map(np.array, ([1, -4], [5, 99], [1, 3]))),
    "Slice steps": one("Slice", *map(np.array, ([0, 1], [9, 99], [2, 3], [2, 2]))),
    "Slice old": one("Slice", opset=9, starts=[2], ends=[-1], axes=[2]),
    "Slice backwards": one("Slice", *map(np.array, ([99, -2], [-99, 0], [2, 3], [-2, -1]))),
    "DepthToSpace": one("DepthToSpace", shape=(1, 8, 3, 5), blocksize=2),
    "DepthToSpace by columns": one("DepthToSpace", shape=(1, 8, 3, 5), blocksize=2, mode="CRD"),
    "SpaceToDepth": one("SpaceToDepth", shape=(1, 2, 4, 6), blocksize=2),
    "Expand": one("Expand", np.array([2, 6, 9, 8])), "Expand lanes": one("Expand", np.array([2, 3, 4]), shape=(3, 1)),
    "Expand to long rows": one("Expand", np.array([2, 3, 40]), shape=(3, 1)),
    "Expand to many long rows": one("Expand", np.array([50, 50, 40]), shape=(1, 1)),
    **{f"{op}{name}": whole(op, axis=1, **given) for op in ("ArgMax", "ArgMin")
       for name, given in (("", {}), (" flat", {"keepdims": 0}), (" last", {"select_last_index": 1}))},
    "TopK": model([node("TopK", "x k", "y i", axis=2)], {"x": X}, ["y"], {"k": np.array([3])}),
    "TopK places": model([node("TopK", "x k", "v y", axis=1, largest=0)], {"x": X}, ["y"], {"k": np.array([2])}, types={"y": 7}),
    "Hardmax": one("Hardmax"), "Hardmax old": one("Hardmax", opset=11),
    "OneHot": model([node("ArgMax", "x", "i", axis=1, keepdims=0), node("OneHot", "i d v", "y", axis=1)], {"x": X}, ["y"],
                    {"d": np.array(6), "v": np.array([0.5, 2], F)}),
    "Trilu": one("Trilu", np.array(1)), "Trilu lower": one("Trilu", upper=0),
    "CumSum": one("CumSum", np.array(3)), "CumSum backwards": one("CumSum", np.array(2), reverse=1, exclusive=1),
    "CumProd": one("CumProd", np.array(1), reverse=1, opset=26),
    "GatherND": one("GatherND", np.array([[0, 1], [-1, 3]]), shape=(3, 4, 5)),
    "GatherND of each": one("GatherND", np.array([[1], [-1], [0]]), shape=(3, 4, 5), batch_dims=1),
    "ReverseSequence": one("ReverseSequence", np.array([3, 1, 4]), shape=(5, 3, 2)),
    "ReverseSequence of rows": one("ReverseSequence", np.array([3, 1, 4]), shape=(3, 5, 2), time_axis=1, batch_axis=0),
    "EyeLike": one("EyeLike", shape=(3, 5), k=1), "Size": whole("Size"),
    "Gather": one("Gather", np.array([5, 0, -2]), axis=3), "Gather scalar": one("Gather", np.array(2), axis=1),
    "Gather rows": one("Gather", np.array([[3, 1], [0, -4]], np.int32), shape=(4, 7)),
    "GatherElements": one("GatherElements", np.array([[3, 1, 0], [0, -4, 2]]), shape=(4, 3)),
    "Tile": one("Tile", np.array([1, 2, 1, 3])),
    "Pad": one("Pad", np.array([0, 1, 2, 3, 0, 0, 1, 2]), F(0.5)), "Pad and cut": one("Pad", np.array([0, 0, -1, 2, 0, 1, -2, 0])),
    "Pad old": one("Pad", opset=9, pads=[0, 0, 1, 1, 0, 0, 1, 1], value=-1.0),
    "Pad some axes": one("Pad", np.array([2, 1]), F(0.5), np.array([-2]), opset=18),
    "Pad reflect": one("Pad", np.array([0, 0, 3, 2, 0, 0, 1, 7]), mode="reflect"),
    "Pad edge": one("Pad", np.array([0, 2, 0, 1, 0, 0, 1, 2]), mode="edge"),
    "Pad wrap": one("Pad", np.array([0, 0, 3, 2, 0, 0, 1, 5]), mode="wrap", opset=19),
    "Softplus": one("Softplus"), "Softsign": one("Softsign"), "Selu": one("Selu"),
    "Softmax": one("Softmax"), "Softmax old": one("Softmax", opset=9),
    "Softmax channels": one("Softmax", axis=1),
    "Sqrt": model([node("Abs", "x", "a"), node("Sqrt", "a", "y")], {"x": X}, ["y"]),
    "Squeeze": one("Squeeze", np.array([0])), "Sub": one("Sub", F(0.5)),
    "Sub from": model([node("Sub", "c x", "y")], {"x": X}, ["y"], {"c": F(2.0)}),
    "Sub channels": one("Sub", normal(1, 6, 1, 1)),
    "Sum": one("Sum", normal(6, 1, 1), second=True), "Tanh": one("Tanh"), "Transpose": one("Transpose", perm=[0, 2, 3, 1]),
    "Unsqueeze": one("Unsqueeze", np.array([1])), "Upsample": one("Upsample", np.array([1, 1, 2, 2], F), opset=9),
    "Transpose reversed": one("Transpose"), "Div from": model(
        [node("Exp", "x", "e"), node("Div", "c e", "y")], {"x": X}, ["y"], {"c": F(3.0)}),
    **cases_cube.CASES, **cases_vector.CASES,
}


def test_every_rule_has_a_case() -> None:
    """Those that declarations name are tried in test_declared.py too."""
    assert {name.split()[0] for name in CASES} | RULED | ELSEWHERE >= set(HAND)


@pytest.mark.parametrize("name", CASES)
def test_matches_onnxruntime(name: str) -> None:
    proto = CASES[name]
    feeds = feeds_of(proto)
    expected = run(proto, feeds)[0]
    for precision, tolerance in (("fp32", 1e-5), ("fp16", 4e-3)):
        graph, weights, _ = load(proto, precision=precision)
        assert parse_graph(show(graph)) == graph
        got = ops.evaluate(graph, feeds, weights)["y"]
        assert got.shape == expected.shape
        assert np.abs(got.astype(np.float32) - expected).max() <= tolerance * np.abs(expected).max()
        fused, stored = fuse(graph, weights)
        assert parse_graph(show(fused)) == fused
        np.testing.assert_allclose(ops.evaluate(fused, feeds, stored)["y"], got, rtol=2e-3 if precision == "fp16" else 1e-5, atol=1e-6)


def test_none_of_these_runs_on_the_host() -> None:
    for name, proto in CASES.items():
        graph, _, notices = load(proto)
        assert not any(n.op.startswith("host.") for n in graph.nodes), name
        assert not any("host" in notice for notice in notices), name
