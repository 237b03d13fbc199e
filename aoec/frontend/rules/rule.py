"""What rules of several families are made of."""
from __future__ import annotations

from collections.abc import Callable

from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute

Rule = Callable[[Node], bool]
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
KNOWN = ("fp32", *WHOLE, "bool")  # dtypes that the vector unit is given


def all_known(n: Node) -> bool:
    """Return whether the unit is given all of a node's dtypes."""
    return all(n.draft.tensors[i].dtype in KNOWN for i in n.inputs()) and n.dtype() in KNOWN


def unary(op: str, **attributes: Attribute) -> Rule:
    def rule(n: Node) -> bool:
        return n.emit(op, [n.input(0)], attributes)
    return rule


def chain(op: str) -> Rule:
    """Return the rule of an operator of any number of arguments, which is applied from the left."""
    def rule(n: Node) -> bool:
        at = n.input(0)
        for other in n.inputs()[1:-1]:
            at = n.step(op, [at, other])
        return n.emit(op, [at, n.inputs()[-1]]) if len(n.inputs()) > 1 else n.emit("reshape", [at], {"shape": n.shape()})
    return rule


def view(n: Node) -> bool:
    """Translate Reshape, Flatten, Squeeze, Unsqueeze, Identity, and Dropout at inference: the elements keep their order."""
    return not n.has_second_result() and n.emit("reshape", [n.input(0)], {"shape": n.shape()})
