"""The structural check of a graph: its names, that producers come first, its groups and bodies."""
from __future__ import annotations

from collections.abc import Mapping

from aoec.ir.func.tir import MATRICES
from aoec.ir.graph.bodies import MAIN, Place, check_bodies, check_ends, place
from aoec.ir.graph.graph import OPAQUE, Graph, OpNode
from aoec.ir.index import DTYPES
from aoec.ir.text.places import Places

GRAPH_LAYOUTS = (*MATRICES, "NC1HWC0", "NC1HWC0_C04")
GRAPH_DTYPES = (*DTYPES, OPAQUE)
GROUP_KINDS = ("cube", "vector", "host", "view")


def check_graph(g: Graph, at: Places) -> None:
    """Raise CheckError for names, kinds or an order that make no valid graph. The error states the place where there is a text."""
    where = f"graph {g.name}"
    tensors = at.unique([(t.name, t) for t in g.tensors], "tensor", where)
    at.unique([(n.name, n) for n in g.nodes], "node", where)
    for t in g.tensors:
        at.check_known(t.dtype, GRAPH_DTYPES, "dtype", f"{where}: tensor {t.name}", t)
        held = t.dtype == OPAQUE and (t.shape or t.layout != "ND" or t.data)
        at.refuse(bool(held), lambda t=t: f"{where}: tensor {t.name} is opaque and has a shape, layout or data", t, t.name)  # type: ignore[misc]
        at.check_known(t.layout, GRAPH_LAYOUTS, "layout", f"{where}: tensor {t.name}", t)
        at.refuse(min(t.shape, default=0) < 0, lambda t=t: f"{where}: tensor {t.name} has a negative dimension", t, t.name)  # type: ignore[misc]
    constants, home = {t.name for t in g.tensors if t.data}, check_bodies(g, at, where)
    check_ends(g, {*g.inputs, *constants}, at, where)
    ready = {MAIN: {*g.inputs, *constants}, **{place(b): {*b.inputs, *constants} for b in g.bodies}}
    made = {name for b in g.bodies for name in b.inputs}
    for n in g.nodes:
        _graph_node(n, tensors, ready[home.get(n.name, MAIN)], made, at, f"{where}: node {n.name}")
    for own, outputs in ((MAIN, g.outputs), *((place(b), b.outputs) for b in g.bodies)):
        for name in outputs:
            at.check_known(name, tensors, "tensor", f"{where}: output", g)
            at.refuse(name not in ready[own], lambda name=name:  # type: ignore[misc]
                      f"{where}: output {name} is made by no node", tensors[name], name)
    _groups(g, home, at, where)


def _graph_node(n: OpNode, tensors: dict[str, object], ready: set[str], made: set[str], at: Places, where: str) -> None:
    at.unique([(k, n) for k, _ in n.attributes], "attribute", where)
    for name in filter(None, n.inputs):
        at.check_known(name, tensors, "tensor", where, n)
        at.refuse(name not in ready, lambda name=name:  # type: ignore[misc]
                  f"{where}: {name} is read before a node makes it; order nodes so that producers come first", n, name)
    for name in filter(None, n.outputs):
        at.check_known(name, tensors, "tensor", where, n)
        at.refuse(name in made, lambda name=name: f"{where}: tensor {name} is made by two nodes", n, name)  # type: ignore[misc]
        at.refuse(name in ready, lambda name=name: f"{where}: {name} is an input or constant and cannot be made", n, name)  # type: ignore[misc]
        made.add(name)
    ready.update(filter(None, n.outputs))


def _groups(g: Graph, home: Mapping[str, Place], at: Places, where: str) -> None:
    nodes = {n.name for n in g.nodes}
    at.unique([(p.name, p) for p in g.groups], "group", where)
    seen: dict[str, str] = {}
    for p in g.groups:
        at.check_known(p.kind, GROUP_KINDS, "kind of group", f"{where}: group {p.name}", p)
        for name in p.nodes:
            at.check_known(name, nodes, "node", f"{where}: group {p.name}", p)
            if name in seen:
                raise at.error(f"{where}: node {name} is in groups {seen[name]} and {p.name}; a node belongs to one", p, name)
            seen[name] = p.name
        if len({home.get(name, MAIN) for name in p.nodes}) > 1:
            raise at.error(f"{where}: the nodes of group {p.name} do not lie in one body", p)
    missing = [n for n in g.nodes if n.name not in seen] if g.groups else []
    if missing:
        raise at.error(f"{where}: node {missing[0].name} is in no group; once there are groups, each node belongs to one", missing[0])
