"""Reads of single elements along rows, turned: a burst from GM brings one element as it brings a thousand.

What a gather takes of rows one element at a time (the nearest pixels of an image in ND, columns of a table) it takes as whole rows of the
transposed tensor, and what it makes is turned back. Two launches more, and all of the tensor moved twice, for bursts of which each takes
a core as long as some hundred elements of a transposition: 0.5 ns for each read on 910B3 and 3.5 ns on 310P3, modelled, against 6 and 20 ps
for an element that is turned.
"""
from __future__ import annotations

from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

LEAST_READS = 4096  # for fewer, two launches take longer
A_READ = 64  # elements of the tensor that are turned in the time of a read
TURNED = ("fp16", "bf16", "fp32", "int32", "int8", "uint8", "bool")  # as the vector unit turns


def turn_reads(draft: Draft) -> None:
    """Nothing; gathers of many single elements read rows, between two transposes."""
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += _gather_leading(draft, node) if node.op == "gather" and _pays(draft, node) else [node]


def _pays(draft: Draft, node: OpNode) -> bool:
    """Whether elements are taken one at a time, and so many that rows take less time."""
    source, places = (draft.tensors[i] for i in node.inputs)
    axis = node.attribute("axis")
    assert isinstance(axis, int)
    around, behind = prod(source.shape[:axis]), prod(source.shape[axis + 1:])
    if behind > 1 or around < 2 or source.dtype not in TURNED or source.layout != "ND" or draft.is_constant(source.name):
        return False
    reads = around * prod(places.shape)
    return reads >= LEAST_READS and reads * A_READ >= prod(source.shape)


def _gather_leading(draft: Draft, node: OpNode) -> list[OpNode]:
    """Return a gather over the leading axis of the transposed source, with its result transposed back."""
    source, places, made = (draft.tensors[t] for t in (*node.inputs, *node.outputs))
    axis = node.attribute("axis")
    assert isinstance(axis, int)
    rank, new = len(source.shape), len(places.shape)
    perm = (axis, *(a for a in range(rank) if a != axis))
    rows = draft.tensor(f"{source.name}_turned", source.dtype, [source.shape[a] for a in perm])
    taken = draft.tensor(f"{made.name}_turned", made.dtype, (*places.shape, *(draft.tensors[rows].shape[1:])))
    back = (*range(new, new + axis), *range(new), *range(new + axis, new + rank - 1))
    return [draft.node("transpose", [source.name], rows, {"perm": perm}, f"{node.name}_turned"),
            draft.node("gather", [rows, places.name], taken, {"axis": 0}, node.name),
            draft.node("transpose", [taken], made.name, {"perm": back}, f"{node.name}_back")]
