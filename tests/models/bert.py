"""A small BERT as exporters write it: embeddings looked up, attention of heads under a mask, GELU spelt out, one answer a word."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, SEQ, WIDTH, HEADS, WORDS = 2, 24, 64, 2, 50


class _Text:
    """A model while it grows: nodes, and constants by name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.random = np.random.default_rng(7)

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, value: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.random.standard_normal(shape) / np.sqrt(shape[0]))

    def dense(self, x: str, given: int, made: int) -> str:
        return self.node("Add", self.constant(self.random.standard_normal(made) / 8), self.node("MatMul", x, self.weight(given, made)))

    def normed(self, x: str) -> str:
        scale, shift = self.constant(self.random.uniform(0.5, 1.5, WIDTH)), self.constant(self.random.standard_normal(WIDTH) / 8)
        return self.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)

    def gelu(self, x: str) -> str:
        erf = self.node("Erf", self.node("Div", x, self.constant(np.sqrt(2))))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.constant(1))), self.constant(0.5))

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(shape, np.int64))

    def heads(self, x: str, *perm: int) -> str:
        each = self.shaped(self.dense(x, WIDTH, WIDTH), BATCH, SEQ, HEADS, WIDTH // HEADS)
        return self.node("Transpose", each, perm=list(perm))

    def attention(self, x: str, mask: str) -> str:
        q, k, v = self.heads(x, 0, 2, 1, 3), self.heads(x, 0, 2, 3, 1), self.heads(x, 0, 2, 1, 3)
        scores = self.node("Div", self.node("MatMul", q, k), self.constant(np.sqrt(WIDTH / HEADS)))
        seen = self.node("MatMul", self.node("Softmax", self.node("Add", scores, mask), axis=-1), v)
        return self.dense(self.shaped(self.node("Transpose", seen, perm=[0, 2, 1, 3]), BATCH, SEQ, WIDTH), WIDTH, WIDTH)


def small_bert(layers: int = 2) -> onnx.ModelProto:
    """Two layers of 64, two heads, 24 words of 50; inputs ids and mask (1 where a word is, else 0)."""
    n = _Text()
    x = n.node("Add", n.node("Gather", n.weight(WORDS, WIDTH), "ids"), n.weight(SEQ, WIDTH))
    x = n.normed(x)
    mask = n.node("Mul", n.node("Sub", n.constant(1), n.shaped("mask", BATCH, 1, 1, SEQ)), n.constant(-10000))
    for _ in range(layers):
        x = n.normed(n.node("Add", n.attention(x, mask), x))
        x = n.normed(n.node("Add", n.dense(n.gelu(n.dense(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH), x))
    n.nodes.append(helper.make_node("Identity", [n.dense(x, WIDTH, 2)], ["answers"], name="answers"))
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, [BATCH, SEQ]),
              helper.make_tensor_value_info("mask", TensorProto.FLOAT, [BATCH, SEQ])]
    outputs = [helper.make_tensor_value_info("answers", TensorProto.FLOAT, [BATCH, SEQ, 2])]
    graph = helper.make_graph(n.nodes, "bert", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in n.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def words(seed: int = 1) -> dict[str, np.ndarray]:
    """Texts of different lengths."""
    random = np.random.default_rng(seed)
    lengths = np.array([SEQ, SEQ // 2])
    return {"ids": random.integers(0, WORDS, (BATCH, SEQ)), "mask": (np.arange(SEQ) < lengths[:, None]).astype(np.float32)}
