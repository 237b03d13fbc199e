"""Infers the types of one node's results from what is known when the node is reached.

In older operator sets, ONNX's inference over a whole model does not follow shapes that are computed (Shape, Gather, Concat, then Reshape).
Once those constants are folded, inference over the one node that reads them does.
"""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper, numpy_helper

from aoec.frontend.read.inference import infer_shapes

SMALL = 1 << 12  # elements: constants that can be shapes, axes, pads


def infer(proto: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], constants: Mapping[str, np.ndarray],
          opsets: Mapping[str, int]) -> dict[str, onnx.TypeProto]:
    """Return result name -> type, for those that ONNX can tell from the arguments' types and small constants."""
    names = [i for i in dict.fromkeys(proto.input) if i]
    inputs = [helper.make_value_info(i, types.get(i, onnx.TypeProto())) for i in names]
    outputs = [helper.make_value_info(o, onnx.TypeProto()) for o in proto.output if o]
    known = [numpy_helper.from_array(np.asarray(constants[i]), i) for i in names if i in constants]
    graph = helper.make_graph([proto], "node", inputs, outputs, known)
    opset_imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    found = infer_shapes(helper.make_model(graph, opset_imports=opset_imports))
    return {o.name: o.type for o in found.graph.output if o.type.WhichOneof("value")}
