"""Small ONNX models for tests, and the oracle that runs them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str | None]


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


def run(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The results by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, dict(feeds))


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
