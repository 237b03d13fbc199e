"""Replaces concats of single elements by concats of rows, followed by a transpose.

Rotary angles of neighbours are stacked along a new last axis. A concat of [.., 1] would move one element for each burst. As rows, the parts
are as long as possible, and rows of two, or a few, are transposed in UB.
"""
from __future__ import annotations

from math import prod

from aoec.ir.func.narrow import LEAST_ROWS, MOST
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ir.index import DTYPES


def stack_rows(draft: Draft) -> None:
    """Replace concats of single elements by concats of rows with a transpose behind them."""
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        if not of_single_elements(draft, node):
            draft.nodes.append(node)
            continue
        out, many = draft.tensors[node.outputs[0]], len(node.inputs)
        rows = prod(out.shape[:-1])
        parts = []
        for at, name in enumerate(node.inputs):
            parts.append(draft.tensor(f"{out.name}_row{at}", out.dtype, (1, rows)))
            draft.nodes.append(draft.node("reshape", [name], parts[-1], {"shape": (1, rows)}, node.name))
        stacked, turned = (draft.tensor(f"{out.name}_{word}", out.dtype, shape) for word, shape in (
            ("rows", (many, rows)), ("turned", (rows, many))))
        draft.nodes.append(draft.node("concat", parts, stacked, {"axis": 0}, node.name))
        draft.nodes.append(draft.node("transpose", [stacked], turned, {"perm": (1, 0)}, node.name))
        draft.nodes.append(OpNode(node.name, "reshape", (turned,), node.outputs, (("shape", out.shape),)))


def of_single_elements(draft: Draft, node: OpNode) -> bool:
    """Return True for a concat of few parts of one element of two or four bytes, in many rows."""
    if node.op != "concat" or not 1 < len(node.inputs) < MOST:
        return False
    out, parts = draft.tensors[node.outputs[0]], [draft.tensors[i] for i in node.inputs]
    alone = len(out.shape) > 1 and node.attribute("axis") == len(out.shape) - 1 and all(p.shape[-1] == 1 for p in parts)
    return alone and DTYPES[out.dtype] in (2, 4) and prod(out.shape[:-1]) >= LEAST_ROWS
