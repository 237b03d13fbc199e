"""Outputs of a model that onnxruntime may give other values than ours by a known difference (frontend/differences.py)."""
from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import shape_inference

from aoec.frontend.differences import Difference, of_node
from aoec.frontend.read.read import open_model
from aoec.frontend.read.values import captured_names, shape_of
from aoec.frontend.read.versions import opset


def find_known(path: str, values: Mapping[str, np.ndarray]) -> dict[str, tuple[str, Difference]]:
    """Return output -> (operator, difference) of a node that the output depends on, for outputs of the ONNX file that have one. `values`:
    those of our tensors by name. A difference that concerns special values counts only where the node's data hold NaN or infinities."""
    model = open_model(path)
    shapes = _shapes(model)
    found: dict[str, tuple[str, Difference]] = {}  # value -> why it may differ
    for node in model.graph.node:
        own = next(_of(node, opset(model), shapes, values), None)
        why = own or next((found[name] for name in (*node.input, *captured_names(node)) if name in found), None)
        if why:
            found.update(dict.fromkeys(node.output, why))
    return {o.name: found[o.name] for o in model.graph.output if o.name in found}


def _of(node: onnx.NodeProto, version: int, shapes: Mapping[str, tuple[int, ...] | None], values: Mapping[str, np.ndarray],
        ) -> Iterator[tuple[str, Difference]]:
    """Yield the differences that a node meets, or a node of its subgraphs."""
    yield from ((node.op_type, d) for d in of_node(node, version, shapes)
                if d.onnxruntime_differs and (not d.values or any(_special(values.get(i)) for i in node.input)))
    for a in node.attribute:
        for inner in (*([a.g] if a.HasField("g") else []), *a.graphs):
            for n in inner.node:
                yield from _of(n, version, shapes, values)


def _special(x: np.ndarray | None) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind == "f" and not np.isfinite(x).all()


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...] | None]:
    """Return the shapes of values as far as they can be inferred."""
    try:
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception:  # onnx raises what it likes; a shape that is not known excuses more, never less
        graph = model.graph
    return {i.name: shape_of(i.type) for i in (*graph.input, *graph.value_info, *graph.output)}
