"""Lattice of a model: its groups as fusion makes them, parts of them, groups joined with their neighbours, and variants of stretches.

Places lie between operators, in the order in which fusion runs them. Each run of operators that can be one launch is an edge. A variant is
another graph of the same model. Where it has other groups than the first, these lead past the first graph's own from place to place.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from aoec.ir.graph.graph import OPAQUE, Graph, Group, Tensor
from aoec.jobs.choose.model_tasks import Content, Task, Walk, content
from aoec.jobs.choose.refusal import refusal
from aoec.lowering.arrange.fuse import kind_of
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.planned.launch import Launches
from aoec.search.plans.lattice import Edge, Lattice, Launch, Pieces
from aoec.target.machine import Machine

LONGEST_JOINED = 3  # groups that are offered as one
ON_CORE = ("cube", "vector")
Signature = tuple[Content, tuple[str, ...]]  # of a group: what it is, and which tensors of the imported graph it reads and makes
Place = tuple[int, ...]  # of the base the number of the group behind it; more numbers for places within a group or a variant


@dataclass(frozen=True)
class Stretch:
    """Groups of a variant that stand for groups of the first graph: from `first` up to `last`, that one not included."""

    first: int
    last: int
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class ModelLattice:
    """`groups`: of each edge the group that it runs. `variants`: of each edge the number of its variant, 0 for the first graph. `tasks`: of
    each work what is to be scheduled, in no state of L2."""

    lattice: Lattice
    groups: tuple[Group, ...]
    variants: tuple[int, ...]
    tasks: dict[str, Task]
    base: tuple[int, ...]  # the row of edges that is the first graph's own groups


class Known:
    """Tasks of groups by their content, so that equal groups of all graphs are lowered once; why, where a group has no func."""

    def __init__(self) -> None:
        self.tasks: dict[Content, Task | str] = {}

    def task(self, walk: Walk, group: Group) -> Task | str:
        """Return the task of a group, or why it has no func."""
        at = content(walk.indexed, group)
        if at not in self.tasks:
            try:
                self.tasks[at] = walk.task(group)
            except Exception as e:
                self.tasks[at] = refusal(e)
        return self.tasks[at]


class Grouped:
    """A graph in groups, and which of its nodes may be one launch."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph, self.walk, self.rules = graph, Walk(graph, machine, {}, {}), Launches(graph, machine)
        self.nodes = {n.name: n for n in graph.nodes}
        self.order = {n.name: i for i, n in enumerate(graph.nodes)}

    def parts(self, group: Group) -> list[tuple[int, int, Group]]:
        """Return (first node, the one behind the last, group) of a group and of the runs of its nodes that may be launches."""
        out = [(0, len(group.nodes), group)]
        if group.kind not in ON_CORE:
            return out
        for i in range(len(group.nodes)):
            for j in range(i + 1, len(group.nodes) + 1):
                if j - i < len(group.nodes) and (part := self._part(group, i, j)) is not None:
                    out.append((i, j, part))
        return out

    def _part(self, group: Group, i: int, j: int) -> Group | None:
        """Return some nodes of a group as a group. Return None where they cannot be one."""
        own = [self.nodes[name] for name in group.nodes[i:j]]
        if all(family(n) == "view" for n in own):
            return None
        part = Group(f"{group.name}_{i}_{j}", kind_of(own), group.nodes[i:j])
        return part if part.kind in ON_CORE and not self.rules.refusal(part) else None

    def join_neighbours(self, groups: Sequence[Group]) -> list[tuple[int, int, Group]]:
        """Return (first group, the one behind the last, group) of neighbours that may be one launch."""
        out = []
        for at, first in enumerate(groups):
            for end in range(at + 2, min(at + LONGEST_JOINED, len(groups)) + 1):
                some = groups[at:end]
                if any(g.kind not in ON_CORE for g in some):
                    break
                names = sorted((name for g in some for name in g.nodes), key=self.order.__getitem__)
                whole = Group(f"{first.name}_and_{some[-1].name}", kind_of([self.nodes[name] for name in names]), tuple(names))
                if not self.rules.refusal(whole):
                    out.append((at, end, whole))
        return out

    def launch(self, group: Group, task: Task) -> Launch:
        """Return a group as a launch of a lattice. `task`: that of a group of equal content."""
        ins, outs = self.walk.indexed.operands(group)
        names = [name for name, _ in task.bindings]
        reads, makes = (tuple((name, self._pieces(t)) for name, t in zip(some, tensors))
                        for some, tensors in ((names[:len(ins)], ins), (names[len(ins):], outs)))
        return Launch(task.func_key, reads, makes)

    def left_by_host(self, group: Group) -> Pieces:
        """Return what a group on the host leaves in L2: what it makes."""
        if group.kind != "host":
            return ()
        return tuple(p for name in group.nodes for o in self.nodes[name].outputs for p in self._pieces(self.walk.tensors[o]))

    def _pieces(self, t: Tensor) -> Pieces:
        """Return the parts of memory where a tensor lies."""
        return () if t.dtype == OPAQUE else tuple(self.walk.lies(t).items())

    def signatures(self, imported: Collection[str]) -> list[Signature]:
        """Return what each group is, and which `imported` tensors, which keep their names, it reads and makes."""
        indexed = self.walk.indexed
        return [(content(indexed, g), tuple(t.name for some in indexed.operands(g) for t in some if t.name in imported))
                for g in self.graph.groups]


