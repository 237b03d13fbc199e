"""A network while it grows: ONNX nodes as exporters write them, and seeded weights that keep about unit variance from layer to layer."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# 1 / E[f(x)^2] for x ~ N(0, 1): with weights of variance gain / fan-in, what follows an activation has unit variance again
GAIN = {"": 1.0, "relu": 2.0, "relu6": 2.0, "silu": 2.81, "gelu": 2.36, "tanh": 2.54}


@dataclass(frozen=True)
class Network:
    """An ONNX model, and inputs that it is made for."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]


class Net:
    """Nodes, constants and inputs by name. `shape` of a tensor is kept where a layer asks for it."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.channels: dict[str, int] = {}  # of images
        self.gain: dict[str, float] = {}  # of what an activation gives

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        """Return the result of a node of one result."""
        return self.parts(op, 1, *inputs, **attributes)[0]

    def parts(self, op: str, count: int, *inputs: str, **attributes: object) -> list[str]:
        """Return the results of a node."""
        name = f"{op.lower()}_{len(self.nodes)}"
        out = [name if count == 1 else f"{name}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, inputs, out, name=name, **attributes))
        return out

    def input(self, name: str, value: np.ndarray) -> str:
        self.inputs[name] = value
        return name

    def image(self, name: str, *shape: int) -> str:
        """Return an image of unit variance."""
        self.channels[name] = shape[1]
        return self.input(name, self.random.standard_normal(shape, np.float32))

    def constant(self, value: object, dtype: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, dtype, order="C"), name))
        return name

    def normal(self, *shape: int, deviation: float = 1.0) -> str:
        return self.constant(self.random.standard_normal(shape, np.float32) * np.float32(deviation))

    def shaped(self, x: str, *shape: int) -> str:
        return self.node("Reshape", x, self.constant(shape, np.int64))

    def sliced(self, x: str, axis: int, start: int, end: int, step: int = 1) -> str:
        return self.node("Slice", x, *(self.constant([v], np.int64) for v in (start, end, axis, step)))

    # ------------------------------------------------------------ layers

    def dense(self, x: str, given: int, made: int, bias: bool = True) -> str:
        """Return a linear layer on the last axis, as exporters write it: MatMul, then Add."""
        y = self.node("MatMul", x, self.normal(given, made, deviation=sqrt(self.gain.get(x, 1.0) / given)))
        return self.node("Add", self.normal(made, deviation=0.1), y) if bias else y

    def normed(self, x: str, width: int, epsilon: float = 1e-5) -> str:
        """Add a LayerNormalization with scale and shift."""
        scale = self.constant(self.random.uniform(0.8, 1.2, width))
        return self.node("LayerNormalization", x, scale, self.normal(width, deviation=0.1), axis=-1, epsilon=epsilon)

    def conv(self, x: str, filters: int, kernel: int, stride: int = 1, act: str = "relu", group: int = 1, pad: int = -1,
             scale: float = 1.0) -> str:
        """Return a convolution with bias and its activation, the size kept except for the stride where no pad is given; `scale`: of its
        results."""
        each = self.channels[x] // group
        deviation = scale * sqrt(self.gain.get(x, 1.0) / (each * kernel * kernel))
        w, b = self.normal(filters, each, kernel, kernel, deviation=deviation), self.normal(filters, deviation=0.1)
        pads = [kernel // 2 if pad < 0 else pad] * 4
        y = self.node("Conv", x, w, b, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads, group=group)
        self.channels[y] = filters
        return self.active(y, act)

    def active(self, x: str, act: str) -> str:
        """Return a tensor through an activation, spelt out where exporters do; itself where there is none."""
        if not act:
            return x
        y = {"relu": lambda: self.node("Relu", x), "relu6": lambda: self.node("Clip", x, self.constant(0.0), self.constant(6.0)),
             "silu": lambda: self.node("Mul", x, self.node("Sigmoid", x)), "gelu": lambda: self.gelu(x)}[act]()
        self.gain[y] = GAIN[act]
        if x in self.channels:
            self.channels[y] = self.channels[x]
        return y

    def gelu(self, x: str) -> str:
        """Add x * (1 + erf(x / sqrt 2)) / 2."""
        erf = self.node("Erf", self.node("Div", x, self.constant(sqrt(2))))
        return self.node("Mul", self.node("Mul", x, self.node("Add", erf, self.constant(1))), self.constant(0.5))

    def added(self, a: str, b: str) -> str:
        """Return the sum of two images, or rows."""
        y = self.node("Add", a, b)
        if a in self.channels:
            self.channels[y] = self.channels[a]
        return y

    def joined(self, *images: str) -> str:
        """Add a node that joins images along their channels."""
        y = self.node("Concat", *images, axis=1)
        self.channels[y] = sum(self.channels[i] for i in images)
        self.gain[y] = max(self.gain.get(i, 1.0) for i in images)
        return y

    def kept(self, op: str, x: str, *more: str, **attributes: object) -> str:
        """Return an image of as many channels: pooling, resizing."""
        y = self.node(op, x, *more, **attributes)
        self.channels[y], self.gain[y] = self.channels[x], self.gain.get(x, 1.0)
        return y

    def heads(self, x: str, shape: Sequence[int]) -> str:
        """Add nodes that turn [batch, words, heads * size] into [batch, heads, words, size]."""
        return self.node("Transpose", self.shaped(x, *shape), perm=[0, 2, 1, 3])

    def network(self, name: str, outputs: dict[str, tuple[str, Sequence[int]]]) -> Network:
        """Return the network with its results by the names that users see: (tensor, shape)."""
        for out, (tensor, _) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [tensor], [out], name=out))
        inputs = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in self.inputs.items()]
        results = [helper.make_tensor_value_info(k, TensorProto.FLOAT, shape) for k, (_, shape) in outputs.items()]
        graph = helper.make_graph(self.nodes, name, inputs, results, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8, producer_name="aoec")
        return Network(model, self.inputs)


def parameters(model: onnx.ModelProto) -> int:
    """Return numbers that the real constants of a model hold."""
    return sum(prod(w.dims) for w in model.graph.initializer if w.data_type == TensorProto.FLOAT)
