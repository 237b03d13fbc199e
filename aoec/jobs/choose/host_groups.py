"""Groups on the host that follow each other as one: what only moves what the host has made needs no task of its own."""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.graph.bodies import homes
from aoec.ir.graph.graph import Graph, Group, OpNode
from aoec.lowering.arrange.layout import family
from aoec.ops.host.host import PREFIX

# operators of ONNX that calculate nothing
MOVES = frozenset((
    "Concat", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "Shape", "Size", "Slice", "Split",
    "Squeeze", "Transpose", "Unsqueeze"))


def only_moves(node: OpNode) -> bool:
    """Return whether a node on the host calculates nothing: it renames or moves elements."""
    return node.op.removeprefix(PREFIX) in MOVES if node.op.startswith(PREFIX) else family(node) in ("movement", "view")


def join_on_host(graph: Graph) -> Graph:
    """Return the graph, whose groups on the host have taken up those behind them that only move elements.

    A group is taken up by the last one on the host that makes something of what it reads, where all else that it reads is there by then,
    and both lie in one body. One that walks control flow takes up nothing.
    """
    nodes, home, walked = {n.name: n for n in graph.nodes}, homes(graph), {b.node for b in graph.bodies}
    maker: dict[str, int] = {}  # tensor -> place of the group that makes it
    out: list[Group] = []
    for g in graph.groups:
        own = [nodes[name] for name in g.nodes]
        made = {o for n in own for o in n.outputs if o}
        before = max((maker[i] for n in own for i in n.inputs if i in maker), default=-1)
        host = out[before] if before >= 0 else None
        joins = (host is not None and host.kind == g.kind == "host" and all(map(only_moves, own)) and walked.isdisjoint(host.nodes)
                 and home.get(host.nodes[0]) == home.get(g.nodes[0]))
        if host is not None and joins:
            out[before] = replace(host, nodes=(*host.nodes, *g.nodes))
        else:
            before = len(out)
            out.append(g)
        maker.update(dict.fromkeys(made, before))
    return replace(graph, groups=tuple(out))
