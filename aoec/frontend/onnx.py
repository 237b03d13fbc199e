"""ONNX to graph: translate node by node, folding constants on the way, then clean up."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Union

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from aoec.base.errors import CheckError, ParseError, UnsupportedError
from aoec.frontend import passes
from aoec.frontend.node import Node
from aoec.frontend.read import Shapes, graph_inputs, opset, read, refuse
from aoec.frontend.rules import ANY_DTYPE, RULES
from aoec.frontend.shapes import infer, shape_of
from aoec.ir.draft import Draft
from aoec.ir.graph import Graph, OpNode, Tensor
from aoec.ops import OPS, host
from aoec.ops.run import NUMPY

# element types of ONNX in our words; reals are fp32 until the precision is chosen
DTYPES = {
    TensorProto.FLOAT: "fp32", TensorProto.FLOAT16: "fp32", TensorProto.BFLOAT16: "fp32", TensorProto.DOUBLE: "fp32",
    TensorProto.INT8: "int8", TensorProto.UINT8: "uint8", TensorProto.INT32: "int32", TensorProto.INT64: "int64", TensorProto.BOOL: "bool"}
FOLD_LIMIT_BYTES = 2 << 30  # a constant that a model computes may not be larger
# operators whose result can be far larger than their inputs -> its number of elements, for when its shape was not inferred
GROWING: dict[str, Callable[..., int]] = {
    "ConstantOfShape": lambda shape: prod(map(int, shape)), "Expand": lambda x, shape: x.size * prod(map(int, shape)),
    "Tile": lambda x, times: x.size * prod(map(int, times)), "Range": lambda start, end, step: int(abs((end - start) / (step or 1))),
    "OneHot": lambda at, depth, values: at.size * abs(int(depth.reshape(()))),
    "Pad": lambda x, pads, *more: x.size + (1 + int(abs(pads).sum())) ** x.ndim,
    "Resize": lambda x, *more: 1 << 62}
NOT_CONSTANT = ("Random", "Bernoulli", "Multinomial")  # no inputs, or equal ones, and yet other results each time


def load(model: Union[str, Path, onnx.ModelProto], input_shapes: Shapes | None = None, precision: str = "fp16",
         ) -> tuple[Graph, dict[str, np.ndarray], list[str]]:
    """(graph, its constants, notices for the user) of an ONNX model, by path or as a proto, in fp16 or fp32.

    Inputs and results keep ONNX's names; reals become `precision`, biases stay fp32. Every failure is an AoecError.
    """
    if precision not in passes.PRECISIONS:
        raise CheckError(f"precision {precision} is not one of {', '.join(passes.PRECISIONS)}")
    notices: list[str] = []
    title = str(model) if isinstance(model, (str, Path)) else model.graph.name or "model"
    draft = _Translation(title, read(model, dict(input_shapes or {}), frozenset(RULES), notices)).draft
    passes.clean(draft)
    notices += passes.choose_precision(draft, precision)
    graph, weights = draft.finish()
    return graph, weights, notices + _host_notice(graph)


def _host_notice(graph: Graph) -> list[str]:
    on_host = Counter(n.op.removeprefix(host.PREFIX) for n in graph.nodes if n.op not in OPS or OPS[n.op].family == "host")
    listed = ", ".join(f"{op} ({count})" for op, count in sorted(on_host.items()))
    return [f"operators without a kernel of their own, which run on the host: {listed}"] if listed else []


class _Translation:
    """The draft of a checked model, made in one walk over its nodes."""

    def __init__(self, title: str, proto: onnx.ModelProto) -> None:
        g = proto.graph
        self.title, self.opset = title, opset(proto)
        self.types = {i.name: i.type for i in (*g.value_info, *g.output, *g.input)}  # a result can be an input
        self.shapes = {name: s for name, t in self.types.items() if (s := shape_of(t)) is not None}
        self.wanted = frozenset(i for n in g.node for i in n.input) | frozenset(o.name for o in g.output)
        self.draft = Draft(g.name or "model", [i.name for i in graph_inputs(g)], [o.name for o in g.output])
        self.draft.reserve({*self.types, *(i.name for i in g.initializer), *self.wanted, *(o for n in g.node for o in n.output)})
        self.refused: Counter[str] = Counter()
        for i in graph_inputs(g):
            self.draft.put(Tensor(i.name, self._dtype(i.name), self.shapes[i.name]))
        for w in g.initializer:
            self._constant(w.name, numpy_helper.to_array(w))
        for node in g.node:
            self._translate(node)
        refuse(title, self.refused, "neither aoec nor ONNX's reference implementation can run them here")

    def _dtype(self, name: str) -> str:
        kind = self.types[name].tensor_type.elem_type if name in self.types else TensorProto.UNDEFINED
        if kind not in DTYPES:
            known = ", ".join(sorted(set(DTYPES.values())))
            raise UnsupportedError(f"{self.title}: tensor {name} is of type {TensorProto.DataType.Name(kind)}, which is not one of {known}")
        return DTYPES[kind]

    def _constant(self, name: str, array: np.ndarray) -> None:
        dtype = DTYPES.get(onnx.helper.np_dtype_to_tensor_dtype(array.dtype))
        if dtype is None:
            raise UnsupportedError(f"{self.title}: constant {name} is of type {array.dtype}, which aoec does not have")
        self.draft.put(Tensor(name, dtype, array.shape))
        self.draft.weights[name] = np.asarray(array, np.float32 if dtype == "fp32" else array.dtype, order="C")

    def _translate(self, proto: onnx.NodeProto) -> None:
        if self._fold(proto):
            return
        if any(o and o not in self.shapes for o in proto.output):
            self.shapes.update(infer(proto, self.draft, self.opset))
        dtypes = {o: self._dtype(o) for o in proto.output if o}
        node = Node(proto, self.draft, self.opset, self.shapes, dtypes, self.wanted)
        try:
            done = (proto.op_type in ANY_DTYPE or self._is_real(proto)) and proto.op_type in RULES and RULES[proto.op_type](node)
        except CheckError as e:
            raise ParseError(f"the ONNX graph is invalid: node {node.title()}: {e.message}", source=self.title) from e
        if not done:
            self._to_host(proto, node)

    def _is_real(self, proto: onnx.NodeProto) -> bool:
        """True where result and data are real numbers: what our words are about."""
        data = [i for at, i in enumerate(proto.input) if i and (at == 0 or i not in self.draft.weights)]
        return self._dtype(proto.output[0]) == "fp32" and all(self.draft.tensors[i].dtype == "fp32" for i in data)

    # ------------------------------------------------------------ constants

    def _fold(self, proto: onnx.NodeProto) -> bool:
        """True where the node's results are known now: its inputs are constants, or it asks for a shape."""
        if proto.op_type == "Shape" and proto.input[0] not in self.draft.weights:
            return self._fold_shape(proto)
        if proto.output and all(o in self.shapes and 0 in self.shapes[o] for o in proto.output if o):
            return self._fold_empty(proto)
        known = all(i in self.draft.weights for i in proto.input if i)
        if not known or proto.op_type.startswith(NOT_CONSTANT) or any(a.HasField("g") or a.graphs for a in proto.attribute):
            return False
        self._bound(proto)
        feeds = {i: self.draft.weights[i] for i in proto.input if i}
        try:
            results = host.evaluator(proto, self.opset).run(None, feeds)
        except MemoryError:
            raise
        except Exception:  # onnx.reference raises whatever its Python bodies raise; our own words may know the operator
            return False
        for name, value in zip(proto.output, results):
            if name:
                self._constant(name, np.asarray(value))
        return True

    def _fold_shape(self, proto: onnx.NodeProto) -> bool:
        bounds = {a.name: a.i for a in proto.attribute}
        shape = self.draft.tensors[proto.input[0]].shape
        self._constant(proto.output[0], np.array(shape[slice(bounds.get("start", 0), bounds.get("end"))], np.int64))
        return True

    def _fold_empty(self, proto: onnx.NodeProto) -> bool:
        """True, after results without any element became constants."""
        for name in filter(None, proto.output):
            self._constant(name, np.zeros(self.shapes[name], NUMPY[self._dtype(name)]))
        return True

    def _bound(self, proto: onnx.NodeProto) -> None:
        """UnsupportedError where a computed constant would be larger than the limit."""
        known = [prod(self.shapes[o]) for o in proto.output if o in self.shapes]
        if not known and proto.op_type in GROWING:
            known = [GROWING[proto.op_type](*(self.draft.weights[i] for i in proto.input if i))]
        size_bytes = 8 * sum(known)
        if size_bytes > FOLD_LIMIT_BYTES:
            raise UnsupportedError(f"{self.title}: the constant {proto.output[0]} ({proto.op_type}) would take up to {size_bytes:,} bytes; "
                                   f"at most {FOLD_LIMIT_BYTES:,} are computed at import")

    # ------------------------------------------------------------ host

    def _to_host(self, proto: onnx.NodeProto, node: Node) -> None:
        """Nothing; the node is added as `host.<OpType>`, or counted among those that cannot run."""
        outputs = tuple(o for o in proto.output if o)
        if len(outputs) < len(list(proto.output)) or not self._runs(proto):
            self.refused[proto.op_type] += 1
        if proto.op_type == "MaxPool" and node.has_second_result():
            self.refused["MaxPool with indices"] += 1  # those of ONNX's reference start anew in every channel
        for name in outputs:
            if name not in self.shapes:
                raise node.unknown_shape(name)
            self.draft.put(Tensor(name, self._dtype(name), self.shapes[name]))
        label = self.draft.fresh(proto.name or f"{proto.op_type.lower()}_0", "node")
        attributes = tuple(host.attributes(proto, self.opset).items())
        self.draft.nodes.append(OpNode(label, host.PREFIX + proto.op_type, tuple(proto.input), outputs, attributes))

    def _runs(self, proto: onnx.NodeProto) -> bool:
        """True where ONNX's reference implementation has the operator, and it has no subgraph."""
        if any(a.HasField("g") or a.graphs for a in proto.attribute):
            return False
        try:
            host.evaluator(proto, self.opset)
        except Exception:  # of any class: the operator is then listed as unsupported
            return False
        return True