class LatticeMaker:
    """A lattice while its edges are put together."""

    def __init__(self, base: Grouped, known: Known) -> None:
        self.base, self.known = base, known
        self.edges: list[tuple[Place, Place, Launch | None, Pieces]] = []
        self.groups: list[Group] = []
        self.variants: list[int] = []
        self.tasks: dict[str, Task] = {}
        self.own: list[int] = []
        groups = base.graph.groups
        self._add(base, groups, 0, [(at,) for at in range(len(groups) + 1)])

    def add_variant(self, number: int, graph: Grouped, stretch: Stretch) -> None:
        """Add a stretch of another graph. `number`: how its edges are known, 1 or more."""
        inner: list[Place] = [(stretch.first, number, at) for at in range(1, len(stretch.groups))]
        self._add(graph, stretch.groups, number, [(stretch.first,), *inner, (stretch.last,)])

    def _add(self, graph: Grouped, groups: Sequence[Group], number: int, places: Sequence[Place]) -> None:
        """Add the launches of a row of groups between these places, which lie in front of, between and behind the groups."""
        for at, group in enumerate(groups):
            cuts = [places[at], *((*places[at], -1, number, i) for i in range(1, len(group.nodes))), places[at + 1]]
            for i, j, part in graph.parts(group):
                self._add_edge(graph, number, part, cuts[i], cuts[j], own=number == 0 and part is group)
        for at, end, whole in graph.join_neighbours(groups):
            self._add_edge(graph, number, whole, places[at], places[end])

    def _add_edge(self, graph: Grouped, number: int, group: Group, start: Place, end: Place, own: bool = False) -> None:
        """Add an edge that runs a group, if it has a func."""
        launch, leaves = None, graph.left_by_host(group)
        if group.kind in ON_CORE:
            task = self.known.task(graph.walk, group)
            if isinstance(task, str):
                return
            launch = graph.launch(group, task)
            self.tasks.setdefault(launch.work, replace(task, state=()))
        if own:
            self.own.append(len(self.edges))
        self.edges.append((start, end, launch, leaves))
        self.groups.append(group)
        self.variants.append(number)

    def finish(self) -> ModelLattice:
        """Return the lattice."""
        names = sorted({place for start, end, _, _ in self.edges for place in (start, end)})
        at = {place: i for i, place in enumerate(names)}
        edges = tuple(Edge(at[start], at[end], launch, leaves) for start, end, launch, leaves in self.edges)
        return ModelLattice(Lattice(len(names), edges), tuple(self.groups), tuple(self.variants), self.tasks, tuple(self.own))


def find_stretches(before: Sequence[Signature], other: Grouped, imported: Collection[str]) -> list[Stretch]:
    """Return where another graph of a model has other groups than the first. `before`: the first's signatures; `imported`: names of tensors
    that all graphs of the model share."""
    matcher = SequenceMatcher(None, before, other.signatures(imported), autojunk=False)
    out = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            continue
        if (i1 == i2 or j1 == j2) and i1:  # one of them has nothing there: the equal group before it is part of both
            i1, j1 = i1 - 1, j1 - 1
        elif i1 == i2 or j1 == j2:
            i2, j2 = i2 + 1, j2 + 1
        out.append(Stretch(i1, i2, other.graph.groups[j1:j2]))
    return out
