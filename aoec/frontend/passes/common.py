"""Replaces nodes of equal operators, attributes and inputs by one node, and equal small constants by one constant."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.graph.draft import Draft, digest
from aoec.ops.host import host

COMPARED_BYTES = 4096  # of a constant; larger ones are seldom equal, and hashing them takes as long as reading them


def share_equal(draft: Draft) -> None:
    """Remove nodes and small constants that equal an earlier one, and let their readers read that one. Nodes that make results of the graph
    are kept. Nodes that run on the host are kept, too, since they may be random."""
    names: dict[str, str] = {}
    constants: dict[tuple[object, ...], str] = {}
    for name, array in draft.weights.items():
        if array.nbytes <= COMPARED_BYTES and name not in draft.outputs:
            t = draft.tensors[name]
            first = constants.setdefault((t.dtype, t.shape, t.layout, digest(array)), name)
            if first != name:
                names[name] = first
    made: dict[tuple[object, ...], tuple[str, ...]] = {}
    kept = []
    for node in draft.nodes:
        node = replace(node, inputs=tuple(names.get(i, i) for i in node.inputs))
        types = tuple((draft.tensors[o].dtype, draft.tensors[o].shape) for o in node.outputs if o)
        first_made = made.setdefault((node.op, node.inputs, node.attributes, types), node.outputs)
        if first_made == node.outputs or node.op.startswith(host.PREFIX) or any(o in draft.outputs for o in node.outputs):
            kept.append(node)
        else:
            names |= zip(node.outputs, first_made)
    draft.nodes = kept
