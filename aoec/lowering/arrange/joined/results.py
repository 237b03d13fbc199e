"""Groups with several results: vector groups that work on the same rows become one launch, which reads what they share once.

Two groups are joined where one reads what the other makes, or both read a tensor as large as their work, and nothing that runs between them
needs one and is needed by the other. Results have one shape, or are of its rows. Two groups with one result between them stay two. What the
operators of both calculate, such as the sums of a norm, is calculated once (lowering/lower/vector/lower_shared.py).
"""
from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Group, OpNode
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


class _Joining:
    """Groups in order, of which later ones join earlier ones."""

    def __init__(self, draft: Draft, groups: Sequence[Group], most: int, kept: Collection[str]) -> None:
        self.draft, self.most, self.kept = draft, most, kept
        self.order = {n.name: at for at, n in enumerate(draft.nodes)}
        self.nodes = {n.name: n for n in draft.nodes}
        self.makers = draft.producers()
        self.readers = {name: {n.name for n in found} for name, found in draft.users().items()}
        self.all = list(groups)

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
        """Whether a group was joined with one before it, which has no place of its own then."""
        later = self.all[at]
        if not self.may_join(later) or exception(later.nodes[-1]) in self.kept:
            return False
        for before in range(at - 1, max(at - MOST_BETWEEN, 0) - 1, -1):
            earlier = self.all[before]
            if self.may_join(earlier) and self.are_alike(earlier, later) and (place := self.place(before, at)) is not None:
                names = tuple(sorted((*earlier.nodes, *later.nodes), key=self.order.__getitem__))
                self.all[place] = Group(earlier.name, "vector", names)
                del self.all[at if place == before else before]
                return True
        return False

    def own(self, group: Group) -> list[OpNode]:
        """Return the nodes of a group."""
        return [self.nodes[name] for name in group.nodes]

    def may_join(self, group: Group) -> bool:
        """Whether a group is such work on rows or elements, as tensors lie that one index a dimension walks."""
        own = self.own(group)
        plain = group.kind == "vector" and all(family(n) in FAMILIES and n.op != "plane_norm" for n in own)
        return plain and all(self.draft.tensors[t].layout != "NZ" for n in own for t in (*n.inputs, *n.outputs) if t)

    def reads(self, group: Group) -> set[str]:
        """Return the tensors that a group reads and does not make."""
        own = self.own(group)
        return {i for n in own for i in n.inputs if i} - {o for n in own for o in n.outputs}

    def makes(self, group: Group) -> set[str]:
        """Return the tensors that a group makes."""
        return {o for n in self.own(group) for o in n.outputs}

    def results(self, names: Collection[str], made: Collection[str]) -> list[str]:
        """Return what others than these nodes need of what they make."""
        return [o for o in made if o in self.draft.outputs or not self.readers.get(o, set()) <= set(names)]

    def are_alike(self, earlier: Group, later: Group) -> bool:
        """Whether two groups work on the same rows, have a tensor of that size in common, and are few enough."""
        names, made = (*earlier.nodes, *later.nodes), self.makes(earlier) | self.makes(later)
        read = (self.reads(earlier) | self.reads(later)) - made
        results = self.results(names, made)
        own = [self.nodes[name] for name in names]
        if len(names) > MOST_NODES or flags_of(self.draft, own) > self.most or not 2 <= len(results) <= MOST_RESULTS:
            return False
        tensors = self.draft.tensors
        largest = max((tensors[t] for t in (*read, *made)), key=lambda t: prod(t.shape))
        shared = self.reads(later) & (self.reads(earlier) | self.makes(earlier))
        whole = [t for t in shared if (tensors[t].shape, tensors[t].layout) == (largest.shape, largest.layout)]
        if not whole or not largest.shape:
            return False
        if any(family(n) == "ranged" and not made.isdisjoint(n.inputs[1:]) for n in own):  # a range is known once all cores have met
            return False
        rows = any(family(self.nodes[name]) in ROWS for name in names)
        sums = [t for t in shared & self.makes(earlier) if family(self.makers[t]) == "reduce"]
        if any(prod(tensors[t].shape) < LEAST_ROWS for t in sums):
            return False
        if rows and (largest.layout != "ND" or largest.shape[-1] > LONGEST_ROW):
            return False
        return all(self.is_of_rows(t, largest.shape, largest.layout, rows) for t in results) and all(
            self.reduces_rows(self.nodes[name], len(largest.shape)) for name in names)

    def is_of_rows(self, name: str, whole: tuple[int, ...], layout: str, rows: bool) -> bool:
        """Whether a result has the shape of the work, or one element for each of its rows."""
        t = self.draft.tensors[name]
        short = rows and t.layout == "ND" and t.shape in ((*whole[:-1], 1), whole[:-1]) and prod(t.shape) > 1
        return (t.shape, t.layout) == (whole, layout) or short

    def reduces_rows(self, node: OpNode, rank: int) -> bool:
        """Whether a node reduces nothing but rows along the last dimension."""
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
