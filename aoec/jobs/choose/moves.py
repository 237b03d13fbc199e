"""Choice of the moves and results that stay launches of their own. One stays where a joined launch takes longer, by default schedules and
from cold inputs.

A product reads through transposes, reshapes and slices wherever a tile is a box of what they move. Vector work reads through those that
leave whole blocks of rows. Short rows, or a chip that cannot load them, can make that slower than a launch that moves them.

A group with several results reads their common inputs once. Launches of their own can be faster where the results are made in different
ways, such as sums that cores may share. Equal graphs are timed once.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from aoec.base.text import plural
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_groups
from aoec.lowering.arrange.folds import OPERANDS, RESULT, exception, operand_name
from aoec.lowering.arrange.fuse import regroup
from aoec.lowering.arrange.joined.results import exception as result_exception
from aoec.lowering.lower.access import around_product, main_node
from aoec.lowering.lower.lower import Indexed
from aoec.ops.words.movement import MOVES
from aoec.target.machine import Machine

MOVED, JOINED = "moves beside it", "results beside it"


@dataclass(frozen=True)
class Kept:
    """Nodes that stay apart from the main node of a group, `work`, such as its moves. `what` names them, and `exceptions` are those for
    `fuse`. Times are modelled us, apart and in one launch (inf: refused)."""

    work: str
    exceptions: tuple[str, ...]
    kept_us: float
    folded_us: float
    what: str = MOVED


Place = tuple[int, str]  # a node by its place in a group, and one of its operands, or its result
Found = tuple[Graph, list[int], list[tuple[Place, ...]]]  # nodes as a graph of their own, their places in the group, ways of keeping moves


def time_or_refusal(us: float) -> str:
    """Return what a sentence says of a way that was not taken: its modelled us, or that it has no schedule (inf)."""
    return "no schedule" if us == inf else f"{us:.1f} us"


def sentences(kept: Sequence[Kept]) -> list[str]:
    """Return a sentence on each kind of work from which something stays apart."""
    alike: dict[tuple[str, float, float], list[str]] = {}
    for k in kept:
        alike.setdefault((k.what, k.kept_us, k.folded_us), []).append(k.work)
    out = []
    for (what, kept_us, folded_us), names in alike.items():
        way = "folded" if what == MOVED else "in one launch"
        others = f" and {plural(len(names) - 1, 'other')}" if len(names) > 1 else ""
        out.append(f"{names[0]}{others}: {what} kept, {kept_us:.1f} us against {time_or_refusal(folded_us)} {way}, modelled")
    return out


def kept_moves(graph: Graph, machine: Machine) -> list[Kept]:
    """Return what a fused graph is to keep as launches."""
    nodes, tensors = {n.name: n for n in graph.nodes}, {t.name: t for t in graph.tensors}
    out = []
    for g in graph.groups:
        own = [nodes[name] for name in g.nodes]
        found = _of_product(own, tensors) if g.kind == "cube" else _of_vector(own, tensors) if g.kind == "vector" else None
        if found is None:
            continue
        single, places, ways = found
        times = _times(single, machine, [tuple(exception(single.nodes[at], operand) for at, operand in way) for way in ways])
        best = min(range(len(ways)), key=times.__getitem__)
        if times[best] < times[0]:
            kept = tuple(exception(own[places[at]], operand) for at, operand in ways[best])
            out.append(Kept(main_node(own).name, kept, times[best], times[0]))
    return out


def _of_product(own: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> Found | None:
    """Return the ways of a product and its moves: each operand's moves kept, the result's, or all of them."""
    if all(n.op not in MOVES for n in own):
        return None
    moves, rest = around_product(own, tensors)
    main = rest[0]
    alone = [n for n in own if n.op in MOVES or n is main]
    operands = [name for name, i in zip(OPERANDS[main.op], main.inputs) if moves.is_moved(i)] + [RESULT] * bool(moves.after)
    at = alone.index(main)
    ways = [(), *(((at, p),) for p in operands if len(operands) > 1), tuple((at, p) for p in operands)]
    return graph_of_nodes(tensors, *alone), [own.index(n) for n in alone], ways


def _of_vector(own: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> Found | None:
    """Return the ways of vector work that reads through transposes: as it is, or with all moves in front of it kept."""
    if all(n.op != "transpose" for n in own) or main_node(own).op in MOVES:
        return None
    moved = {o for n in own if n.op in MOVES for o in n.outputs}
    places = tuple((at, operand_name(n, i)) for at, n in enumerate(own) if n.op not in MOVES
                   for i, name in enumerate(n.inputs) if name in moved)
    return graph_of_nodes(tensors, *own), list(range(len(own))), [(), places]


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
