"""Attention as exporters spell it out becomes one operator, keeps its values, and is taken apart where a machine has no one pass for it."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from aoec.frontend.translate import onnx as frontend
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose import attention
from aoec.jobs.stages.operators import graph_of
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import evaluate
from aoec.target.machine import load

HEADS, WORDS, SIZE = 2, 5, 8
SHAPE = (1, WORDS, HEADS, SIZE)
PAST = np.tril(np.ones((1, 1, WORDS, WORDS), bool))


def model(scores: list[tuple[str, list[str], str]], inputs: dict[str, tuple[int, ...]], perm: list[int],
          constants: dict[str, np.ndarray]) -> onnx.ModelProto:
    """q, k and v as rows of heads side by side, the nodes from q', k' to the scores s, a softmax, and the product with v'."""
    node = helper.make_node
    before = [node("Transpose", [x], [f"{x}1"], perm=p) for x, p in (("q", [0, 2, 1, 3]), ("k", perm), ("v", [0, 2, 1, 3]))]
    middle = [node(op, ins, [out], **{"perm": [0, 1, 3, 2]} if op == "Transpose" else {}) for op, ins, out in scores]
    after = [node("Softmax", ["s"], ["p"], axis=-1), node("MatMul", ["p", "v1"], ["y"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in {**dict.fromkeys("qkv", SHAPE), **inputs}.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, HEADS, WORDS, SIZE))
    held = [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph([*before, *middle, *after], "attention", ports, [out], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def number(x: float) -> np.ndarray:
    return np.array(x, np.float32)


FORMS: dict[str, Callable[[], onnx.ModelProto]] = {
    "divided, a row of a mask": lambda: model([("MatMul", ["q1", "k1"], "a"), ("Div", ["a", "c"], "b"), ("Add", ["b", "mask"], "s")],
                                              {"mask": (1, 1, 1, WORDS)}, [0, 2, 3, 1], {"c": number(8.0)}),
    "the mask first": lambda: model([("MatMul", ["q1", "k1"], "a"), ("Mul", ["a", "c"], "b"), ("Add", ["mask", "b"], "s")],
                                    {"mask": (WORDS, WORDS)}, [0, 2, 3, 1], {"c": number(0.3)}),
    "selected by a mask": lambda: model([("MatMul", ["q1", "k1"], "a"), ("Div", ["a", "c"], "b"), ("Where", ["past", "b", "least"], "s")],
                                        {}, [0, 2, 3, 1], {"c": number(2.0), "past": PAST, "least": number(np.finfo(np.float32).min)}),
    "scale on both": lambda: model([("Mul", ["q1", "c"], "q2"), ("Mul", ["k1", "c"], "k2"), ("MatMul", ["q2", "k2"], "s")],
                                   {}, [0, 2, 3, 1], {"c": number(0.6)}),
    "keys turned last": lambda: model([("Transpose", ["k1"], "k2"), ("MatMul", ["q1", "k2"], "s")], {}, [0, 2, 1, 3], {}),
}


def words(graph: Graph) -> list[str]:
    return [n.op for n in graph.nodes]


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_found_and_keep_their_values(form: str) -> None:
    proto = FORMS[form]()
    graph, weights, _ = frontend.load(proto, {}, "fp32")
    random = np.random.default_rng(0)
    sizes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}
    feeds = {name: random.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)
    assert words(graph).count("attention") == 1 and "softmax" not in words(graph) and words(graph).count("transpose") <= 3
    np.testing.assert_allclose(evaluate(graph, feeds, weights)["y"], wanted, rtol=1e-5, atol=1e-6)
    apart, stored = fuse(graph, weights, load("Ascend310P3"))
    assert "attention" not in words(apart)
    np.testing.assert_allclose(evaluate(apart, feeds, stored)["y"], wanted, rtol=1e-5, atol=1e-6)
    whole, stored = fuse(graph, weights, load("Ascend910B1"))  # whose cubes take fp32
    assert "attention" in words(whole) and "softmax" not in words(whole)
    np.testing.assert_allclose(evaluate(whole, feeds, stored)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("scores", [
    [("MatMul", ["q1", "k1"], "a"), ("Add", ["a", "mask"], "b"), ("Mul", ["b", "c"], "s")],  # what is added is scaled too
    [("MatMul", ["q1", "k1"], "a"), ("Tanh", ["a"], "b"), ("Add", ["b", "mask"], "s")],
])
def test_other_scores_are_left_as_they_are(scores: list[tuple[str, list[str], str]]) -> None:
    proto = model(scores, {"mask": (WORDS, WORDS)}, [0, 2, 3, 1], {"c": number(0.3)})
    assert "attention" not in words(frontend.load(proto, {}, "fp32")[0])


def test_a_row_without_a_score_is_no_sum() -> None:
    nothing = PAST & (np.arange(WORDS) > 0)
    proto = model([("MatMul", ["q1", "k1"], "a"), ("Where", ["past", "a", "least"], "s")], {}, [0, 2, 3, 1],
                  {"past": nothing, "least": number(-np.inf)})
    assert "attention" not in words(frontend.load(proto, {}, "fp32")[0])


def test_the_faster_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = graph_of("attention(b=2, m=16, n=24, d=16)")
    for whole, found in ((1.0, frozenset()), (3.0, frozenset({"attention"}))):
        monkeypatch.setattr(attention, "recall_times", lambda at, make: make())
        monkeypatch.setattr(attention, "time_us", lambda g, m, named, whole=whole: 2.0 if named else whole)
        assert attention.fuse_exceptions(graph, load("Ascend910B1")) == found
    anyway = graph_of("attention(b=2, m=16, n=23, d=16)")[0]
    assert attention.fuse_exceptions(anyway, load("Ascend310P3")) == {"attention"}  # whose rows are as they are, where that is no slower
    monkeypatch.setattr(attention, "time_us", lambda g, m, named: 3.0 - len(named))
    assert attention.fuse_exceptions(anyway, load("Ascend310P3")) == {"attention", "attention_shares"}
