"""Groups with several results: vector groups that work on the same rows become one launch, which reads shared tensors once.

Two groups may be joined where one reads the result of the other, or where both read a tensor as large as their work. No group that runs
between them may depend on one of them and be needed by the other. The results have one shape, or one value for each row. Two groups that
have only one result between them stay two. Values that the operators of both calculate, such as the sums of a norm, are calculated once
(lowering/lower/vector/lower_shared.py).
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.gradients import gradients_among
from aoec.ir.graph.graph import Graph, Group, OpNode
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.parts import flags_of

FAMILIES = ("elementwise", "ranged", "softmax", "row_norm", "reduce", "extreme")
ROWS = ("softmax", "row_norm", "reduce", "extreme")
MOST_NODES = 64  # of a group
MOST_RESULTS = 4  # of a group: each has a tile of its own in UB, twice
LEAST_ROWS = 32  # of fewer rows cores share the terms of a sum, and what reads it is another launch
MOST_BETWEEN = 64  # groups between two that are joined
LONGEST_ROW = 6144  # elements: of longer rows UB holds too few for a second reader, and each pass reads them again
BESIDE = ".beside"  # ends the exception of a group that stays apart, behind the name of its last node


def exception(node: str) -> str:
    """Return what `fuse` takes as the wish that a group that ends with a node joins none before it."""
    return f"{node}{BESIDE}"


def join_results(draft: Draft, groups: Sequence[Group], most: int, kept: Collection[str] = ()) -> tuple[Group, ...]:
    """Return the groups where those that work on the same rows are one. `most`: tensors that a group may read. `kept`: exceptions."""
    return _Joining(draft, groups, most, kept).groups()


def why_apart(graph: Graph) -> str:
    """Return why the groups of a graph are not one, as a clause; "" where nothing is known."""
    joining = _Joining(Draft.of(graph, {}), graph.groups, len(graph.tensors), ())
    groups = [g for g in graph.groups if g.kind in ("cube", "vector")]
    for later, earlier in ((b, a) for at, b in enumerate(groups) for a in groups[:at]):
        if why := joining.obstacle(earlier) or joining.obstacle(later) or joining.difference(earlier, later):
            return why
    return ""


class _Joining:
    """Groups in order, of which later ones join earlier ones."""

    def __init__(self, draft: Draft, groups: Sequence[Group], most: int, kept: Collection[str]) -> None:
        self.draft, self.most, self.kept = draft, most, kept
        self.order = {n.name: at for at, n in enumerate(draft.nodes)}
        self.nodes = {n.name: n for n in draft.nodes}
        self.makers = draft.producers()
        self.readers = {name: {n.name for n in found} for name, found in draft.users().items()}
        self.all = list(groups)
        self.sent = gradients_among(draft.outputs, draft.inputs).keys()
        self.touched: dict[str, frozenset[str]] = {}  # last node of a group -> the tensors that the group reads or makes

    def groups(self) -> tuple[Group, ...]:
        """Return the groups under the numbers of their places."""
        at = 0
        while at < len(self.all):
            if not self.join(at):
                at += 1
        names = [g.name for g in self.all]
        renamed = all(name.startswith("g") and name[1:].isdigit() for name in names)
        return tuple(Group(f"g{i}" if renamed else g.name, g.kind, g.nodes) for i, g in enumerate(self.all))

    def join(self, at: int) -> bool:
        """Return whether a group was joined with one before it, which has no place of its own then."""
        later = self.all[at]
        if self.obstacle(later) or exception(later.nodes[-1]) in self.kept:
            return False
        read = self.reads(later)
        for before in range(at - 1, max(at - MOST_BETWEEN, 0) - 1, -1):
            earlier = self.all[before]
            if read.isdisjoint(self.touches(earlier)):
                continue
            apart = self.obstacle(earlier) or self.difference(earlier, later)
            if not apart and (place := self.place(before, at)) is not None:
                names = tuple(sorted((*earlier.nodes, *later.nodes), key=self.order.__getitem__))
                self.all[place] = Group(earlier.name, "vector", names)
                self.touched.pop(names[-1], None)
                del self.all[at if place == before else before]
                return True
        return False

    def own(self, group: Group) -> list[OpNode]:
        """Return the nodes of a group."""
        return [self.nodes[name] for name in group.nodes]

    def obstacle(self, group: Group) -> str:
        """Return why a group has one result alone; "" for work on rows or elements, as tensors lie that one index a dimension walks."""
        own = self.own(group)
        if group.kind == "cube":
            return "a product leaves the cores as one result, which what follows reads"
        if group.kind != "vector" or any(family(n) in ("movement", "layout") for n in own):
            return "what only moves elements is a launch of its own"
        if other := next((n.op for n in own if family(n) not in FAMILIES or n.op == "plane_norm"), ""):
            return f"{other} reads more than the rows of its own place"
        nz = any(self.draft.tensors[t].layout == "NZ" for n in own for t in (*n.inputs, *n.outputs) if t)
        return "tensors in NZ have one result a launch" if nz else ""

    def reads(self, group: Group) -> set[str]:
        """Return the tensors that a group reads and does not make."""
        own = self.own(group)
        return {i for n in own for i in n.inputs if i} - {o for n in own for o in n.outputs}

    def makes(self, group: Group) -> set[str]:
        """Return the tensors that a group makes."""
        return {o for n in self.own(group) for o in n.outputs}

    def touches(self, group: Group) -> frozenset[str]:
        """Return the tensors that a group reads or makes."""
        last = group.nodes[-1]
        if last not in self.touched:
            self.touched[last] = frozenset(self.reads(group) | self.makes(group))
        return self.touched[last]

    def results(self, names: Collection[str], made: Collection[str]) -> list[str]:
        """Return what others than these nodes need of what they make."""
        return [o for o in made if o in self.draft.outputs or not self.readers.get(o, set()) <= set(names)]

    def difference(self, earlier: Group, later: Group) -> str:
        """Return why two groups are not one; "" where they work on the same rows, have a tensor of that size in common, and are few
        enough."""
        names, made = (*earlier.nodes, *later.nodes), self.makes(earlier) | self.makes(later)
        read, tensors = (self.reads(earlier) | self.reads(later)) - made, self.draft.tensors
        results = self.results(names, made)
        own = [self.nodes[name] for name in names]
        if len(names) > MOST_NODES or flags_of(self.draft, own) > self.most or not 2 <= len(results) <= MOST_RESULTS:
            return f"together they would read {len(read)} tensors and have {len(results)} results"
        if not self.sent.isdisjoint(self.makes(earlier) & self.reads(later)):
            return "a gradient is sent before the optimiser reads it"
        largest = max((tensors[t] for t in (*read, *made)), key=lambda t: prod(t.shape))
        shared = self.reads(later) & (self.reads(earlier) | self.makes(earlier))
        if not largest.shape or all((tensors[t].shape, tensors[t].layout) != (largest.shape, largest.layout) for t in shared):
            return "they have no tensor in common that is as large as their work"
        if any(family(n) == "ranged" and not made.isdisjoint(n.inputs[1:]) for n in own):
            return "a range is known once all cores have met"
        sums = [t for t in shared & self.makes(earlier) if family(self.makers[t]) == "reduce"]
        if any(prod(tensors[t].shape) < LEAST_ROWS for t in sums):
            return f"cores share the sums of fewer than {LEAST_ROWS} rows, which another launch reads"
        rows = any(family(self.nodes[name]) in ROWS for name in names)
        if rows and (largest.layout != "ND" or largest.shape[-1] > LONGEST_ROW):
            return f"rows of {largest.shape[-1]} elements do not stay in UB for a second result"
        alike = all(self.is_of_rows(t, largest.shape, largest.layout, rows) for t in results)
        along = all(self.reduces_rows(self.nodes[name], len(largest.shape)) for name in names)
        return "" if alike and along else "their results have different shapes, and are not of the same rows"

    def is_of_rows(self, name: str, whole: tuple[int, ...], layout: str, rows: bool) -> bool:
        """Return whether a result has the shape of the work, or one element for each of its rows."""
        t = self.draft.tensors[name]
        short = rows and t.layout == "ND" and t.shape in ((*whole[:-1], 1), whole[:-1]) and prod(t.shape) > 1
        return (t.shape, t.layout) == (whole, layout) or short

    def reduces_rows(self, node: OpNode, rank: int) -> bool:
        """Return whether a node reduces nothing but rows along the last dimension."""
        axes, axis = node.attribute("axes"), node.attribute("axis")
        along = axes if isinstance(axes, tuple) else (axis,) if isinstance(axis, int) else ()
        return family(node) not in ROWS or all(int(a) % rank == rank - 1 for a in along)

    def place(self, before: int, at: int) -> int | None:
        """Return where two groups can run as one: at the place of one of them; None where what lies between needs one for the other."""
        earlier, later = self.all[before], self.all[at]
        between = self.all[before + 1:at]
        if self.reads(later).isdisjoint(t for g in between for t in self.makes(g)):
            return before
        return at if self.makes(earlier).isdisjoint(t for g in between for t in self.reads(g)) else None
