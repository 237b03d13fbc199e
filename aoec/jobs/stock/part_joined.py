"""Products that were joined when a model was read, apart again: queries, keys and values are three products without our rule."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.slices import sizes, taken_box

JOINED = "_joined"  # how names of what was joined end (frontend/passes/siblings.py)


def part_joined(draft: Draft) -> None:
    """Split each joined product of which only slices of columns are read. It becomes a product for each slice."""
    users, nodes, draft.nodes = draft.users(), draft.nodes, []
    gone = set[str]()
    for node in nodes:
        own = users.get(node.outputs[0], [])
        if _is_joined(draft, node, own):
            draft.nodes += [_part(draft, node, s) for s in own]
            gone.update(s.name for s in own)
        elif node.name not in gone:
            draft.nodes.append(node)


def _is_joined(draft: Draft, node: OpNode, users: Sequence[OpNode]) -> bool:
    """Return whether a node is a product that was joined, and all that reads it are slices of whole columns."""
    if node.op != "matmul" or len(node.inputs) < 2 or not node.inputs[1].endswith(JOINED) or node.outputs[0] in draft.outputs or not users:
        return False
    shape = draft.tensors[node.outputs[0]].shape
    boxes = [taken_box(u) if u.op == "slice" else None for u in users]
    return draft.is_constant(node.inputs[1]) and all(box is not None and sizes(box)[:-1] == shape[:-1] for box in boxes)


def _part(draft: Draft, node: OpNode, taken: OpNode) -> OpNode:
    """Return the product that makes one slice."""
    start, count = (taken_box(taken) or ())[-1]
    columns = slice(start, start + count)
    matrix = draft.weights[node.inputs[1]]
    own = matrix[columns] if node.attribute("trans_b", 0) else matrix[:, columns]
    inputs = [node.inputs[0], draft.constant(f"{node.inputs[1]}_part", own, draft.tensors[node.inputs[1]].dtype)]
    if len(node.inputs) > 2:
        inputs.append(draft.constant(f"{node.inputs[2]}_part", draft.weights[node.inputs[2]][columns], draft.tensors[node.inputs[2]].dtype))
    return replace(node, name=draft.fresh(taken.name, "node"), inputs=tuple(inputs), outputs=taken.outputs)
