"""Finds SiLU, x * sigmoid(x), and SwiGLU, silu of the first half of each row times the second half, and makes one node of each."""
from __future__ import annotations

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode


def find_gates(draft: Draft) -> None:
    """Nothing; each spelt-out SiLU, and then each SwiGLU, gives its result by one node."""
    for op, source in (("silu", _silu), ("swiglu", _swiglu)):
        find = Finder.of(draft)
        found = {n.name: x for n in draft.nodes if n.op == "mul" and (x := source(find, n)) is not None}
        draft.nodes = [draft.node(op, [found[n.name]], n.outputs[0], None, n.name) if n.name in found else n for n in draft.nodes]


def _silu(find: Finder, node: OpNode) -> str | None:
    """x, where the node multiplies it with its sigmoid, which nothing else reads."""
    for x, gate in (node.inputs, node.inputs[::-1]):
        if find.unary(gate, "sigmoid") == x and find.only_user(gate) is node:
            return x
    return None


def _swiglu(find: Finder, node: OpNode) -> str | None:
    """The tensor of whose rows the node multiplies silu of the first half with the second half."""
    for gate, value in (node.inputs, node.inputs[::-1]):
        first = find.unary(gate, "silu")
        whole = first and find.only_user(gate) is node and _half(find, first, 0)
        if whole and _half(find, value, 1) == whole:
            return whole
    return None


def _half(find: Finder, name: str, which: int) -> str | None:
    """The tensor whose rows' first (0) or second (1) halves these are."""
    node = find.producer(name, "slice")
    if node is None:
        return None
    shape, given = find.draft.tensors[node.inputs[0]].shape, dict(node.attributes)
    half = shape[-1] // 2
    wanted = {"starts": (*(0,) * (len(shape) - 1), which * half), "sizes": (*shape[:-1], half), "steps": (1,) * len(shape)}
    return node.inputs[0] if shape[-1] == 2 * half and given == wanted else None
