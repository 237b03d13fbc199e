"""Removes nodes that change nothing, by the rules of identities.rules; before that, axes of one element are made to count for nothing."""
from __future__ import annotations

from dataclasses import replace

from aoec.frontend.passes.by_rules import ByRules
from aoec.frontend.rewrites.apply import Rewriting
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

REDUCTIONS = ("reduce_max", "reduce_mean", "reduce_min", "reduce_sum")


def drop_identities(draft: Draft, rewriting: Rewriting | None = None) -> None:
    """Drop nodes that change nothing, and let their readers read what they read. A transpose that only moves axes of one element becomes a
    view, and a view of a view becomes one view."""
    draft.nodes = [_as_view(draft, n) for n in draft.nodes]
    ByRules("identities")(draft, rewriting)


def _as_view(draft: Draft, node: OpNode) -> OpNode:
    """Return the node; as a view where it is a transpose that leaves the elements in their order. A reduction takes axes of one element
    between its own with them, so that these lie beside each other."""
    if node.op in REDUCTIONS:
        return _as_rows(draft, node)
    if node.op != "transpose":
        return node
    perm, shape = node.attribute("perm"), draft.tensors[node.inputs[0]].shape
    wide = [axis for axis in perm if shape[int(axis)] != 1]  # type: ignore[union-attr, arg-type]
    view = replace(node, op="reshape", attributes=(("shape", draft.tensors[node.outputs[0]].shape),))
    return view if wide == sorted(wide) else node  # type: ignore[type-var]


def _as_rows(draft: Draft, node: OpNode) -> OpNode:
    source = draft.tensors[node.inputs[0]]
    axes = [int(a) for a in node.attribute("axes", ())]  # type: ignore[union-attr, arg-type]
    between = [a for a in range(min(axes), max(axes)) if source.shape[a] == 1 and a not in axes] if axes else []
    given = dict(node.attributes) | {"axes": tuple(sorted((*axes, *between)))}
    return replace(node, attributes=tuple(given.items())) if between else node
