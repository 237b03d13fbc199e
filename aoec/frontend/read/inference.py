"""Calls ONNX's shape inference. All calls go through here, and keep from it what its code has no bound for."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from aoec.frontend.read.values import subgraphs

InferenceError = shape_inference.InferenceError
MOST_VALUES = 1 << 12  # of a vector: ONNX's inference makes a dimension of some 140 bytes for each, of an input too
MOST_STEP = 1 << 31  # of a Slice. ONNX's inference adds a step to a place in 64 bits, and goes round for ever where that wraps


def infer_shapes(proto: onnx.ModelProto, check_type: bool = False, strict_mode: bool = False, data_prop: bool = False) -> onnx.ModelProto:
    """Return the model with inferred types, as `onnx.shape_inference.infer_shapes` does.

    Values are not propagated (`data_prop`) where a Slice has a step that could wrap, or where there is a long vector. Shapes that follow
    from values are then inferred node by node (shapes.py), when these values are known.
    """
    made = shape_inference.infer_shapes(proto, check_type=check_type, strict_mode=strict_mode and not data_prop)
    if not data_prop:
        return made
    graphs = [proto.graph, *(_as_graph(f) for f in proto.functions)]
    safe = all(map(steps_are_small, graphs)) and all(map(vectors_are_short, (made.graph, *graphs)))
    return shape_inference.infer_shapes(proto, check_type=check_type, strict_mode=strict_mode, data_prop=safe)


def vectors_are_short(graph: onnx.GraphProto) -> bool:
    """Return whether no vector of a graph, or of the bodies in it, is known to have more than MOST_VALUES elements."""
    types = [i.type.tensor_type for i in (*graph.input, *graph.output, *graph.value_info)]
    shapes = [*([d.dim_value for d in t.shape.dim] for t in types), *(w.dims for w in graph.initializer)]
    return all(len(s) != 1 or s[0] <= MOST_VALUES for s in shapes) and all(
        vectors_are_short(g) for n in graph.node for g in subgraphs(n))


def steps_are_small(graph: onnx.GraphProto, around: frozenset[str] = frozenset()) -> bool:
    """Return whether each Slice, also in bodies, has no steps, or constant ones of at most MOST_STEP. `around`: constants outside that are
    known to be small."""
    if not any(n.op_type == "Slice" and len(n.input) > 4 or subgraphs(n) for n in graph.node):
        return True
    small = around | {name for name, t in _constants(graph) if _is_small(t)}
    steps = {n.input[4] for n in graph.node if n.op_type == "Slice" and len(n.input) > 4} - {""}
    return steps <= small and all(steps_are_small(g, small) for n in graph.node for g in subgraphs(n))


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """Yield (name, value) of the initialisers and of what Constant nodes make."""
    yield from ((w.name, w) for w in graph.initializer)
    for n in graph.node:
        if n.op_type == "Constant" and n.output and n.attribute:
            a = n.attribute[0]
            numbers = a.ints or [a.i]
            yield n.output[0], a.t if a.name == "value" else helper.make_tensor("", onnx.TensorProto.INT64, [len(numbers)], numbers)


def _is_small(t: onnx.TensorProto) -> bool:
    """Return whether a constant holds a few whole numbers of at most MOST_STEP."""
    if t.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32) or len(t.dims) > 1 or t.external_data:
        return False
    try:
        values = numpy_helper.to_array(t)
    except ValueError:  # not as many as it declares
        return False
    return values.size <= 64 and bool(np.all((values >= -MOST_STEP) & (values <= MOST_STEP)))


def _as_graph(function: onnx.FunctionProto) -> onnx.GraphProto:
    return helper.make_graph(function.node, function.name, [], [])
