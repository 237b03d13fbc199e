"""Operators that onnxruntime added to the default domain and ONNX does not define, in ONNX's own.

`SimplifiedLayerNormalization` is x / sqrt(mean(x^2) + epsilon) * scale over the dimensions that `scale` has: RMSNormalization since
operator set 23, and its single steps before, which the clean-up passes find again.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

NAME = "SimplifiedLayerNormalization"


def spell_out(proto: onnx.ModelProto, version: int) -> None:
    """Nothing; every such node of the model whose scale is a constant is written in operators that ONNX defines."""
    scales = {i.name: i for i in proto.graph.initializer}
    nodes = list(proto.graph.node)
    if not any(_known(n, scales) for n in nodes):
        return
    taken = {name for n in nodes for name in (*n.input, *n.output)}
    del proto.graph.node[:]
    for n in nodes:
        proto.graph.node.extend(_steps(n, scales[n.input[1]], version, taken, proto.graph) if _known(n, scales) else [n])


def _known(n: onnx.NodeProto, scales: dict[str, onnx.TensorProto]) -> bool:
    return n.op_type == NAME and n.domain in ("", "ai.onnx") and len(n.output) == 1 and len(n.input) > 1 and n.input[1] in scales


def _steps(n: onnx.NodeProto, scale: onnx.TensorProto, version: int, taken: set[str], graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes in place of one; `graph` gets their constants."""
    x, epsilon = n.input[0], next((a.f for a in n.attribute if a.name == "epsilon"), 1e-5)
    axes = list(range(-len(scale.dims), 0))
    if version >= 23:
        yield helper.make_node("RMSNormalization", [x, scale.name], list(n.output), n.name, axis=axes[0], epsilon=epsilon)
        return
    names = {label: _fresh(f"{n.output[0]}_{label}", taken) for label in ("square", "mean", "shifted", "root", "unit", "epsilon", "axes")}
    small = np.array(epsilon, helper.tensor_dtype_to_np_dtype(scale.data_type))
    graph.initializer.append(numpy_helper.from_array(small, names["epsilon"]))
    given: dict[str, Any] = {"axes": axes} if version < 18 else {}
    if version >= 18:
        graph.initializer.append(numpy_helper.from_array(np.array(axes, np.int64), names["axes"]))
    yield helper.make_node("Mul", [x, x], [names["square"]])
    yield helper.make_node("ReduceMean", [names["square"], *([names["axes"]] if version >= 18 else [])], [names["mean"]], **given)
    yield helper.make_node("Add", [names["mean"], names["epsilon"]], [names["shifted"]])
    yield helper.make_node("Sqrt", [names["shifted"]], [names["root"]])
    yield helper.make_node("Div", [x, names["root"]], [names["unit"]])
    yield helper.make_node("Mul", [names["unit"], scale.name], list(n.output), n.name)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name
