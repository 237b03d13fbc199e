"""Number of times that the bodies of control flow run in one inference, as a modelled time of the whole model assumes it."""
from __future__ import annotations

from collections.abc import Mapping

from aoec.ir.graph.bodies import MAIN, Place, homes, place
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ops.host.control import ROUNDS
from aoec.simulate.timing.host import ROUNDS_OF_A_LOOP, SHARE_OF_A_BRANCH


def rounds(node: OpNode) -> tuple[float, str]:
    """Return (how often each body of a node of control flow runs, in words). The count is exact for a Scan and for a Loop with a known
    count. It is an assumption for other Loops, and for the branches of an If."""
    known = node.attribute(ROUNDS)
    if isinstance(known, int):
        return float(known), f"{known:,} rounds" + " at most" * (node.op == "host.Loop")
    if node.op == "host.Loop":
        return ROUNDS_OF_A_LOOP, f"{ROUNDS_OF_A_LOOP:g} rounds, assumed, for data decide it"
    return SHARE_OF_A_BRANCH, "each branch in half of all inferences, assumed, for data decide it"


def passes(graph: Graph) -> dict[Place, float]:
    """Return how often what lies in no body, and each body, runs in one inference."""
    nodes, home = {n.name: n for n in graph.nodes}, homes(graph)
    out = {MAIN: 1.0}
    for b in graph.bodies:
        out[place(b)] = out[home.get(b.node, MAIN)] * rounds(nodes[b.node])[0]
    return out


def passes_of_groups(graph: Graph) -> dict[str, float]:
    """Return how often each group runs in one inference."""
    often, home = passes(graph), homes(graph)
    return {g.name: often[home.get(g.nodes[0], MAIN) if g.nodes else MAIN] for g in graph.groups}


def counts(graph: Graph) -> dict[str, int]:
    """Return how often tables count each group: in whole passes, a branch that is seldom taken once."""
    return {name: max(1, round(often)) for name, often in passes_of_groups(graph).items()}


def weighted_sum(times: Mapping[str, float], graph: Graph) -> float:
    """Return the sum of times of groups, by name, in one inference."""
    often = passes_of_groups(graph)
    return sum(us * often[name] for name, us in times.items())


def describe_rounds(graph: Graph) -> list[str]:
    """Return a sentence on each node of control flow whose bodies are compiled."""
    nodes = {n.name: n for n in graph.nodes}
    return [f"{name} is walked by the host and its bodies run on the AI Core; whole-model times, modelled, count {rounds(nodes[name])[1]}"
            for name in dict.fromkeys(b.node for b in graph.bodies)]
