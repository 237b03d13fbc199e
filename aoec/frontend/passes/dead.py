"""Removes nodes whose results nobody reads."""
from __future__ import annotations

from aoec.ir.graph.draft import Draft


def drop_dead(draft: Draft) -> None:
    """Remove the nodes that lead to no result of the graph."""
    wanted, kept = set(draft.outputs), []
    for node in reversed(draft.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    draft.nodes = kept[::-1]
