"""Finds GELU where an exporter wrote it with erf: x * 0.5 * (1 + erf(x / sqrt(2))), its factors in any order, and makes one node of it."""
from __future__ import annotations

from math import isclose, sqrt

from aoec.frontend.passes.find import Finder
from aoec.ir.draft import Draft
from aoec.ir.graph import OpNode


def find_gelus(draft: Draft) -> None:
    """Nothing; each spelt-out GELU gives its result by one node."""
    find = Finder.of(draft)
    replaced = {}
    for node in draft.nodes:
        found = _gelu(find, node) if node.op == "erf" else None
        if found is not None:
            x, last = found
            replaced[last.name] = draft.node("gelu", [x], last.outputs[0], None, last.name)
    draft.nodes = [replaced.get(n.name, n) for n in draft.nodes]


def _gelu(find: Finder, node: OpNode) -> tuple[str, OpNode] | None:
    """(x, the last node) of the GELU that an erf belongs to."""
    under = find.scalar(node.inputs[0], "muls")
    plus = find.only_user(node.outputs[0])
    if under is None or not isclose(under[1], sqrt(0.5), rel_tol=1e-4):
        return None
    if plus is None or find.scalar(plus.outputs[0], "adds") != (node.outputs[0], 1.0):
        return None
    x, at, halves, times = under[0], plus, 0, 0
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
    return x, at
