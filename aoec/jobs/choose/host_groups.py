"""Joining of groups on the host that follow each other. A group that only moves data of the host needs no task of its own."""
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
    """Return the graph with each group that only moves elements joined to the group on the host before it.

    A group is joined to the last group on the host that makes one of its inputs. All its other inputs must exist by then, and both groups
    must be in one body. Nothing is joined to a group that runs control flow.
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
