"""Small ONNX models for tests, and the oracle that runs them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from aoec.ir.graph.graph import Graph

Shape = Sequence[int | str | None]
# the models that the onnx package carries: real nets whose weights are constants of one value
LIGHT = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("light_*.onnx"))


def model(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Shape], outputs: Sequence[str],
          constants: Mapping[str, np.ndarray] | None = None, opset: int = 17, types: Mapping[str, int] | None = None) -> onnx.ModelProto:
    """A model of these nodes; inputs and outputs are fp32 where `types` says nothing."""
    kinds = {name: (types or {}).get(name, TensorProto.FLOAT) for name in (*inputs, *outputs)}
    graph = helper.make_graph(
        list(nodes), "test", [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kinds[name], None) for name in outputs],
        [numpy_helper.from_array(np.asarray(v), name) for name, v in (constants or {}).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """A node; names separated by blanks (`-`: an absent optional input)."""
    return helper.make_node(op, [i if i != "-" else "" for i in inputs.split()], outputs.split(), **attributes)


def graph_of(nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Sequence[int]], outputs: Sequence[str],
             types: Mapping[str, int] | None = None) -> onnx.GraphProto:
    """A body of control flow: inputs of stated shapes, outputs of any, fp32 where `types` says nothing."""
    def info(name: str, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, (types or {}).get(name, TensorProto.FLOAT), shape)
    return helper.make_graph(list(nodes), "body", [info(n, s) for n, s in inputs.items()], [info(n, None) for n in outputs])


def run(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray], as_it_is: bool = False) -> list[np.ndarray]:
    """The results by onnxruntime; `as_it_is`: node by node, without its own clean-up, which joins pads to pools that it then refuses."""
    options = onnxruntime.SessionOptions()
    if as_it_is:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    # products of uint8 and int8 are summed in pairs of 16 bits, which saturate, on processors without VNNI: not with this
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, dict(feeds))


def operators(graph: Graph) -> list[str]:
    """The words of a graph's nodes, in order."""
    return [n.op for n in graph.nodes]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def feeds_of(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Normal numbers for each input of a model."""
    return {i.name: normal(*(d.dim_value for d in i.type.tensor_type.shape.dim), seed=at) for at, i in enumerate(proto.graph.input)}


def varied(path: Path) -> onnx.ModelProto:
    """A light model with seeded weights in place of its constants of one value, scaled so that values stay moderate."""
    proto = onnx.load(path)
    proto.ir_version = 8  # from 4 on, constants need not be inputs
    shapes = {i.name: numpy_helper.to_array(i) for i in proto.graph.initializer}
    fills = [n for n in proto.graph.node if n.op_type == "ConstantOfShape"]
    variances = {n.input[4] for n in proto.graph.node if n.op_type == "BatchNormalization"}
    for at, n in enumerate(fills):
        shape = tuple(int(extent) for extent in shapes[n.input[0]])
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 10
        array = normal(*shape, seed=at) * np.float32(np.sqrt(2 / fan_in))
        array = np.abs(array) + 0.5 if n.output[0] in variances else array
        proto.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), n.output[0]))
        proto.graph.node.remove(n)
    return proto
