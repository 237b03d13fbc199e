"""Reads of single elements along rows: from rows in UB, or from the transposed tensor.

Where the vector unit gathers by offsets, rows are loaded whole and elements are taken from them in UB, five a cycle (`rows`). Elsewhere
a gather may take one element of a row at a time: the nearest pixels of an image in ND, or columns of a table. It then reads whole rows
of the transposed tensor, and its result is transposed back, since a burst from GM takes as long for one element as for a thousand. This
costs two launches more, and moves the whole tensor twice. It saves bursts, of which each takes a core as long as some hundred transposed
elements. A read takes 0.5 ns on 910B3 and 3.5 ns on 310P3, modelled. A transposed element takes 6 and 20 ps.
"""
from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ir.index import DTYPES
from aoec.target.isa.instructions import MOST_REACH
from aoec.target.machine import Machine

LEAST_READS = 4096  # for fewer, two launches take longer
A_READ = 64  # elements of the tensor that are turned in the time of a read
A_BURST = 512  # bytes of a row that come in the time of a read, at least
TURNED = ("fp16", "bf16", "fp32", "int32", "int8", "uint8", "bool")  # as the vector unit turns


def turn_reads(draft: Draft, machine: Machine | None) -> None:
    """Rewrite gathers of many single elements: they take the elements of rows in UB, or read whole rows between two transposes."""
    nodes, draft.nodes = draft.nodes, []
    narrow: dict[str, str] = {}  # constant places in int64 -> the same in int32
    for node in nodes:
        if (machine is None or machine.has("vgather")) and node.op in ("gather", "gather_elements") and _fits_rows(draft, node):
            source, places = node.inputs
            if draft.is_constant(places) and draft.tensors[places].dtype == "int64":
                if places not in narrow:
                    narrow[places] = draft.constant(f"{places}_int32", draft.weights[places].astype(np.int32), "int32")
                places = narrow[places]
            draft.nodes.append(replace(node, inputs=(source, places), attributes=(*node.attributes, ("rows", 1))))
        else:
            draft.nodes += _gather_leading(draft, node) if node.op == "gather" and _pays(draft, node) else [node]


def _fits_rows(draft: Draft, node: OpNode) -> bool:
    """Return whether elements are taken along the last axis, of rows that UB holds, and so many of each that to bring it takes less
    time."""
    source, places = (draft.tensors[i] for i in node.inputs)
    axis, size = node.attribute("axis"), DTYPES[source.dtype]
    if axis != len(source.shape) - 1 or size not in (2, 4) or (source.layout, places.layout) != ("ND", "ND") or not places.shape:
        return False
    if 0 in (*source.shape, *places.shape) or places.dtype not in ("int32", "int64"):
        return False
    taken = prod(places.shape) if node.op == "gather" else places.shape[-1]
    row = source.shape[-1] * size
    return row <= MOST_REACH and row <= taken * A_BURST


def _pays(draft: Draft, node: OpNode) -> bool:
    """Return whether elements are taken one at a time, and so many that rows take less time."""
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
