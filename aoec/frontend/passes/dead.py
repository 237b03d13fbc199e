"""Removes nodes whose results nobody reads."""
from __future__ import annotations

from aoec.ir.graph.draft import Draft


def drop_dead(draft: Draft) -> None:
    """Nothing; only nodes that lead to a result of the graph are left."""
    wanted, kept = set(draft.outputs), []
    for node in reversed(draft.nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    draft.nodes = kept[::-1]
