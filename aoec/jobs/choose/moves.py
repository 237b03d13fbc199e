"""Which moves beside other work stay launches: those with which it takes longer, by default schedules and from cold inputs.

A product reads through transposes, reshapes and slices wherever a tile is a box of what they move. Vector work reads through those that
leave whole blocks of rows. Short rows, or a chip that has no way to load them, can make that slower than a launch that moves them. Equal
ones are timed once.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from aoec.base.text import plural
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_groups
from aoec.lowering.arrange.folds import OPERANDS, RESULT, exception, operand_name
from aoec.lowering.arrange.fuse import regroup
from aoec.lowering.lower.access import around_product, main_node
from aoec.ops.words.movement import MOVES
from aoec.target.machine import Machine


@dataclass(frozen=True)
class Kept:
    """Moves of a group that stay nodes. `work`: its main node. `exceptions`: as `fuse` takes them. Modelled us, with them as nodes and
    folded (inf: refused)."""

    work: str
    exceptions: tuple[str, ...]
    kept_us: float
    folded_us: float


Place = tuple[int, str]  # a node by its place in a group, and one of its operands, or its result
Found = tuple[Graph, list[int], list[tuple[Place, ...]]]  # nodes as a graph of their own, their places in the group, ways of keeping moves


def sentences(kept: Sequence[Kept]) -> list[str]:
    """Return a sentence on each kind of work whose moves stay nodes."""
    alike: dict[tuple[float, float], list[str]] = {}
    for k in kept:
        alike.setdefault((k.kept_us, k.folded_us), []).append(k.work)
    out = []
    for (kept_us, folded_us), names in alike.items():
        against = "no schedule" if folded_us == inf else f"{folded_us:.1f} us"
        others = f" and {plural(len(names) - 1, 'other')}" if len(names) > 1 else ""
        out.append(f"{names[0]}{others}: moves beside it kept, {kept_us:.1f} us against {against} folded, modelled")
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
