"""Shapes of one node's results from what is known when it is reached.

ONNX's inference over a whole model does not follow shapes that are computed (Shape, Gather, Concat, then Reshape) in older
operator sets; once those constants are folded, inference over the one node that reads them does.
"""
from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from aoec.ir.draft import Draft

TYPES = {"fp32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8, "int32": TensorProto.INT32,
         "int64": TensorProto.INT64, "bool": TensorProto.BOOL}  # of a draft's tensors
SMALL = 1 << 12  # elements: constants that can be shapes, axes, pads


def shape_of(t: onnx.TypeProto) -> tuple[int, ...] | None:
    """The shape of a type, where it is a tensor with every dimension known."""
    if not t.HasField("tensor_type") or not t.tensor_type.HasField("shape"):
        return None
    dims = t.tensor_type.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def infer(proto: onnx.NodeProto, draft: Draft, opset: int) -> dict[str, tuple[int, ...]]:
    """Result name -> shape, for those that ONNX can tell from the arguments' shapes and small constants."""
    names = [i for i in dict.fromkeys(proto.input) if i]
    known = [i for i in names if i in draft.weights and draft.weights[i].size <= SMALL]
    inputs = [helper.make_tensor_value_info(i, TYPES[draft.tensors[i].dtype], draft.tensors[i].shape) for i in names]
    outputs = [helper.make_value_info(o, onnx.TypeProto()) for o in proto.output if o]
    constants = [numpy_helper.from_array(np.asarray(draft.weights[i]), i) for i in known]
    graph = helper.make_graph([proto], "node", inputs, outputs, constants)
    found = shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), data_prop=True)
    return {o.name: s for o in found.graph.output if (s := shape_of(o.type)) is not None}
