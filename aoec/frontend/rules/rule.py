"""What rules of several families are made of."""
from __future__ import annotations

from collections.abc import Callable

from aoec.frontend.translate.node import Node
from aoec.ir.graph.graph import Attribute

Rule = Callable[[Node], bool]


def unary(op: str, **attributes: Attribute) -> Rule:
    def rule(n: Node) -> bool:
        return n.emit(op, [n.input(0)], attributes)
    return rule


def parametric(op: str, **defaults: float) -> Rule:
    """A unary operator whose real attributes have defaults."""
    def rule(n: Node) -> bool:
        return n.emit(op, [n.input(0)], {name: n.number(name, value) for name, value in defaults.items()})
    return rule


def chain(op: str) -> Rule:
    """An operator of any number of arguments, from the left."""
    def rule(n: Node) -> bool:
        at = n.input(0)
        for other in n.inputs()[1:-1]:
            at = n.step(op, [at, other])
        return n.emit(op, [at, n.inputs()[-1]]) if len(n.inputs()) > 1 else n.emit("reshape", [at], {"shape": n.shape()})
    return rule


def view(n: Node) -> bool:
    """Reshape, Flatten, Squeeze, Unsqueeze, Identity, Dropout at inference: the elements in their order."""
    return not n.has_second_result() and n.emit("reshape", [n.input(0)], {"shape": n.shape()})
