"""Bodies of control flow in a graph. They are split into the graph and each body as graphs of their own, and put together again. Their
checks are here, too.

Names are unique in a graph with all its bodies. So code that asks a graph for a tensor, a node or a group by name needs to know nothing
of bodies.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from aoec.ir.graph.graph import Body, Graph, Group, OpNode, Tensor
from aoec.ir.text.places import Places

KINDS = ("body", "then_branch", "else_branch")
MOST_DEEP = 16  # bodies in bodies: every walk over them is a recursion
Place = tuple[str, str]  # (node, kind) of a body; ("", "") of what lies in none
MAIN: Place = ("", "")


def place(body: Body) -> Place:
    """Return what tells a body from the others of a graph."""
    return body.node, body.kind


def homes(graph: Graph) -> dict[str, Place]:
    """Return node -> the body that it lies in, of those that lie in one."""
    return {name: place(b) for b in graph.bodies for name in b.nodes}


def nodes_by_place(graph: Graph) -> dict[Place, list[OpNode]]:
    """Return the nodes of the graph outside of all bodies, and of each body, in order."""
    home, out = homes(graph), dict[Place, list[OpNode]]({MAIN: [], **{place(b): [] for b in graph.bodies}})
    for n in graph.nodes:
        out[home.get(n.name, MAIN)].append(n)
    return out


def groups_by_place(graph: Graph) -> dict[Place, list[Group]]:
    """Return the groups outside of all bodies, and of each body, in order."""
    home, out = homes(graph), dict[Place, list[Group]]({MAIN: [], **{place(b): [] for b in graph.bodies}})
    for g in graph.groups:
        out[home.get(g.nodes[0], MAIN) if g.nodes else MAIN].append(g)
    return out


def split_bodies(graph: Graph) -> Iterator[tuple[Body | None, Graph]]:
    """Yield the graph without its bodies, then each body as a graph, all without groups."""
    tensors, nodes = {t.name: t for t in graph.tensors}, nodes_by_place(graph)
    for body in (None, *graph.bodies):
        ends: Graph | Body = body or graph
        own = nodes[place(body) if body else MAIN]
        used = dict.fromkeys([*ends.inputs, *(name for n in own for name in (*n.inputs, *n.outputs) if name), *ends.outputs])
        yield body, Graph(graph.name, ends.inputs, ends.outputs, tuple(tensors[name] for name in used), tuple(own))


def together(parts: Sequence[tuple[Body | None, Graph]]) -> Graph:
    """Return the graph of the parts that `split_bodies` returns. Their names differ, but for constants. Groups are numbered anew: g0,
    g1, ..."""
    tensors: dict[str, Tensor] = {}
    groups: list[Group] = []
    for _, part in parts:
        tensors |= {t.name: t for t in part.tensors if t.name not in tensors}
        groups += [replace(g, name=f"g{len(groups) + at}") for at, g in enumerate(part.groups)]
    main, nodes = parts[0][1], tuple(n for _, p in parts for n in p.nodes)
    bodies = tuple(replace(b, inputs=p.inputs, outputs=p.outputs, nodes=tuple(n.name for n in p.nodes)) for b, p in parts if b)
    return Graph(main.name, main.inputs, main.outputs, tuple(tensors.values()), nodes, tuple(groups), bodies)


def rename_graph(graph: Graph, tensors: Mapping[str, str], nodes: Mapping[str, str]) -> Graph:
    """Return the graph, without groups, with other names for all its tensors and nodes."""
    def rename_all(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(tensors[name] if name else "" for name in names)
    return Graph(
        graph.name, rename_all(graph.inputs), rename_all(graph.outputs), tuple(replace(t, name=tensors[t.name]) for t in graph.tensors),
        tuple(replace(n, name=nodes[n.name], inputs=rename_all(n.inputs), outputs=rename_all(n.outputs)) for n in graph.nodes), (),
        tuple(Body(nodes[b.node], b.kind, rename_all(b.inputs), rename_all(b.outputs), tuple(nodes[name] for name in b.nodes))
              for b in graph.bodies))


# ---------------------------------------------------------------- checks

def check_bodies(graph: Graph, at: Places, where: str) -> dict[str, Place]:
    """Return node -> its body, of those that lie in one; CheckError where a node lies in two, a body in itself, or too deep."""
    names, home = {n.name for n in graph.nodes}, dict[str, Place]()
    at.unique([(f"{b.kind} of {b.node}", b) for b in graph.bodies], "body", where)
    for b in graph.bodies:
        at.check_known(b.kind, KINDS, "kind of body", where, b)
        for name in (b.node, *b.nodes):
            at.check_known(name, names, "node", f"{where}: {b.kind} of {b.node}", b)
        for name in b.nodes:
            at.refuse(name in home, lambda name=name: f"{where}: node {name} lies in two bodies", b, name)  # type: ignore[misc]
            home[name] = place(b)
    depths = {MAIN: 0}
    for b in graph.bodies:
        around, said = home.get(b.node, MAIN), f"{where}: {b.kind} of {b.node}"
        at.refuse(around not in depths, lambda said=said: f"{said} stands before the body that its node lies in", b)  # type: ignore[misc]
        depths[place(b)] = depths[around] + 1
        at.refuse(depths[place(b)] > MOST_DEEP, lambda said=said: f"{said} lies in more than {MOST_DEEP - 1} others", b)  # type: ignore[misc]
    return home


def check_ends(graph: Graph, taken: Collection[str], at: Places, where: str) -> None:
    """Raise CheckError where inputs of bodies are unknown, `taken` otherwise, or of two bodies."""
    tensors, seen = {t.name for t in graph.tensors}, set(taken)
    for b in graph.bodies:
        said = f"{b.kind} of {b.node}"
        for name in (*b.inputs, *b.outputs):
            at.check_known(name, tensors, "tensor", f"{where}: {said}", b)
        for name in b.inputs:
            if name in seen:
                raise at.error(f"{where}: {name} is an input of the {said} and something else too", b, name)
            seen.add(name)
