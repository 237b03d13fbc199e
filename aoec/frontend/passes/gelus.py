"""Finds GELU where an exporter spelt it out, its factors in any order, and makes one node of it.

With erf: x * 0.5 * (1 + erf(x / sqrt(2))); with tanh: x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), or in it
x * sqrt(2 / pi) * (1 + 0.044715 * x^2).
"""
from __future__ import annotations

from math import isclose, pi, sqrt

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


def find_gelus(draft: Draft) -> None:
    """Nothing; each spelt-out GELU gives its result by one node."""
    find = Finder.of(draft)
    replaced = {}
    for node in draft.nodes:
        x = _INSIDE[node.op](find, node.inputs[0]) if node.op in _INSIDE else None
        last = _last(find, node, x) if x is not None else None
        if x is not None and last is not None:
            replaced[last.name] = draft.node(_WORDS[node.op], [x], last.outputs[0], None, last.name)
    draft.nodes = [replaced.get(n.name, n) for n in draft.nodes]


def _in_erf(find: Finder, name: str) -> str | None:
    """x, of x / sqrt(2)."""
    found = find.scalar(name, "muls")
    return found[0] if found and isclose(found[1], sqrt(0.5), rel_tol=1e-4) else None


def _in_tanh(find: Finder, name: str) -> str | None:
    """x, of sqrt(2 / pi) * (x + 0.044715 * x^3) in either form."""
    outer = find.scalar(name, "muls")
    if outer is not None and isclose(outer[1], sqrt(2 / pi), rel_tol=1e-4):
        plus = find.producer(outer[0], "add")
        pairs = [plus.inputs, plus.inputs[::-1]] if plus else []
        return next((x for x, rest in pairs if _is_cubic(find, rest, x)), None)
    product = find.producer(name, "mul")
    for x, rest in [product.inputs, product.inputs[::-1]] if product else []:
        scaled = find.scalar(x, "muls")
        if scaled and isclose(scaled[1], sqrt(2 / pi), rel_tol=1e-4) and _is_square(find, rest, scaled[0]):
            return scaled[0]
    return None


def _is_cubic(find: Finder, name: str, x: str) -> bool:
    """Whether a tensor is 0.044715 * x^3."""
    found = find.scalar(name, "muls")
    cube = find.producer(found[0], "mul") if found and isclose(found[1], FACTOR, rel_tol=1e-4) else None
    return cube is not None and any(a == x and find.square(b) == x for a, b in (cube.inputs, cube.inputs[::-1]))


def _is_square(find: Finder, name: str, x: str) -> bool:
    """Whether a tensor is 1 + 0.044715 * x^2, the factor on the square or on one of its two."""
    plus = find.scalar(name, "adds")
    if plus is None or plus[1] != 1.0:
        return False
    whole = find.scalar(plus[0], "muls")
    if whole and isclose(whole[1], FACTOR, rel_tol=1e-4):
        return find.square(whole[0]) == x
    product = find.producer(plus[0], "mul")
    parts = [(a, find.scalar(b, "muls")) for a, b in (product.inputs, product.inputs[::-1])] if product else []
    return any(a == x and part and part[0] == x and isclose(part[1], FACTOR, rel_tol=1e-4) for a, part in parts)


FACTOR = 0.044715
_INSIDE = {"erf": _in_erf, "tanh": _in_tanh}
_WORDS = {"erf": "gelu", "tanh": "gelu_tanh"}


def _last(find: Finder, node: OpNode, x: str) -> OpNode | None:
    """The last node of the GELU of x that an erf or tanh belongs to."""
    plus = find.only_user(node.outputs[0])
    if plus is None or find.scalar(plus.outputs[0], "adds") != (node.outputs[0], 1.0):
        return None
    at, halves, times = plus, 0, 0
    while (halves, times) != (1, 1):
        step = find.only_user(at.outputs[0])
        if step is None:
            return None
        other = next((i for i in step.inputs if i != at.outputs[0]), "")
        if step.op == "muls" and dict(step.attributes) == {"scalar": 0.5}:
            halves += 1
        elif step.op == "mul" and other == x:
            times += 1
        elif step.op == "mul" and find.scalar(other, "muls") == (x, 0.5):
            halves, times = halves + 1, times + 1
        else:
            return None
        at = step
    return at
