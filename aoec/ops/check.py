"""Checks of a graph that need the dictionary: its operators are words of it, and every result has the shape that its meaning gives."""
from __future__ import annotations

from aoec.base.errors import AoecError, CheckError
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ops.host.host import PREFIX
from aoec.ops.own import shape_of


class NodeError(CheckError):
    """A node that the dictionary refuses; `node` is its name, so that a caller with the text can show the place."""

    def __init__(self, node: str, message: str) -> None:
        super().__init__(message)
        self.node = node


def check(graph: Graph) -> None:
    """Raise NodeError for the first node whose operator, operands, attributes or result do not fit the dictionary."""
    tensors = {t.name: t for t in graph.tensors}
    for node in graph.nodes:
        if not node.op.startswith(PREFIX):  # those mean what ONNX says, and shapes were inferred by it
            _check_node(node, tensors)


def _check_node(node: OpNode, tensors: dict[str, Tensor]) -> None:
    try:
        wanted = shape_of(node, [tensors[i].shape for i in node.inputs if i])
    except AoecError as e:
        raise NodeError(node.name, f"node {node.name}: {e}") from e
    stated = tensors[node.outputs[0]].shape
    if stated != wanted:
        declared = f"tensor {node.outputs[0]} is declared as {list(stated)}"
        raise NodeError(node.name, f"node {node.name}: {node.op} gives {list(wanted)}, and {declared}")
