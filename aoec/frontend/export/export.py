"""Exports a graph as an ONNX model. Layouts and groups are gone; slices and the results of cleaning up are written in ONNX's operators.

Reals are float, as exporters write them: whoever compiles the model chooses their precision, and sums are wide. Inputs and outputs have the
names and types of the model that was compiled. `export_words.py` says what each word is in ONNX.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from math import prod

import numpy as np
import onnx
from onnx import helper

from aoec.base.errors import UnsupportedError
from aoec.frontend.export.steps import DECLARED, IR_VERSION, MOST_BYTES, OPSET, End, Step, Writer
from aoec.ir.graph.graph import Graph


def export(graph: Graph, weights: Mapping[str, np.ndarray], inputs: Sequence[End], outputs: Sequence[End]) -> onnx.ModelProto:
    """Return the ONNX model of a graph, whatever its layouts and groups. `weights` holds constants as they are stored. Raise
    UnsupportedError for nodes that ONNX has no operators for: products of whole numbers, words of a user's own that are not elementwise,
    host nodes, and control flow."""
    from aoec.frontend.export.export_words import write  # which needs Step
    w = Writer(graph, weights, {t.name: t for t in graph.tensors})
    if graph.bodies:
        raise UnsupportedError(f"graph {graph.name} has control flow with bodies, which is not written as ONNX")
    if (size_bytes := sum(4 * prod(t.shape) for t in graph.tensors if t.data)) > MOST_BYTES:
        raise UnsupportedError(f"graph {graph.name} has {size_bytes:,} bytes of constants, and a file of ONNX's holds {MOST_BYTES:,}")
    w.taken |= {end.name for end in (*inputs, *outputs)}
    given = [_input_of(w, end) for end in inputs]
    for node in graph.nodes:
        step = Step(w, node)
        w.values[node.outputs[0]] = write(step)
    made = [_output_of(w, end) for end in outputs]
    proto = helper.make_graph(w.nodes, graph.name, given, made, w.constants)
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="aoec",
                             producer_version=version("aoec"))


def _input_of(w: Writer, end: End) -> onnx.ValueInfoProto:
    """Return the declaration of an input, whose tensor has a value then."""
    declared = _value_info(end)
    wanted = w.type(end.tensor)
    w.values[end.tensor] = end.name if declared == wanted else w.put("Cast", [end.name], end.tensor, to=wanted)
    return helper.make_tensor_value_info(end.name, declared, w.tensors[end.tensor].shape)


def _output_of(w: Writer, end: End) -> onnx.ValueInfoProto:
    """Return the declaration of an output, which is made of its tensor's value."""
    declared = _value_info(end)
    w.nodes.append(helper.make_node("Cast", [w.value(end.tensor)], [end.name], w.fresh(f"{end.name}_end"), to=declared))
    return helper.make_tensor_value_info(end.name, declared, w.tensors[end.tensor].shape)


def _value_info(end: End) -> int:
    if end.dtype not in DECLARED:
        raise UnsupportedError(f"{end.name} is of type {end.dtype}, which is not written as ONNX")
    return DECLARED[end.dtype]
