"""A group of a fused graph -> func: the meanings of its operators, on tensors as they lie in GM, not yet scheduled."""
from __future__ import annotations

from aoec.base.errors import UnsupportedError
from aoec.ir.graph import Graph, Group, OpNode, Tensor
from aoec.ir.tir import Func
from aoec.lowering.lower_convert import lower_conversion
from aoec.lowering.lower_cube import lower_cube
from aoec.lowering.lower_vector import lower_vector


def lower(graph: Graph, group: Group | str) -> Func:
    """The func of a cube or vector group, given or named; UnsupportedError for host and view groups, which have none."""
    if isinstance(group, str):
        group = next(g for g in graph.groups if g.name == group)
    if group.kind not in ("cube", "vector"):
        raise UnsupportedError(f"group {group.name} is a {group.kind} group: only cube and vector groups have a func")
    tensors = {t.name: t for t in graph.tensors}
    by_name = {n.name: n for n in graph.nodes}
    nodes = [by_name[n] for n in group.nodes]
    empty = next((t for n in nodes for t in (*n.inputs, *n.outputs) if t and 0 in tensors[t].shape), None)
    if empty:
        raise UnsupportedError(f"group {group.name}: {empty} has no elements, and a program would have nothing to do")
    kept = escaping(graph, group)
    if nodes[0].op in ("to_nc1hwc0", "from_nc1hwc0") and len(nodes) == 1:
        return lower_conversion(group.name, nodes[0], tensors)
    if group.kind == "cube":
        return lower_cube(group.name, nodes, tensors)
    if any(tensors[t].layout == "NZ" for n in nodes for t in (*n.inputs, *n.outputs) if t):
        raise UnsupportedError(f"group {group.name}: only matrix products, with bias and relu, read and write NZ; give it ND tensors")
    return lower_vector(group.name, nodes, tensors, kept)


def escaping(graph: Graph, group: Group) -> tuple[str, ...]:
    """Tensors that the group makes and others need, in order."""
    made = [o for n in graph.nodes if n.name in group.nodes for o in n.outputs]
    outside = {i for n in graph.nodes if n.name not in group.nodes for i in n.inputs} | set(graph.outputs)
    return tuple(t for t in made if t in outside)


def group_inputs(nodes: list[OpNode]) -> list[str]:
    """Tensors that a group reads from GM, in order of first use."""
    made = {o for n in nodes for o in n.outputs}
    return list(dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made))


def operands(graph: Graph, group: Group) -> tuple[list[Tensor], list[Tensor]]:
    """(inputs, outputs) of the group's func as graph tensors, in the func's order."""
    tensors = {t.name: t for t in graph.tensors}
    nodes = [n for n in graph.nodes if n.name in group.nodes]
    return [tensors[i] for i in group_inputs(nodes)], [tensors[o] for o in escaping(graph, group)]
