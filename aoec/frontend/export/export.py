"""A graph as an ONNX model: with layouts and groups gone, slices and what cleaning up made of it spelled out in ONNX's operators.

Reals are float, as exporters write them: who compiles the model chooses their precision, and sums are wide. Inputs and outputs have the
names and types of the model that was compiled. What each word is in ONNX stands in `export_words.py`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ops.words.layout import to_logical

OPSET, IR_VERSION = 17, 8  # what current CANN reads too
REALS = ("fp32", "fp16", "bf16")
TYPES = {**dict.fromkeys(REALS, TensorProto.FLOAT), "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int16": TensorProto.INT16,
         "uint16": TensorProto.UINT16, "int32": TensorProto.INT32, "uint32": TensorProto.UINT32, "int64": TensorProto.INT64,
         "uint64": TensorProto.UINT64, "bool": TensorProto.BOOL}
DECLARED = {**TYPES, "fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}  # of inputs and outputs
MOST_BYTES = (2 << 30) - (1 << 20)  # of an ONNX file that holds its constants


@dataclass(frozen=True)
class End:
    """An input or output: the model's name and dtype for a tensor of the graph."""

    name: str
    tensor: str
    dtype: str


@dataclass
class Writer:
    """ONNX nodes as they grow. `values`: tensor of the graph -> ONNX's name for it; `taken`: names that are in use."""

    graph: Graph
    weights: Mapping[str, np.ndarray]
    tensors: dict[str, Tensor]
    values: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)

    def fresh(self, wanted: str) -> str:
        """A name that nothing has yet."""
        name, at = wanted, 1
        while name in self.taken:
            name, at = f"{wanted}_{at}", at + 1
        self.taken.add(name)
        return name

    def put(self, op: str, inputs: Sequence[str], near: str, **attributes: Any) -> str:
        """The value that a new node makes; `near`: what its name resembles."""
        name = self.fresh(near)
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def constant(self, near: str, array: np.ndarray) -> str:
        """A constant."""
        name = self.fresh(near)
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def held(self, name: str) -> np.ndarray:
        """The elements of a constant of the graph, reals as float."""
        t = self.tensors[name]
        array = to_logical(self.weights[name], t).reshape(t.shape)
        return array.astype(np.float32) if t.dtype in REALS else array

    def value(self, name: str) -> str:
        """ONNX's name for a tensor; a constant is there from when it is first read."""
        if name not in self.values:
            self.values[name] = self.constant(name, self.held(name))
        return self.values[name]

    def type(self, name: str) -> int:
        """ONNX's type for a tensor."""
        t = self.tensors[name]
        if t.dtype not in TYPES:
            raise UnsupportedError(f"tensor {name} is of a type that only the host holds ({t.declared}), which is not written as ONNX")
        return TYPES[t.dtype]


@dataclass(frozen=True)
class Step:
    """A node of the graph that is being written."""

    writer: Writer
    node: OpNode

    @property
    def out(self) -> Tensor:
        return self.writer.tensors[self.node.outputs[0]]

    def input(self, at: int) -> Tensor:
        return self.writer.tensors[self.node.inputs[at]]

    def inputs(self) -> list[str]:
        """The values of its arguments."""
        return [self.writer.value(i) if i else "" for i in self.node.inputs]

    def has(self, at: int) -> bool:
        return at < len(self.node.inputs) and bool(self.node.inputs[at])

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute:
        value = self.node.attribute(name, default)
        assert value is not None, name
        return value

    def numbers(self, name: str) -> list[int]:
        """An attribute that is a list of whole numbers."""
        value = self.attribute(name)
        assert isinstance(value, tuple)
        return [int(v) for v in value]

    def real(self, name: str) -> float:
        """An attribute that is one number."""
        return float(self.attribute(name))  # type: ignore[arg-type]

    def put(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """The value that a new node makes, named after the result."""
        return self.writer.put(op, inputs, self.out.name, **attributes)

    def constant(self, array: object, dtype: Any = np.float32) -> str:
        """A constant beside the node; reals are float."""
        return self.writer.constant(f"{self.out.name}_given", np.asarray(array, dtype))

    def scalar(self, value: float) -> str:
        """A number of the result's type."""
        return self.constant(value, helper.tensor_dtype_to_np_dtype(self.writer.type(self.out.name)))

    def as_type(self, value: str, was: int, wanted: int) -> str:
        """A value in another type."""
        return value if was == wanted else self.put("Cast", [value], to=wanted)

    def refuse(self, why: str) -> UnsupportedError:
        """The error of a node that is not written."""
        return UnsupportedError(f"node {self.node.name} ({self.node.op}) is not written as ONNX: {why}")


def export(graph: Graph, weights: Mapping[str, np.ndarray], inputs: Sequence[End], outputs: Sequence[End]) -> onnx.ModelProto:
    """The model of a graph, whatever its layouts and groups. `weights`: constants as they are stored. UnsupportedError for what it has no
    operators for: words of whole numbers of eight bits, of a user's own and of the host, and control flow."""
    from aoec.frontend.export.export_words import write  # which needs Step
    w = Writer(graph, weights, {t.name: t for t in graph.tensors})
    if graph.bodies:
        raise UnsupportedError(f"graph {graph.name} has control flow with bodies, which is not written as ONNX")
    if (size_bytes := sum(4 * prod(t.shape) for t in graph.tensors if t.data)) > MOST_BYTES:
        raise UnsupportedError(f"graph {graph.name} has {size_bytes:,} bytes of constants, and a file of ONNX's holds {MOST_BYTES:,}")
    w.taken |= {end.name for end in (*inputs, *outputs)}
    given = [_given(w, end) for end in inputs]
    for node in graph.nodes:
        step = Step(w, node)
        w.values[node.outputs[0]] = write(step)
    made = [_made(w, end) for end in outputs]
    proto = helper.make_graph(w.nodes, graph.name, given, made, w.constants)
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="aoec",
                             producer_version=version("aoec"))


def _given(w: Writer, end: End) -> onnx.ValueInfoProto:
    """The declaration of an input, whose tensor has a value then."""
    declared = _declared(end)
    wanted = w.type(end.tensor)
    w.values[end.tensor] = end.name if declared == wanted else w.put("Cast", [end.name], end.tensor, to=wanted)
    return helper.make_tensor_value_info(end.name, declared, w.tensors[end.tensor].shape)


def _made(w: Writer, end: End) -> onnx.ValueInfoProto:
    """The declaration of an output, which is made of its tensor's value."""
    declared = _declared(end)
    w.nodes.append(helper.make_node("Cast", [w.value(end.tensor)], [end.name], w.fresh(f"{end.name}_end"), to=declared))
    return helper.make_tensor_value_info(end.name, declared, w.tensors[end.tensor].shape)


def _declared(end: End) -> int:
    if end.dtype not in DECLARED:
        raise UnsupportedError(f"{end.name} is of type {end.dtype}, which is not written as ONNX")
    return DECLARED[end.dtype]
