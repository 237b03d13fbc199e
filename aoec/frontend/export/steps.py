"""What one node of a graph becomes in ONNX: nodes and constants as they grow, and what a rule is given."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
        """Return a name that nothing has yet."""
        name, at = wanted, 1
        while name in self.taken:
            name, at = f"{wanted}_{at}", at + 1
        self.taken.add(name)
        return name

    def put(self, op: str, inputs: Sequence[str], near: str, **attributes: Any) -> str:
        """Return the value that a new node makes; `near`: what its name resembles."""
        name = self.fresh(near)
        self.nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))
        return name

    def constant(self, near: str, array: np.ndarray) -> str:
        """Return a constant."""
        name = self.fresh(near)
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def elements(self, name: str) -> np.ndarray:
        """Return the elements of a constant of the graph, reals as float."""
        t = self.tensors[name]
        array = to_logical(self.weights[name], t).reshape(t.shape)
        return array.astype(np.float32) if t.dtype in REALS else array

    def value(self, name: str) -> str:
        """Return ONNX's name for a tensor; a constant is there from when it is first read."""
        if name not in self.values:
            self.values[name] = self.constant(name, self.elements(name))
        return self.values[name]

    def type(self, name: str) -> int:
        """Return ONNX's type for a tensor."""
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
        """Return the values of its arguments."""
        return [self.writer.value(i) if i else "" for i in self.node.inputs]

    def has(self, at: int) -> bool:
        return at < len(self.node.inputs) and bool(self.node.inputs[at])

    def attribute(self, name: str, default: Attribute | None = None) -> Attribute:
        value = self.node.attribute(name, default)
        assert value is not None, name
        return value

    def numbers(self, name: str) -> list[int]:
        """Return an attribute that is a list of whole numbers."""
        value = self.attribute(name)
        assert isinstance(value, tuple)
        return [int(v) for v in value]

    def number(self, name: str) -> float:
        """Return an attribute that is one number."""
        return float(self.attribute(name))  # type: ignore[arg-type]

    def put(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Return the value that a new node makes, named after the result."""
        return self.writer.put(op, inputs, self.out.name, **attributes)

    def constant(self, array: object, dtype: Any = np.float32) -> str:
        """Return a constant beside the node; reals are float."""
        return self.writer.constant(f"{self.out.name}_given", np.asarray(array, dtype))

    def scalar(self, value: float) -> str:
        """Return a number of the result's type."""
        return self.constant(value, helper.tensor_dtype_to_np_dtype(self.writer.type(self.out.name)))

    def as_type(self, value: str, was: int, wanted: int) -> str:
        """Return a value in another type."""
        return value if was == wanted else self.put("Cast", [value], to=wanted)

    def refuse(self, why: str) -> UnsupportedError:
        """Return the error of a node that is not written."""
        return UnsupportedError(f"node {self.node.name} ({self.node.op}) is not written as ONNX: {why}")
