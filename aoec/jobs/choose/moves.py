"""Which moves beside a product, and which results beside another, stay launches: those with which it takes longer, by default schedules
and from cold inputs.

A product reads through transposes, reshapes and slices wherever a tile is a box of what they move. Short rows, or a chip that has no way
to load them, can make that slower than a launch that moves them. A group with several results reads what they share once; where they are
made in different ways, such as sums that cores may share, launches of their own can be faster. Equal ones are timed once.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from aoec.base.text import plural
from aoec.ir.graph.graph import Graph, Group, OpNode
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_groups
from aoec.lowering.arrange.folds import OPERANDS, RESULT, exception
from aoec.lowering.arrange.fuse import regroup
from aoec.lowering.arrange.joined.results import exception as result_exception
from aoec.lowering.lower.access import around_product
from aoec.lowering.lower.lower import Indexed
from aoec.ops.words.movement import MOVES
from aoec.target.machine import Machine

MOVED, JOINED = "moves beside it", "results beside it"


@dataclass(frozen=True)
class Kept:
    """What stays apart from a node, such as moves of a product: `what` it is, and the `exceptions` as `fuse` takes them. Modelled us, apart
    and in one launch (inf: refused)."""

    product: str
    exceptions: tuple[str, ...]
    kept_us: float
    folded_us: float
    what: str = MOVED


def sentences(kept: Sequence[Kept]) -> list[str]:
    """Return a sentence on each kind of node from which something stays apart."""
    alike: dict[tuple[str, float, float], list[str]] = {}
    for k in kept:
        alike.setdefault((k.what, k.kept_us, k.folded_us), []).append(k.product)
    out = []
    for (what, kept_us, folded_us), names in alike.items():
        against = "no schedule" if folded_us == inf else f"{folded_us:.1f} us"
        way = "folded" if what == MOVED else "in one launch"
        others = f" and {plural(len(names) - 1, 'other')}" if len(names) > 1 else ""
        out.append(f"{names[0]}{others}: {what} kept, {kept_us:.1f} us against {against} {way}, modelled")
    return out


def kept_moves(graph: Graph, machine: Machine) -> list[Kept]:
    """Return what a fused graph is to keep as launches."""
    nodes, tensors = {n.name: n for n in graph.nodes}, {t.name: t for t in graph.tensors}
    out = []
    for g in graph.groups:
        own = [nodes[name] for name in g.nodes]
        if g.kind != "cube" or all(n.op not in MOVES for n in own):
            continue
        moves, rest = around_product(own, tensors)
        main = rest[0]
        places = _places(main, [moves.is_moved(i) for i in main.inputs], bool(moves.after))
        single = graph_of_nodes(tensors, *[n for n in own if n.op in MOVES or n is main])
        alone = next(n for n in single.nodes if n.op not in MOVES)
        ways = [(), *((p,) for p in places if len(places) > 1), tuple(places)]
        times = _times(single, machine, [tuple(exception(alone, p) for p in way) for way in ways])
        best = min(range(len(ways)), key=times.__getitem__)
        if times[best] < times[0]:
            out.append(Kept(main.name, tuple(exception(main, p) for p in ways[best]), times[best], times[0]))
    return out


def _places(main: OpNode, moved: Sequence[bool], behind: bool) -> list[str]:
    """Return the operands of a product that are moved, by name, and its result where that is."""
    return [name for name, is_moved in zip(OPERANDS[main.op], moved) if is_moved] + [RESULT] * behind


def _times(single: Graph, machine: Machine, ways: Sequence[tuple[str, ...]]) -> list[float]:
    """Return the modelled us of a product and its moves in each of several ways."""
    def make() -> list[float]:
        return [time_groups(regroup(single, machine, kept), machine) for kept in ways]
    at = ("moves", show(single), machine.name, machine.hash)
    return recall_times(at, make)


def kept_results(graph: Graph, machine: Machine) -> list[Kept]:
    """Return which groups of a fused graph are to stay apart."""
    indexed, out = Indexed(graph), []
    for g in graph.groups:
        results = indexed.escaping(g) if g.kind == "vector" and len(g.nodes) > 1 else ()
        if len(results) < 2:
            continue
        together_us, apart_us = _joined_times(_graph_of_group(indexed, g, results), machine)
        if apart_us < together_us:
            out.append(Kept(g.nodes[-1], tuple(map(result_exception, g.nodes)), apart_us, together_us, JOINED))
    return out


def _graph_of_group(indexed: Indexed, group: Group, results: tuple[str, ...]) -> Graph:
    """Return the graph of a group, whose outputs are its results."""
    own = [indexed.nodes[name][1] for name in group.nodes]
    single = graph_of_nodes(indexed.tensors, *own)
    names = {o: new for n, m in zip(own, single.nodes) for o, new in zip(n.outputs, m.outputs)}
    return replace(single, outputs=tuple(names[t] for t in results))


def _joined_times(single: Graph, machine: Machine) -> list[float]:
    """Return the modelled us of a group, in one launch and in those that it was joined of."""
    apart = [result_exception(n.name) for n in single.nodes]

    def make() -> list[float]:
        return [time_groups(regroup(single, machine, kept), machine) for kept in ((), apart)]
    return recall_times(("results", show(single), machine.name, machine.hash), make)
