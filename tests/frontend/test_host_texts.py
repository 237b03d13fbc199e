"""What ONNX's reference gets wrong the host does by ONNX's text: in doubles, which only it holds, and at import, of constants alone.
onnxruntime is the oracle, which takes few of these operators in doubles: it is asked in fp32."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aoec import ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, run

Case = tuple[onnx.NodeProto, dict[str, np.ndarray], int]
F = np.float32


def recurrent(op: str, gates: int, directions: int, given: str = "x w r b l h", **attributes: object) -> Case:
    """A recurrent layer of three sequences of other lengths, two numbers a step, with five hidden ones."""
    d, hidden = directions, 5
    arrays = {"x": normal(4, 3, 2), "w": normal(d, gates * hidden, 2), "r": normal(d, gates * hidden, hidden) / F(3),
              "b": normal(d, 2 * gates * hidden), "l": np.array([4, 1, 3], np.int32), "h": normal(d, 3, hidden),
              "c": normal(d, 3, hidden, seed=1), "p": normal(d, 3 * hidden)}
    outputs = "y s t" if op == "LSTM" else "y s"
    return node(op, given, outputs, hidden_size=hidden, **attributes), {i: arrays[i] for i in given.split() if i != "-"}, 14


def of(op: str, *shapes: tuple[int, ...] | np.ndarray, opset: int = 17, **attributes: object) -> Case:
    arrays = {f"i{at}": s if isinstance(s, np.ndarray) else normal(*s, seed=at) for at, s in enumerate(shapes)}
    return node(op, " ".join(arrays), "y", **attributes), arrays, opset


X, ODD = (2, 3, 7, 9), (1, 2, 8)
CASES = {
    "RNN": recurrent("RNN", 1, 2, direction="bidirectional", activations=["Elu", "Softplus"], activation_alpha=[0.7]),
    "RNN of one": recurrent("RNN", 1, 1, "x w r", clip=0.4, activations=["HardSigmoid"]),
    "GRU": recurrent("GRU", 3, 1, direction="reverse", activations=["LeakyRelu", "ScaledTanh"], activation_alpha=[0.3, 1.5],
                     activation_beta=[0.5]),
    "GRU before": recurrent("GRU", 3, 2, direction="bidirectional", linear_before_reset=1, clip=0.8),
    "LSTM": recurrent("LSTM", 4, 2, "x w r b l h c p", direction="bidirectional"),
    "LSTM forgets": recurrent("LSTM", 4, 1, "x w r - - h c", input_forget=1, activations=["Softsign", "Affine", "ThresholdedRelu"],
                              activation_alpha=[0.9, 0.1], activation_beta=[0.2]),
    "Softmax old": of("Softmax", X, opset=11), "Softmax old axis": of("Softmax", X, opset=9, axis=2),
    "LogSoftmax old": of("LogSoftmax", X, opset=11, axis=-3), "Hardmax old": of("Hardmax", X, opset=11),
    "Softmax": of("Softmax", X, axis=1),
    "LogSoftmax": of("LogSoftmax", X), "Hardmax": of("Hardmax", X, axis=0),
    "BatchNormalization": of("BatchNormalization", X, (3,), (3,), (3,), np.abs(normal(3)) + F(0.1), opset=9, epsilon=0.01),
    "LpNormalization": of("LpNormalization", X, axis=1, p=1), "LRN": of("LRN", (2, 7, 3, 2), size=3, alpha=0.5),
    "LRN of many": of("LRN", (1, 37, 2, 2), size=33, alpha=0.5, beta=0.6),
    "MaxPool": of("MaxPool", X, kernel_shape=[4, 2], strides=[2, 4], auto_pad="SAME_LOWER"),
    "MaxPool rounded up": of("MaxPool", X, kernel_shape=[3, 2], strides=[2, 2], auto_pad="VALID", ceil_mode=1),
    "AveragePool": of("AveragePool", X, kernel_shape=[3, 2], auto_pad="VALID", dilations=[2, 3], opset=19),
    "AveragePool counted": of("AveragePool", X, kernel_shape=[3, 3], strides=[2, 3], pads=[1, 0, 1, 2], ceil_mode=1, count_include_pad=1),
    "LpPool": of("LpPool", X, kernel_shape=[3, 2], auto_pad="SAME_UPPER", strides=[2, 1], p=1, opset=18),
    "GlobalMaxPool": of("GlobalMaxPool", (2, 3, 2, 4, 5)), "GlobalLpPool": of("GlobalLpPool", (2, 3, 4, 5), p=1),
    "GatherElements": of("GatherElements", X, np.array([[[[3, -1]], [[0, -7]]]]), axis=2),
    "GridSample": of("GridSample", (1, 2, 4, 5), (normal(1, 3, 2, 2) / F(2)).clip(-1, 1), mode="bicubic", opset=16),
    "OneHot": of("OneHot", np.array([0, 3, -1]), np.array([4]), np.array([1, 3], F), opset=11),
    "DequantizeLinear": of("DequantizeLinear", np.arange(6, dtype=np.int32), np.array(0.5, F), opset=13),
}


@pytest.mark.parametrize("name", CASES)
def test_of_constants(name: str) -> None:
    """Added to what is fed, so that something is left of the model."""
    n, arrays, opset = CASES[name]
    results = [o for o in n.output if o]
    proto = model([n, *(node("Add", f"x0 {o}", f"z{o}") for o in results)], {"x0": ()}, [f"z{o}" for o in results], arrays, opset)
    feeds = {"x0": np.zeros((), F)}
    graph, weights, _ = load(proto, precision="fp32")
    assert [m.op for m in graph.nodes] == ["add"] * len(results)
    got = ops.evaluate(graph, feeds, weights)
    for o, wanted in zip(proto.graph.output, run(proto, feeds, as_it_is=True)):
        np.testing.assert_allclose(got[o.name], wanted, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", [n for n in CASES if n != "DequantizeLinear"])
def test_of_doubles(name: str) -> None:
    n, arrays, opset = CASES[name]
    single = model([n], {}, [o for o in n.output if o], arrays, opset)
    outputs = [helper.make_tensor_value_info(o, TensorProto.DOUBLE, None) for o in n.output if o]
    kept = {i: a for i, a in arrays.items() if a.dtype == F}
    double = model([n], {}, [], {i: a for i, a in arrays.items() if i not in kept}, opset)
    double.graph.output.extend(outputs)
    double.graph.input.extend([helper.make_tensor_value_info(i, TensorProto.DOUBLE, a.shape) for i, a in kept.items()])
    graph, weights, _ = load(double, precision="fp32")
    got = ops.evaluate(graph, {i: a.astype(np.float64) for i, a in kept.items()}, weights)
    for o, wanted in zip(outputs, run(single, {}, as_it_is=True)):
        assert got[o.name].dtype == np.float64
        np.testing.assert_allclose(got[o.name], wanted, rtol=2e-5, atol=2e-6)
