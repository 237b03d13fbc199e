"""Moves nodes that only reshape, transpose or cast a gradient right behind the node that makes it, so that gradients are sent early.

Such nodes are added behind the whole backward pass. A launch order follows the order of nodes. So a gradient that is finished there would
be ready only at the end of the backward pass, and no communication could be hidden under it.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

MOVES = ("reshape", "transpose", "cast", "muls")  # of one tensor, from element to element


def send_early(draft: Draft, gradients: Iterable[str]) -> None:
    """Move the nodes that finish each gradient behind the maker of their input. The order of all other nodes stays."""
    makers, users = draft.producers(), draft.users()
    behind: dict[str, list[OpNode]] = {}
    for gradient in gradients:
        if found := _finishing(gradient, makers, users, draft.outputs):
            behind.setdefault(makers[found[0].inputs[0]].name, []).extend(found)
    moved = {n.name for n in chain.from_iterable(behind.values())}
    draft.nodes = [m for n in draft.nodes if n.name not in moved for m in _with_moved(n, behind)]


def _with_moved(n: OpNode, behind: dict[str, list[OpNode]]) -> Iterator[OpNode]:
    """Yield a node, then what was moved behind it, each with what was moved behind that."""
    yield n
    for m in behind.get(n.name, ()):
        yield from _with_moved(m, behind)


def _finishing(gradient: str, makers: dict[str, OpNode], users: dict[str, list[OpNode]], outputs: Collection[str]) -> list[OpNode]:
    """Return the nodes, in order, that make a gradient of what a node makes and do nothing but move and scale it; what lies between them is
    read by nothing else."""
    out: list[OpNode] = []
    name = gradient
    while (n := makers.get(name)) is not None and n.op in MOVES and n.inputs[0] in makers:
        if name != gradient and (len(users.get(name, ())) != 1 or name in outputs):
            break
        out.insert(0, n)
        name = n.inputs[0]
    return out
