"""Removes nodes that change nothing: views of the same shape, pads and slices that leave all as it is, times 1,
plus 0, a clip without bounds, windows of one pixel that is all there is, reductions over axes of one element."""
from __future__ import annotations

from dataclasses import replace
from math import inf

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

SHAPED = ("expand", "pad", "reshape", "slice")  # they change nothing where they keep the shape, but for slices that go backwards

REDUCTIONS = ("reduce_max", "reduce_mean", "reduce_min", "reduce_sum")
POOLS = ("max_pool", "avg_pool", "global_avg_pool")


def drop_identities(draft: Draft) -> None:
    """Nothing; readers of such a node read what it read, a transpose that only moves axes of one element is a view, and a view of a view
    is one view."""
    draft.nodes = [_as_view(draft, n) for n in draft.nodes]
    _join_views(draft)
    names: dict[str, str] = {}
    kept = []
    for node in draft.nodes:
        if _is_identity(draft, node) and node.outputs[0] not in draft.outputs:
            names[node.outputs[0]] = node.inputs[0]
        else:
            kept.append(node)
    draft.nodes = kept
    draft.rename(names)
    _name_results(draft)


def _is_identity(draft: Draft, node: OpNode) -> bool:
    given = dict(node.attributes)
    if node.op in SHAPED:
        same = draft.tensors[node.inputs[0]].shape == draft.tensors[node.outputs[0]].shape
        return same and all(by == 1 for by in given.get("steps", ()))  # type: ignore[union-attr]
    return (node.op, given) in (("muls", {"scalar": 1.0}), ("adds", {"scalar": 0.0}), ("clip", {"lo": -inf, "hi": inf}))


def _as_view(draft: Draft, node: OpNode) -> OpNode:
    """The node; as a view where it is a transpose that leaves the elements in their order, or pools windows of one pixel each, or reduces
    what is one element; a reduction takes axes of one element between its own with them, so that these lie beside each other."""
    if node.op in REDUCTIONS:
        return _as_rows(draft, node)
    kernel = draft.tensors[node.inputs[0]].shape[2:] if node.op == "global_avg_pool" else node.attribute("kernel")
    same = node.op in POOLS and draft.tensors[node.inputs[0]].shape == draft.tensors[node.outputs[0]].shape
    if same and kernel == (1, 1):
        return replace(node, op="reshape", inputs=node.inputs[:1], attributes=(("shape", draft.tensors[node.outputs[0]].shape),))
    if node.op != "transpose":
        return node
    perm, shape = node.attribute("perm"), draft.tensors[node.inputs[0]].shape
    wide = [axis for axis in perm if shape[int(axis)] != 1]  # type: ignore[union-attr, arg-type]
    view = replace(node, op="reshape", attributes=(("shape", draft.tensors[node.outputs[0]].shape),))
    return view if wide == sorted(wide) else node  # type: ignore[type-var]


def _as_rows(draft: Draft, node: OpNode) -> OpNode:
    source, result = draft.tensors[node.inputs[0]], draft.tensors[node.outputs[0]]
    axes = [int(a) for a in node.attribute("axes", ())]  # type: ignore[union-attr, arg-type]
    if source.dtype == result.dtype and all(source.shape[a] == 1 for a in axes):
        return replace(node, op="reshape", attributes=(("shape", result.shape),))
    between = [a for a in range(min(axes), max(axes)) if source.shape[a] == 1 and a not in axes] if axes else []
    given = dict(node.attributes) | {"axes": tuple(sorted((*axes, *between)))}
    return replace(node, attributes=tuple(given.items())) if between else node


def _join_views(draft: Draft) -> None:
    """Nothing; a reshape of a reshape reads the first one's input."""
    sources = {n.outputs[0]: n.inputs[0] for n in draft.nodes if n.op == "reshape"}
    for at, node in enumerate(draft.nodes):
        source = node.inputs[0] if node.inputs else ""
        while node.op == "reshape" and source in sources:
            source = sources[source]
        draft.nodes[at] = replace(node, inputs=(source,)) if node.op == "reshape" else node


def _name_results(draft: Draft) -> None:
    """Nothing; where a result of the graph only renames a tensor that nobody else reads, its maker gives it the name."""
    users, producers = draft.users(), draft.producers()
    names: dict[str, str] = {}
    for node in draft.nodes:
        if node.outputs[0] in draft.outputs and _is_identity(draft, node):
            source = node.inputs[0]
            if source in producers and len(users[source]) == 1 and source not in draft.outputs:
                names[source] = node.outputs[0]
    draft.nodes = [replace(n, outputs=tuple(names.get(o, o) for o in n.outputs)) for n in draft.nodes
                   if not (n.inputs and names.get(n.inputs[0]) == n.outputs[0])]
