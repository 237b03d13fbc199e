"""Nodes that run on the host: `host.<OpType>` is ONNX's operator of that name, run by `onnx.reference`.

A node keeps ONNX's attributes under their own names, and `onnx_opset`. Those that a graph's text has no form for (tensors,
subgraphs, lists of strings) are kept as `proto:` and the base64 of ONNX's own serialisation.
"""
from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.ir.graph import Attribute, OpNode

if TYPE_CHECKING:
    import onnx

PREFIX = "host."
OPSET = "onnx_opset"
_PROTO = "proto:"


def attributes(node: onnx.NodeProto, opset: int) -> dict[str, Attribute]:
    """The graph attributes of a node that is to run on the host."""
    kept: dict[str, Attribute] = {a.name: _to_text(a) for a in node.attribute}
    kept[OPSET] = opset
    return kept


def _to_text(a: onnx.AttributeProto) -> Attribute:
    import onnx

    plain = (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT, onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)
    value = onnx.helper.get_attribute_value(a) if a.type in plain else None
    if isinstance(value, (int, float)):
        return value
    if value is not None and len(value):
        return tuple(value)
    if a.type == onnx.AttributeProto.STRING and a.s.isascii() and not a.s.startswith(_PROTO.encode()):
        return a.s.decode()
    return _PROTO + base64.b64encode(a.SerializeToString()).decode()


def _from_text(name: str, value: Attribute) -> onnx.AttributeProto:
    import onnx

    if isinstance(value, str) and value.startswith(_PROTO):
        out = onnx.AttributeProto()
        out.ParseFromString(base64.b64decode(value[len(_PROTO):], validate=True))
        return out
    return onnx.helper.make_attribute(name, list(value) if isinstance(value, tuple) else value)


def evaluator(proto: onnx.NodeProto, opset: int) -> Any:
    """ONNX's reference for one node, in a graph: for a bare node `onnx.reference` would take the newest version of its operator."""
    from onnx import TypeProto
    from onnx.helper import make_graph, make_value_info
    from onnx.reference import ReferenceEvaluator

    inputs = [make_value_info(name, TypeProto()) for name in dict.fromkeys(proto.input) if name]
    outputs = [make_value_info(name, TypeProto()) for name in proto.output if name]
    return ReferenceEvaluator(make_graph([proto], "node", inputs, outputs), opsets={"": opset})


@lru_cache(maxsize=256)
def _evaluator(node: OpNode) -> Any:
    from onnx.helper import make_node

    kept = dict(node.attributes)
    opset = kept.pop(OPSET)
    proto = make_node(node.op[len(PREFIX):], node.inputs, node.outputs)
    proto.attribute.extend(_from_text(name, value) for name, value in kept.items())
    return evaluator(proto, opset)  # type: ignore[arg-type]


def run(node: OpNode, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The results of a host node; UnsupportedError where ONNX's reference cannot run it."""
    feeds = {name: x for name, x in zip(node.inputs, inputs) if x is not None}
    try:
        return [np.asarray(y) for y in _evaluator(node).run(None, feeds)]
    except Exception as e:  # onnx.reference raises whatever its Python bodies raise
        raise UnsupportedError(f"node {node.name}: ONNX's reference cannot run {node.op[len(PREFIX):]} ({e})") from e
