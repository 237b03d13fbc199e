"""Products of one tensor become one product, where those who read them take columns where they lie; values stay onnxruntime's."""
from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest

from aoec.frontend.translate import onnx as frontend
from aoec.ops.run import evaluate
from tests.frontend.written import written

HEAD = '<ir_version: 8, opset_import: ["": 17]>\nnet '
SIZES = {"s": [1, 6, 2, 16], "t": [1, 6, 32], "cut": [32, 32, 32], "one": [1]}
HEADS = """(float[1,6,32] x, float[32,32] wq, float[32,32] wk, float[32,32] wv, float[32] bq, float[32] bv, int64[4] s, int64[3] t)
    => (float[1,6,32] y) {
  q0 = MatMul(x, wq) q1 = Add(q0, bq) k1 = MatMul(x, wk) v0 = MatMul(x, wv) v1 = Add(v0, bv)
  q2 = Reshape(q1, s) k2 = Reshape(k1, s) v2 = Reshape(v1, s)
  q = Transpose<perm=[0,2,1,3]>(q2) k = Transpose<perm=[0,2,3,1]>(k2) v = Transpose<perm=[0,2,1,3]>(v2)
  p = MatMul(q, k) e = Softmax(p) o = MatMul(e, v) o1 = Transpose<perm=[0,2,1,3]>(o) y = Reshape(o1, t)
}"""
SWIGLU = """(float[4,32] x, float[32,48] wg, float[32,48] wu, float[48,32] wd) => (float[4,32] y) {
  u = MatMul(x, wu) g = MatMul(x, wg) s = Sigmoid(g) a = Mul(g, s) m = Mul(a, u) y = MatMul(m, wd)
}"""
RESULT_TOO = """(float[4,32] x, float[32,32] wq, float[32,32] wk) => (float[4,4] y, float[4,32] k) {
  q = MatMul(x, wq) k = MatMul(x, wk) kt = Transpose<perm=[1,0]>(k) y = MatMul(q, kt)
}"""
ADDED = """(float[4,32] x, float[32,32] wa, float[32,32] wb) => (float[4,32] y) {
  a = MatMul(x, wa) b = MatMul(x, wb) r = Relu(b) y = Add(a, r)
}"""
NARROW = """(float[4,32] x, float[32,8] wq, float[32,8] wk) => (float[4,4] y) {
  q = MatMul(x, wq) k = MatMul(x, wk) kt = Transpose<perm=[1,0]>(k) y = MatMul(q, kt)
}"""


def model(text: str) -> onnx.ModelProto:
    """The model of a text, with small seeded weights in place of all inputs but x."""
    random = np.random.default_rng(1)

    def constant(name: str, shape: list[int]) -> np.ndarray | None:
        if name == "x":
            return None
        return np.array(SIZES[name]) if name in SIZES else random.normal(0, 0.3, shape).astype(np.float32)
    return written(HEAD + text, constant)


@pytest.mark.parametrize("text, products, others", [
    (HEADS, 1, {"attention": 1, "slice": 3}), (SWIGLU, 2, {"swiglu": 1, "slice": 0, "silu": 0}),
    (RESULT_TOO, 3, {"slice": 0}), (ADDED, 2, {"slice": 0}), (NARROW, 3, {"slice": 0})],
    ids=["heads", "swiglu", "a result is read by nobody", "readers that are no products", "no whole fractals"])
def test_products_of_one_tensor_are_one(text: str, products: int, others: dict[str, int]) -> None:
    wanted = model(text)
    graph, weights, _ = frontend.load(wanted, {}, "fp32")
    count = Counter(n.op for n in graph.nodes)
    assert count["matmul"] == products and {op: count[op] for op in others} == others
    shape = next(t.shape for t in graph.tensors if t.name == "x")
    feeds = {"x": np.random.default_rng(2).normal(0, 1, shape).astype(np.float32)}
    session = onnxruntime.InferenceSession(wanted.SerializeToString(), providers=["CPUExecutionProvider"])
    made = evaluate(graph, feeds, weights)
    for name, value in zip([o.name for o in wanted.graph.output], session.run(None, feeds)):
        np.testing.assert_allclose(made[name], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor, left", [("0.25", 1.0), ("0.3", 0.3), ("2.0", 1.0)])
def test_a_scale_that_is_exact_is_in_the_queries(factor: str, left: float) -> None:
    text = HEADS.replace("e = Softmax(p)", f"f = Constant<value_float={factor}>() c = Mul(p, f) e = Softmax(c)")
    wanted = model(text)
    graph, weights, _ = frontend.load(wanted, {}, "fp32")
    (attention,) = [n for n in graph.nodes if n.op == "attention"]
    assert attention.attribute("scale") == pytest.approx(left)
    feeds = {"x": np.random.default_rng(2).normal(0, 1, (1, 6, 32)).astype(np.float32)}
    session = onnxruntime.InferenceSession(wanted.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(evaluate(graph, feeds, weights)["y"], session.run(None, feeds)[0], rtol=1e-5, atol=1e-5)


def test_a_bias_that_one_product_lacks_is_zero() -> None:
    graph, weights, _ = frontend.load(model(HEADS), {}, "fp32")
    joined = next(n for n in graph.nodes if n.op == "matmul" and len(n.inputs) == 3)
    bias = weights[joined.inputs[2]]
    assert bias.shape == (96,) and not bias[32:64].any() and bias[:32].all() and bias[64:].all()
