"""LSTMs written out step by step, so that what is said of each tensor of a model reaches their states too."""
from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper


def unrolled(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with each LSTM (no lengths, states or peepholes given) in single operators, as ONNX defines it."""
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim]
              for v in (*model.graph.input, *onnx.shape_inference.infer_shapes(model).graph.value_info)}
    made = _Written({c.name: numpy_helper.to_array(c) for c in model.graph.initializer})
    for node in model.graph.node:
        if node.op_type == "LSTM":
            made.layer(node, shapes[node.input[0]])
        else:
            made.nodes.append(node)
    graph = helper.make_graph(made.nodes, model.graph.name, model.graph.input, model.graph.output,
                              [*model.graph.initializer, *made.constants])
    return helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


class _Written:
    """Nodes and constants while layers are written out."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> list[str]:
        names = [f"unrolled_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def constant(self, value: np.ndarray) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), f"unrolled_c{len(self.constants)}"))
        return self.constants[-1].name

    def layer(self, node: onnx.NodeProto, shape: list[int]) -> None:
        """Add nodes that make the layer's results of every step, [time, directions, batch, hidden], under the name that they have."""
        first = self.constant(np.array([0]))
        words = [self.node("Squeeze", x, first)[0] for x in self.node("Split", node.input[0], outputs=shape[0], axis=0)]
        ways = [self.direction(words[::-1] if d else words, *(self.weights[i][d] for i in node.input[1:4]), shape[1])[::-1 if d else 1]
                for d in range(len(self.weights[node.input[1]]))]
        axes = self.constant(np.array([0, 1]))
        rows = [self.node("Unsqueeze", h, axes)[0] for step in zip(*ways) for h in step]
        (flat,) = self.node("Concat", *rows, axis=0)
        hidden = self.weights[node.input[2]].shape[-1]
        self.nodes.append(helper.make_node("Reshape", [flat, self.constant(np.array([shape[0], len(ways), shape[1], hidden]))],
                                           [node.output[0]]))

    def direction(self, words: list[str], w: np.ndarray, r: np.ndarray, b: np.ndarray, batch: int) -> list[str]:
        """Return the hidden state after each word, in their order: gates i, o, f and the new cell, as ONNX lists them."""
        hidden = r.shape[1]
        w_name, r_name, bias = self.constant(w.T), self.constant(r.T), self.constant(b[:4 * hidden] + b[4 * hidden:])
        h = c = self.constant(np.zeros((batch, hidden), np.float32))
        out = []
        for word in words:
            (given,), (kept,) = self.node("MatMul", word, w_name), self.node("MatMul", h, r_name)
            (gates,) = self.node("Add", *self.node("Add", given, bias), kept)
            parts = self.node("Split", gates, outputs=4, axis=1)
            (i,), (o,), (f,) = (self.node("Sigmoid", p) for p in parts[:3])
            (stays,), (comes,) = self.node("Mul", f, c), self.node("Mul", i, *self.node("Tanh", parts[3]))
            (c,) = self.node("Add", stays, comes)
            (h,) = self.node("Mul", o, *self.node("Tanh", c))
            out.append(h)
        return out
