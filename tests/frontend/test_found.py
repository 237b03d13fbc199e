"""Normalisation and GELU as exporters spell them out: found, with the values that onnxruntime gives; and near misses left alone."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from aoec import ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, run

X = (2, 5, 12)
SCALE, BIAS = normal(12), normal(12, seed=1)
F = np.float32
LAYER = [node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Pow", "d two", "q"),
         node("ReduceMean", "q", "v", axes=[-1]),
         node("Add", "v e", "w"), node("Sqrt", "w", "r"), node("Div", "d r", "u")]
RMS = [node("Pow", "x two", "q"), node("ReduceMean", "q", "v", axes=[-1]), node("Add", "v e", "w")]
GELU = [node("Div", "x root2", "h"), node("Erf", "h", "f"), node("Add", "f one", "g")]
TANH = [node("Pow", "x three", "c"), node("Mul", "c small", "k"), node("Add", "x k", "p"), node("Mul", "p slope", "h"),
        node("Tanh", "h", "f"), node("Add", "f one", "g")]
FAST = [node("Mul", "x slope", "i"), node("Mul", "x small", "j"), node("Mul", "j x", "c"), node("Add", "c one", "d"),
        node("Mul", "i d", "h"), node("Tanh", "h", "f"), node("Add", "f one", "g")]
NUMBERS = {"three": F(3), "small": F(0.044715), "slope": F(np.sqrt(2 / np.pi)), "two": F(2), "e": F(1e-3),
           "one": F(1), "half": F(0.5), "root2": F(np.sqrt(2)), "root": F(np.sqrt(0.5)), "s": SCALE, "b": BIAS,
           "images": normal(5, 12), "channels": normal(5, 1)}
# name -> nodes, the operator that is found
SPELT = {
    "layer": ([*LAYER, node("Mul", "u s", "t"), node("Add", "t b", "y")], "layer_norm"),
    "layer, factors first": ([*LAYER, node("Mul", "s u", "t"), node("Add", "b t", "y")], "layer_norm"),
    "layer, multiplied": ([node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Mul", "d d", "q"),
                           node("ReduceMean", "q", "v", axes=[-1]), node("Add", "e v", "w"), node("Sqrt", "w", "r"),
                           node("Div", "d r", "u"), node("Mul", "u s", "t"), node("Add", "t b", "y")], "layer_norm"),
    "layer, two differences": ([node("ReduceMean", "x", "m", axes=[-1]), node("Sub", "x m", "d"), node("Sub", "x m", "d2"), *LAYER[2:6],
                                node("Div", "d2 r", "u"), node("Mul", "u s", "y")], "layer_norm"),
    "layer, inverse root": ([*LAYER[:-1], node("Reciprocal", "r", "i"), node("Mul", "i d", "y")], "layer_norm"),
    "layer, no bias": ([*LAYER, node("Mul", "u s", "y")], "layer_norm"),
    "layer and more": ([*LAYER, node("Mul", "u s", "t"), node("Add", "t b", "z"), node("Relu", "z", "y")], "layer_norm"),
    "rms": ([*RMS, node("Sqrt", "w", "r"), node("Div", "x r", "u"), node("Mul", "s u", "y")], "rms_norm"),
    "rms, inverse root": ([*RMS, node("Sqrt", "w", "r"), node("Div", "one r", "i"), node("Mul", "x i", "u"), node("Mul", "u s", "y")],
                          "rms_norm"),
    "silu": ([node("Sigmoid", "x", "g"), node("Mul", "g x", "y")], "silu"),
    "swiglu": ([node("Split", "x", "p q", axis=-1), node("Sigmoid", "p", "g"), node("Mul", "p g", "k"), node("Mul", "k q", "y")], "swiglu"),
    "gelu": ([*GELU, node("Mul", "x g", "k"), node("Mul", "k half", "y")], "gelu"),
    "gelu, half first": ([*GELU, node("Mul", "x half", "k"), node("Mul", "k g", "y")], "gelu"),
    "gelu, half of the sum": ([*GELU, node("Mul", "g half", "k"), node("Mul", "k x", "y")], "gelu"),
    "gelu with tanh": ([*TANH, node("Mul", "x half", "m"), node("Mul", "m g", "y")], "gelu_tanh"),
    "gelu with tanh, half last": ([*TANH, node("Mul", "x g", "m"), node("Mul", "m half", "y")], "gelu_tanh"),
    "gelu with tanh, fast": ([*FAST, node("Mul", "x half", "m"), node("Mul", "m g", "y")], "gelu_tanh"),
    "gelu, multiplied": ([node("Mul", "x root", "h"), *GELU[1:], node("Mul", "x g", "k"), node("Mul", "k half", "y")], "gelu"),
}
# name -> nodes that mean something else
MISSES = {
    "no mean": [node("ReduceSum", "q0", "v", keepdims=1), node("Add", "v e", "w"), node("Sqrt", "w", "r"), node("Div", "x r", "y")],
    "columns": [node("Pow", "x two", "q"), node("ReduceMean", "q", "v", axes=[1]), node("Add", "v e", "w"), node("Sqrt", "w", "r"),
                node("Div", "x r", "y")],
    "another root": [node("Mul", "x half", "h"), node("Erf", "h", "f"), node("Add", "f one", "g"), node("Mul", "x g", "k"),
                     node("Mul", "k half", "y")],
    "halves exchanged": [node("Split", "x", "p q", axis=-1), node("Sigmoid", "q", "g"), node("Mul", "q g", "k"), node("Mul", "k p", "y")],
    "halves of columns": [node("Split", "x", "p q", axis=0), node("Sigmoid", "p", "g"), node("Mul", "p g", "k"), node("Mul", "k q", "y")],
    "gate kept": [node("Sigmoid", "x", "g"), node("Mul", "x g", "k"), node("Add", "k g", "y")],
    "another slope": [*TANH[:3], node("Mul", "p root", "h"), *TANH[4:], node("Mul", "x half", "m"), node("Mul", "m g", "y")],
    "no half": [*GELU, node("Mul", "x g", "y")],
    "erf kept": [*GELU, node("Mul", "x g", "k"), node("Mul", "k half", "n"), node("Add", "n g", "y")],
    "scale of channels": [*LAYER, node("Mul", "u channels", "y")],
    "scale of images": [*LAYER, node("Mul", "u images", "y")],
}


def spelt(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    used = {i for n in nodes for i in n.input}
    if "q0" in used:
        nodes = [node("Mul", "x x", "q0"), *nodes]
        used.add("x")
    return model(nodes, {"x": X}, ["y"], {k: v for k, v in NUMBERS.items() if k in used})


def agrees(proto: onnx.ModelProto) -> list[str]:
    """The operators of the graph, after its values were held against onnxruntime's."""
    feeds = {"x": normal(*X, seed=3)}
    expected = run(proto, feeds)[0]
    for precision, tolerance in (("fp32", 1e-5), ("fp16", 4e-3)):
        graph, weights, _ = load(proto, precision=precision)
        got = ops.evaluate(graph, feeds, weights)["y"].astype(np.float32)
        assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max()
    return [n.op for n in graph.nodes]


@pytest.mark.parametrize("name", SPELT)
def test_what_exporters_spell_out_is_one_node(name: str) -> None:
    nodes, op = SPELT[name]
    assert agrees(spelt(nodes)) == [op, *(["relu"] if "more" in name else [])]


@pytest.mark.parametrize("name", MISSES)
def test_near_misses_keep_their_values(name: str) -> None:
    found = agrees(spelt(MISSES[name]))
    assert len(found) > 1 and not {"gelu", "gelu_tanh", "rms_norm", "swiglu"} & set(found)


@pytest.mark.parametrize("opset", [17, 18, 23])
def test_simplified_layer_normalization_is_the_mean_square_form(opset: int) -> None:
    simple = helper.make_node("SimplifiedLayerNormalization", ["x", "s"], ["y"], axis=-1, epsilon=1e-3)
    assert agrees(model([simple], {"x": X}, ["y"], {"s": SCALE}, opset)) == ["rms_norm"]
