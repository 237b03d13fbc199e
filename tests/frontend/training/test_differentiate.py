"""Backward graphs of whole networks as ONNX has them: their values, what they hold, and in which order."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from aoec import ops
from aoec.base.errors import CheckError, UnsupportedError
from aoec.frontend.training.differentiate import differentiate
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph

from .graphs import Sketch, agrees

Node = onnx.NodeProto


def node(op: str, inputs: Sequence[str], outputs: Sequence[str] | str, **attributes: Any) -> Node:
    return helper.make_node(op, list(inputs), [outputs] if isinstance(outputs, str) else list(outputs), f"{op}_{outputs}", **attributes)


class Held:
    """Additions that hold the gradients of a translated draft against finite differences."""

    def __init__(self, values: dict[str, np.ndarray], loss: str) -> None:
        self.values, self.loss = values, loss
        self.draft: Draft | None = None

    def prepare(self, proto: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> list[str]:
        return []

    def extend(self, draft: Draft) -> list[str]:
        sketch = Sketch()
        sketch.draft, sketch.values = draft, {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in self.values.items()}
        found = agrees(sketch, self.loss, [k for k, v in self.values.items() if v.dtype.kind == "f"], rel=1e-4)
        assert found
        draft.outputs = (self.loss, *found.values())
        return []

    def settle(self, draft: Draft) -> None: ...
    def finish(self, draft: Draft) -> None: ...


def held(nodes: Sequence[Node], shapes: dict[str, tuple[int, ...]], constants: dict[str, np.ndarray] | None = None,
         words: int = 0) -> tuple[Graph, dict[str, np.ndarray]]:
    """The cleaned graph of nodes that make `loss`, whose gradients were held against finite differences as translated. `words`: what the
    input `words`, of whole numbers, is below."""
    random = np.random.default_rng(0)
    values = {name: random.integers(0, words, s) if name == "words" else random.standard_normal(s) * 0.5 for name, s in shapes.items()}
    types = {name: TensorProto.INT64 if name == "words" else TensorProto.FLOAT for name in shapes}
    made = helper.make_graph(nodes, "net", [helper.make_tensor_value_info(name, types[name], s) for name, s in shapes.items()],
                             [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                             [onnx.numpy_helper.from_array(v, k) for k, v in (constants or {}).items()])
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    graph, weights, _ = load(model, precision="fp32", additions=Held(values, "loss"))
    plain = ops.evaluate(graph, values, weights)
    assert all(np.isfinite(v).all() for v in plain.values())
    return graph, weights


MEAN_SQUARE = [node("Sub", ["y", "target"], "off"), node("Mul", ["off", "off"], "square"),
               node("ReduceMean", ["square"], "loss", keepdims=0)]


def test_a_block_of_convolutions() -> None:
    """Strides, groups, normalisation, pooling, a shortcut and classes."""
    nodes = [node("Conv", ["x", "w1", "b1"], "c1", strides=[2, 2], pads=[1, 1, 1, 1]),
             node("BatchNormalization", ["c1", "scale", "bias", "mean", "var"], "n1"), node("Relu", ["n1"], "r1"),
             node("MaxPool", ["r1"], "p", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
             node("Conv", ["p", "w2"], "c2", pads=[1, 1, 1, 1], group=2), node("Sigmoid", ["c2"], "s2"), node("Mul", ["c2", "s2"], "a2"),
             node("Add", ["a2", "p"], "sum"), node("GlobalAveragePool", ["sum"], "g"), node("Flatten", ["g"], "f"),
             node("Gemm", ["f", "w3", "b3"], "logits", transB=1), node("LogSoftmax", ["logits"], "y", axis=1), *MEAN_SQUARE]
    shapes = {"x": (2, 3, 11, 11), "w1": (4, 3, 3, 3), "b1": (4,), "scale": (4,), "bias": (4,), "mean": (4,), "w2": (4, 2, 3, 3),
              "w3": (5, 4), "b3": (5,), "target": (2, 5)}
    graph, _ = held(nodes, shapes, {"var": np.array([0.5, 1, 1.5, 2], np.float32)})
    assert not [n.op for n in graph.nodes if n.op.startswith("host.")]


def test_a_block_of_attention() -> None:
    """Words, heads side by side by slices of one product, a mask, and what a transformer has around them."""
    heads = [part for name in "qkv" for part in (
        node("Reshape", [f"{name}0", "apart"], f"{name}1"), node("Transpose", [f"{name}1"], f"{name}2", perm=[0, 2, 1, 3]))]
    nodes = [node("Gather", ["table", "words"], "x"), node("LayerNormalization", ["x", "scale", "bias"], "n", axis=-1),
             node("MatMul", ["n", "w"], "qkv"), node("Add", ["qkv", "b"], "all"),
             node("Split", ["all"], ["q0", "k0", "v0"], axis=2, num_outputs=3),
             *heads, node("Transpose", ["k2"], "kt", perm=[0, 1, 3, 2]), node("MatMul", ["q2", "kt"], "scores"),
             node("Add", ["scores", "mask"], "masked"), node("Softmax", ["masked"], "shares", axis=-1),
             node("MatMul", ["shares", "v2"], "o"), node("Transpose", ["o"], "o1", perm=[0, 2, 1, 3]),
             node("Reshape", ["o1", "whole"], "o2"),
             node("MatMul", ["o2", "out"], "o3"), node("Add", ["o3", "x"], "h"), node("Tanh", ["h"], "y"),
             *MEAN_SQUARE]
    shapes = {"words": (2, 5), "table": (7, 6), "scale": (6,), "bias": (6,), "w": (6, 18), "b": (18,), "out": (6, 6), "target": (2, 5, 6)}
    constants = {"apart": np.array([2, 5, 2, 3]), "whole": np.array([2, 5, 6]),
                 "mask": np.triu(np.full((5, 5), -30, np.float32), 1)}
    graph, _ = held(nodes, shapes, constants, words=7)
    assert not [n.op for n in graph.nodes if n.op.startswith("host.")]


def test_a_recurrent_network() -> None:
    """An LSTM, whose steps are nodes of the graph: its weights have as many readers as there are steps."""
    nodes = [node("LSTM", ["x", "w", "r", "b"], ["all"], hidden_size=4), node("Squeeze", ["all", "one"], "y"), *MEAN_SQUARE]
    held(nodes, {"x": (3, 2, 5), "w": (1, 16, 5), "r": (1, 16, 4), "b": (1, 32), "target": (3, 2, 4)}, {"one": np.array([1])})


# ---------------------------------------------------------------- what is made, and in which order

def chain() -> Sketch:
    random = np.random.default_rng(0)
    return Sketch(x=random.standard_normal((4, 3)), w=random.standard_normal((3, 5)), v=random.standard_normal((5, 2)))


def test_a_weight_is_ready_before_the_data_and_the_last_one_first() -> None:
    s = chain()
    loss = s.weighted(s.add("matmul", s.add("relu", s.add("matmul", "x", "w")), "v"))
    found = differentiate(s.draft, loss, ["x", "w", "v"])
    made = [o for n in s.draft.nodes for o in n.outputs]
    assert [p for p in sorted(found, key=lambda p: made.index(found[p]))] == ["v", "w", "x"]


def test_only_what_is_wanted_is_made() -> None:
    """Neither the gradient of data nor of what stands before the first parameter."""
    s = chain()
    h = s.add("matmul", s.add("exp", s.add("tanh", "x")), "w")
    loss = s.weighted(s.add("matmul", h, "v"))
    forward = len(s.draft.nodes)
    found = differentiate(s.draft, loss, ["v"])
    backward = s.draft.nodes[forward:]
    assert list(found) == ["v"] and [n.op for n in backward].count("matmul") == 1
    wanted = {*found.values()}
    for n in reversed(backward):
        assert wanted & {*n.outputs}, n
        wanted |= {*n.inputs}


def test_a_tensor_on_the_way_has_a_gradient_too() -> None:
    s = chain()
    h = s.add("matmul", "x", "w")
    loss = s.weighted(s.add("mul", h, s.add("exp", h)))
    found = differentiate(s.draft, loss, [h, "w"])
    assert s.draft.tensors[found[h]].shape == (4, 5) and s.draft.tensors[found["w"]].shape == (3, 5)


def test_of_no_use_is_left_out() -> None:
    """A parameter that the loss does not depend on, or by steps alone."""
    s = chain()
    y = s.add("mul", s.add("matmul", "x", "w"), s.add("floor", s.add("matmul", "x", "w")))
    loss = s.weighted(y)
    assert differentiate(s.draft, loss, ["w", "v"]).keys() == {"w"}
    s = chain()
    loss = s.weighted(s.add("floor", "w"))
    assert differentiate(s.draft, loss, ["w"]) == {}


def on_host(s: Sketch, x: str) -> str:
    out = s.draft.tensor("strange", "fp32", s.draft.tensors[x].shape)
    s.draft.nodes.append(s.draft.node("host.Strange", [x], out, name="odd"))
    return out


def test_what_has_no_gradient_is_named_where_the_path_needs_it() -> None:
    s = chain()
    loss = s.weighted(s.add("matmul", "x", on_host(s, "w")))
    with pytest.raises(UnsupportedError, match=r"node odd \(Strange\) cannot be trained through: .*host.* a parameter and the loss"):
        differentiate(s.draft, loss, ["w"])


def test_what_has_no_gradient_is_no_matter_beside_the_path() -> None:
    s = chain()
    loss = s.weighted(s.add("matmul", on_host(s, "x"), "w"))
    assert differentiate(s.draft, loss, ["w"]).keys() == {"w"}


@pytest.mark.parametrize("loss, parameters, said", [
    ("nothing", ["w"], "the loss nothing is no tensor"), ("total", ["nothing"], "parameter nothing is no tensor"),
    ("total", ["v"], "does not depend on a parameter"), ("total", ["index"], "only reals have gradients")])
def test_names_that_do_not_fit(loss: str, parameters: list[str], said: str) -> None:
    s = chain()
    s.input("index", np.array([1]))
    total = s.weighted(s.add("matmul", "x", "w"))
    with pytest.raises(CheckError, match=said):
        differentiate(s.draft, total if loss == "total" else loss, parameters)


@pytest.mark.parametrize("wanted", [("concat", (3, 2, 4)), ("add", (3, 2, 3)), ("add", (3, 3, 4))])
def test_slices_side_by_side_are_joined(wanted: tuple[str, tuple[int, ...]]) -> None:
    """The gradient of what is split is put together, not added; not where parts overlap or leave something out."""
    op, sizes = wanted
    random = np.random.default_rng(0)
    s = Sketch(x=random.standard_normal((2, 9)))
    starts = (0, 3, 5)
    parts = [s.add(f, s.add("slice", "x", starts=(0, at), sizes=(2, n), steps=(1, 1)))
             for f, at, n in zip(("exp", "tanh", "sin"), starts, sizes)]
    agrees(s, s.weighted(s.add("concat", *parts, axis=1)))
    made = [n.op for n in s.draft.nodes]
    assert made.count("concat") == 1 + (op == "concat") and made.count("pad") == (0 if op == "concat" else 3)


def test_the_rows_of_a_large_table_are_made_one_part_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aoec.frontend.training.gradients.gradient_moves.MOST_PAIRS", 12)
    for axis, shape in ((0, (7, 3)), (1, (2, 7, 3))):
        s = Sketch(x=np.random.default_rng(0).standard_normal(shape), i=np.array([[0, -1, 3], [3, 6, 2]]))
        agrees(s, s.weighted(s.add("gather", "x", "i", axis=axis)))
        assert [n.op for n in s.draft.nodes].count("concat") == 1
