"""Tuning tasks of a model: each AI Core group as a func in the memory state that its predecessors leave."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

from aoec.base.text import clip_name
from aoec.ir.func.tir import Func
from aoec.ir.graph.bodies import MAIN, Place, groups_by_place, place
from aoec.ir.graph.graph import OPAQUE, Graph, Group, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.ir.text.keys import key
from aoec.jobs.choose.host_groups import join_on_host, only_moves
from aoec.jobs.choose.refusal import refusal
from aoec.jobs.choose.rounds import rounds
from aoec.jobs.states import state_text
from aoec.lowering.arrange.fuse import halve_groups
from aoec.lowering.arrange.slices import pieces
from aoec.lowering.arrange.views import places
from aoec.lowering.lower.lower import Indexed
from aoec.ops.words.layout import stored_shape
from aoec.ops.words.movement import MOVES
from aoec.simulate.timing.host import NODE_US, host_us, walk_us
from aoec.simulate.timing.state import Resident, State
from aoec.target.machine import Machine

LONGEST = 150  # characters of a label's operators


@dataclass(frozen=True)
class Task:
    """A cube or vector group: its func, where its tensors come from, and what of them is in L2 when it starts."""

    group: Group
    func: Func
    func_key: str
    bindings: tuple[tuple[str, str], ...]  # (tensor of the func, tensor of the graph)
    state: State  # by tensor of the func, oldest first; of a result that passes through L2, how much comes by beside it
    label: str
    own: bool = False  # whether it has an operator of the user's own, whose program is checked in sound.py

    @property
    def state_text(self) -> str:
        return state_text(self.state)


def tasks(graph: Graph, machine: Machine, warm: bool = False, funcs: Mapping[str, Func] | None = None,
          keys: Mapping[str, str] | None = None) -> list[Task]:
    """Return the tasks of a fused graph in order. `warm`: in a second inference, after an equal first one; else nothing is in L2 at first.

    `funcs` gives funcs by group name instead of lowering them (an edited stage), and `keys` the keys of those that are known.
    """
    walk = Walk(graph, machine, funcs or {}, keys or {})
    if warm:
        walk.run()
    return walk.run()


def on_host(graph: Graph, reasons: Mapping[str, str]) -> Graph:
    """Return the graph with the named groups on the host, where operators without a lowering run. Moves behind other nodes on the host have
    no group of their own."""
    groups = tuple(replace(g, kind="host") if g.name in reasons else g for g in graph.groups)
    return join_on_host(replace(graph, groups=groups))


@dataclass(frozen=True)
class Placed:
    """A fused graph whose groups are either lowered or on the host: funcs by group, reasons why groups are on the host, and reasons why
    fused groups were split."""

    graph: Graph
    funcs: dict[str, Func]
    reasons: dict[str, str]
    apart: dict[str, str]


def place_groups(graph: Graph) -> Placed:
    """Return the graph with each group that cannot be lowered split in halves, until all can be lowered. An operator that cannot is on the
    host."""
    (funcs, reasons), apart = lower_groups(graph), dict[str, str]()
    while (parts := halve_groups(graph, reasons)) != graph:
        apart |= taken_apart(graph, reasons)
        graph, (funcs, reasons) = parts, lower_groups(parts)
    return Placed(on_host(graph, reasons), funcs, reasons, apart)


def taken_apart(graph: Graph, reasons: Mapping[str, str]) -> dict[str, str]:
    """Return why groups of several operators are done in halves."""
    return {g.name: reasons[g.name] for g in graph.groups if g.name in reasons and len(g.nodes) > 1}


def lower_groups(graph: Graph) -> tuple[dict[str, Func], dict[str, str]]:
    """Return (group -> func, group -> reason) of cube and vector groups: the first for those that can be lowered, the second for the
    others. Groups of equal content are lowered once."""
    funcs, reasons, indexed = {}, {}, Indexed(graph)
    known: dict[Content, Func] = {}
    for g in graph.groups:
        if g.kind in ("cube", "vector"):
            try:
                if (at := content(indexed, g)) not in known:
                    known[at] = indexed.lower(g)
                funcs[g.name] = replace(known[at], name=g.name)
            except Exception as e:
                reasons[g.name] = refusal(e)
    return funcs, reasons


Content = tuple[str, tuple[OpNode, ...], tuple[Tensor, ...], tuple[str, ...]]


def content(indexed: Indexed, group: Group) -> Content:
    """Return everything that the func of a group depends on but its name. That is nodes and tensors, numbered in the order in which they
    come, constants without their values, and which tensors other groups need."""
    nodes = [indexed.nodes[n][1] for n in group.nodes]
    tensors = dict.fromkeys(t for n in nodes for t in (*n.inputs, *n.outputs) if t)
    names = {"": "", **{t: str(at) for at, t in enumerate(tensors)}}

    def rename(ends: tuple[str, ...]) -> tuple[str, ...]:
        return tuple([names[t] for t in ends])

    return (group.kind, tuple([replace(n, name="", inputs=rename(n.inputs), outputs=rename(n.outputs)) for n in nodes]),
            tuple([replace(indexed.tensors[t], name="", data="constant" if indexed.tensors[t].data else "") for t in tensors]),
            rename(indexed.escaping(group)))


class Walk:
    """The groups in order, with the state of L2 between them; equal groups share one func."""

    def __init__(self, graph: Graph, machine: Machine, funcs: Mapping[str, Func], keys: Mapping[str, str]) -> None:
        self.graph, self.indexed, self.l2_bytes = graph, Indexed(graph), machine.l2_usable_bytes
        self.groups, self.bodies = groups_by_place(graph), {b.node for b in graph.bodies}
        self.tensors = {t.name: t for t in graph.tensors}
        self.nodes = {n.name: n for n in graph.nodes}
        self.places = places(graph)  # of views: whose bytes they are
        self.cuts = self.boundaries()
        self.windows = self.bytes_written()
        self.resident = Resident(self.l2_bytes)
        self.funcs, self.keys = dict(funcs), dict(keys)

    def run(self) -> list[Task]:
        out = self.tasks(MAIN)
        for b in self.graph.bodies:
            around, self.resident = self.resident, Resident(self.l2_bytes)
            if b.kind == "body":  # of rounds, of which all but the first find what the one before left
                self.tasks(place(b))
            out += self.tasks(place(b))
            self.resident = around
        return out

    def tasks(self, at: Place) -> list[Task]:
        """Return the tasks of a body, or of what lies in none, from the state of L2 that now is."""
        return [t for t in map(self.group, self.groups[at]) if t is not None]

    def group(self, group: Group) -> Task | None:
        if group.kind == "view":
            return None
        if group.kind == "host":
            if not self.bodies.isdisjoint(group.nodes):  # what a body leaves in L2 is not followed
                self.resident = Resident(self.l2_bytes)
            self.touch([self.tensors[o] for n in group.nodes for o in self.nodes[n].outputs])
            return None
        return self.task(group)

    def task(self, group: Group) -> Task:
        """Return the task of a cube or vector group. Raise UnsupportedError where it has no lowering."""
        if group.name not in self.funcs:
            self.funcs[group.name] = self.indexed.lower(group)
        func = self.funcs[group.name]
        if group.name not in self.keys:
            self.keys[group.name] = _key(func)
        ins, outs = self.indexed.operands(group)
        bindings = tuple(zip([b.name for b in (*func.inputs, *func.outputs)], [t.name for t in (*ins, *outs)], strict=True))
        names = [name for name, _ in bindings]
        state = self.bytes_held(dict(zip(names, ins))) + self.passing(dict(zip(names[len(ins):], outs)))
        self.touch([*ins, *outs])
        own = any(self.indexed.nodes[name][1].definition for name in group.nodes)
        return Task(group, func, self.keys[group.name], bindings, state, self.label(group), own)

    def boundaries(self) -> dict[str, list[int]]:
        """Return tensor -> the bytes at which parts of it begin or end, in order, of those that lie in parts."""
        out: dict[str, set[int]] = {}
        for name, (whose, start) in self.places.items():
            size, every = size_bytes(self.tensors[name]), size_bytes(self.tensors[whose])
            if size != every:
                out.setdefault(whose, {0, every}).update((start, start + size))
        return {whose: sorted(cuts) for whose, cuts in out.items()}

    def lies(self, t: Tensor) -> dict[str, int]:
        """Return the pieces, with their bytes, that L2 may hold of a tensor. A tensor is one piece, or it has a piece for each part that
        begins in it."""
        whose, start = self.places.get(t.name, (t.name, 0))
        end = start + size_bytes(t)
        if whose not in self.cuts:
            return {whose: end - start}
        inside = [at for at in self.cuts[whose] if start <= at <= end]
        return {f"{whose} {a}": b - a for a, b in pairwise(inside)}

    def bytes_held(self, given: Mapping[str, Tensor]) -> State:
        """Return what L2 holds of a func's inputs, by their names in it, the oldest first. Several may be one tensor, as queries, keys and
        values that one product made are: L2 holds it for each."""
        pieces: dict[str, list[str]] = {}
        for name, t in given.items():
            for piece in self.lies(t):
                pieces.setdefault(piece, []).append(name)
        out: dict[str, int] = {}
        for piece, size in self.resident.part(pieces):
            for name in pieces[piece]:
                out[name] = size + out.pop(name, 0)  # it is as young as its youngest piece
        return tuple(out.items())

    def passing(self, made: Mapping[str, Tensor]) -> State:
        """Return [(tensor, bytes that are written meanwhile)] for results that are parts of a larger tensor. Only entries of more bytes
        than L2 holds are returned."""
        found = {name: self.windows.get(self.places[t.name][0], 0) for name, t in made.items() if t.name in self.places}
        return tuple((name, size) for name, size in found.items() if size > self.l2_bytes)

    def bytes_written(self) -> dict[str, int]:
        """Return tensor that slices write -> bytes that groups touch from the one with its first part to the one with its last. What whole
        groups write of a tensor is one of its own to L2, however late the others are written."""
        at: dict[str, list[int]] = {}
        every, slices = self.groups[MAIN] if self.cuts else [], pieces(self.graph)
        for i, g in enumerate(every):
            for o in self.indexed.escaping(g) if g.name in slices and g.kind in ("cube", "vector") else ():
                if o in self.places:
                    at.setdefault(self.places[o][0], []).append(i)
        return {whose: self.bytes_touched(every[min(i):max(i) + 1]) for whose, i in at.items()}

    def bytes_touched(self, groups: Iterable[Group]) -> int:
        """Return bytes that cube and vector groups read and make, each once."""
        tensors = (t for g in groups if g.kind in ("cube", "vector") for both in self.indexed.operands(g) for t in both)
        return sum({piece: size for t in tensors for piece, size in self.lies(t).items()}.values())

    def touch(self, tensors: list[Tensor]) -> None:
        """Make these tensors the most recent in L2."""
        self.resident.touch({piece: size for t in tensors if t.dtype != OPAQUE for piece, size in self.lies(t).items()})

    def label(self, group: Group) -> str:
        """Return a label of a group for people: its operators without moves that it does itself, filter, and shape of input and output."""
        every = [self.nodes[n] for n in group.nodes]
        nodes = [n for n in every if n.op not in MOVES] or every
        kernel = nodes[0].attribute("kernel")
        ops = [n.op.removesuffix("_packed") for n in nodes]
        if isinstance(kernel, tuple):
            ops[0] += " " + "x".join(str(k) for k in kernel)
        result = self.indexed.escaping(group)[-1] if group.kind == "vector" else nodes[-1].outputs[0]
        shapes = [self.tensors[nodes[0].inputs[0]].shape, self.tensors[result].shape]
        return f"{clip_name('+'.join(ops), LONGEST)} {'->'.join('x'.join(map(str, s)) for s in shapes)}"


def host_times(graph: Graph) -> dict[str, float]:
    """Return group -> estimated microseconds of each group that runs on the host. For control flow with bodies it is the host's own work in
    all rounds, without that of the bodies. A move behind another node of its group is no task of its own, and costs its bytes."""
    tensors, nodes = {t.name: t for t in graph.tensors}, {n.name: n for n in graph.nodes}
    walked = {b.node for b in graph.bodies}
    out = {}
    for g in graph.groups:
        if g.kind == "host":
            touched = [{name for name in (*nodes[n].inputs, *nodes[n].outputs) if name and tensors[name].dtype != OPAQUE} for n in g.nodes]
            out[g.name] = sum(host_us(sum(size_bytes(tensors[name]) for name in names)) for names in touched)
            out[g.name] -= NODE_US * sum(only_moves(nodes[n]) for n in g.nodes[1:])
            out[g.name] += sum(walk_us(rounds(nodes[n])[0]) for n in g.nodes if n in walked)
    return out


@lru_cache(maxsize=1024)
def _key(func: Func) -> str:
    return key(func)


def size_bytes(t: Tensor) -> int:
    n = DTYPES[t.dtype]
    for d in stored_shape(t):
        n *= d
    return n
