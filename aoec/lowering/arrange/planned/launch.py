"""Why nodes that fusion does not put together cannot be one launch, by the rules that fusion itself goes by.

What lowers a group takes the rules of fusion for granted. A product's group ends with what its results may meet on their way out. A vector
group works on one shape and on its rows. What only moves elements is beside other work where fusion found a place for it. So a group that
a user makes is held against the same rules first.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.lowering.arrange.fuse import MOST_NODES, can_follow, followers_of, is_alike
from aoec.lowering.arrange.joined.results import FAMILIES, LEAST_ROWS, LONGEST_ROW, MOST_RESULTS, ROWS
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.parts import FLAG_IDS, flags_of
from aoec.lowering.lower.access import main_node
from aoec.lowering.lower.lower import other_blocks
from aoec.ops.words.movement import MOVES
from aoec.target.machine import Machine


class Launches:
    """A fused graph, and what may be one launch of it on a machine. Constants are known by their data."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.draft, self.machine = Draft.of(graph, {}), machine
        self.constants = {t.name for t in graph.tensors if t.data}
        self.nodes = {n.name: n for n in graph.nodes}
        self.fused = {name: g for g in graph.groups for name in g.nodes}
        self.users = self.draft.users()
        self.outputs = {*graph.outputs, *(o for b in graph.bodies for o in b.outputs)}
        self.followers: Mapping[str, tuple[str, ...]] = followers_of(machine)

    def refusal(self, group: Group) -> str:
        """Return why a cube or vector group cannot be one launch, as a clause; "" where the rules know nothing against it."""
        own = [self.nodes[name] for name in group.nodes]
        if self.fused[group.nodes[0]].nodes == group.nodes:
            return ""
        if group.kind == "vector" and (why := other_blocks(own, self.draft.tensors)):
            return why
        if len(own) == 1:
            return ""
        main = main_node(own)
        moves = {n.name for n in own if n.op in MOVES}
        there = self.fused[main.name]
        beside = {name for name in there.nodes if self.nodes[name].op in MOVES} if main.op not in MOVES else set()
        if moves and moves != beside:
            return (f"{sorted(moves)[0]} only moves elements, and is beside other work where fusion puts it there alone: all moves of "
                    f"{main.name} or none")
        work = [n for n in own if n.name not in moves]
        if len(work) > MOST_NODES:
            return f"it has {len(work)} nodes, and {MOST_NODES} are the most"
        if group.kind == "cube":
            return self._cube(work, bool(moves and self._moves_after(main, own)))
        return self._vector(work)

    def _moves_after(self, main: OpNode, own: Sequence[OpNode]) -> bool:
        """Return whether moves of a group read what its product makes."""
        made = set(main.outputs)
        return any(n.op in MOVES and not made.isdisjoint(n.inputs) for n in own)

    def escaping(self, own: Sequence[OpNode]) -> list[str]:
        """Return what others need of what nodes make."""
        names = {n.name for n in own}
        return [o for n in own for o in n.outputs if o in self.outputs or any(u.name not in names for u in self.users.get(o, ()))]

    def _cube(self, work: Sequence[OpNode], moved: bool) -> str:
        """Return why a product and what follows it are not one launch."""
        first, *rest = work
        if len(self.escaping(work)) > 1:
            return f"others read what is between {first.name} and the end of the group, and a product leaves the cores as one result"
        if moved and rest:
            return f"moves behind {first.name} are its last work"
        allowed = self.followers.get(first.op.removesuffix("_packed"), self.followers.get(family(first), ()))
        last, before = first, set[str]()
        for n in rest:
            if last.outputs[0] not in n.inputs:
                return f"{n.name} does not read what {last.name} makes"
            if again := sorted(before.intersection(n.inputs)):
                return f"{n.name} reads {again[0]}, which an operator before it in the group has read: a product's result is read once"
            before.update(last.outputs)
            if not can_follow(self.draft, last, n, allowed):
                return f"{n.name} ({n.op}) may not follow {first.op} in a group on {self.machine.name}, or has another shape or layout"
            if not self._lies_alike(first, n):
                return f"{n.name} reads what lies otherwise than its result, or what the product reads too"
            last = n
            if n.op == "requantise" and n is not rest[-1]:
                return f"nothing follows {n.name} in a group"
        return ""

    def _lies_alike(self, first: OpNode, n: OpNode) -> bool:
        """Return whether what a node reads beside a product's result lies as its result does."""
        if n.op == "requantise":
            return n.name in self.fused[first.name].nodes
        return is_alike(self.draft, first, n)

    def _vector(self, work: Sequence[OpNode]) -> str:
        """Return why vector work is not one launch."""
        tensors = self.draft.tensors
        if other := next((n for n in work if family(n) not in FAMILIES), None):
            return f"{other.name} ({other.op}) is a launch of its own: it reads more than the elements or rows of its own place"
        if most := self._too_many(work):
            return most
        results, made = self.escaping(work), {o for n in work for o in n.outputs}
        every = {t for n in work for t in (*n.inputs, *n.outputs) if t}
        largest = max((tensors[t] for t in every), key=lambda t: prod(t.shape))
        rows = [n for n in work if family(n) in ROWS or family(n) == "extreme"]
        if any(tensors[t].layout != largest.layout for t in made):
            return "its nodes make tensors in several layouts"
        if len(rows) > 1:
            return f"{rows[0].name} and {rows[1].name} both work on rows, and UB has room for the rows of one"
        if len(results) > 1 or rows:
            if why := self._of_rows(work, rows, largest, results):
                return why
        elif bad := next((t for t in made if tensors[t].shape != largest.shape), ""):
            return f"{bad} has another shape than the rest"
        return "" if self._is_connected(work) else "it has nodes that have no tensor in common"

    def _too_many(self, work: Sequence[OpNode]) -> str:
        """Return why a group reads or makes too many tensors."""
        most, results = self.machine.flag_ids or FLAG_IDS, self.escaping(work)
        if flags_of(self.draft, work) > most:
            return f"it reads more than {most} tensors, as many as there are flags"
        return f"it has {len(results)} results, and {MOST_RESULTS} are the most" if len(results) > MOST_RESULTS else ""

    def _of_rows(self, work: Sequence[OpNode], rows: Sequence[OpNode], whole: Tensor, results: Sequence[str]) -> str:
        """Return why work with several results, or with an operator of rows, is not one launch."""
        tensors, rank = self.draft.tensors, len(whole.shape)
        for n in rows:
            axes, axis = n.attribute("axes"), n.attribute("axis")
            along = axes if isinstance(axes, tuple) else (axis,) if isinstance(axis, int) else ()
            if any(int(a) % rank != rank - 1 for a in along):
                return f"{n.name} works along another axis than the last"
        short = ((*whole.shape[:-1], 1), whole.shape[:-1]) if rows and whole.layout == "ND" else ()
        if bad := next((o for n in work for o in n.outputs if tensors[o].shape not in (whole.shape, *short)), ""):
            return f"{bad} has another shape than the rest, and is not of the same rows"
        if len(results) > 1:
            if rows and whole.shape[-1] > LONGEST_ROW:
                return f"rows of {whole.shape[-1]} elements do not stay in UB for a second result"
            if prod(whole.shape[:-1]) < LEAST_ROWS and rows:
                return f"cores share the sums of fewer than {LEAST_ROWS} rows, which another launch reads"
            if any(tensors[t].layout == "NZ" for n in work for t in (*n.inputs, *n.outputs) if t):
                return "tensors in NZ have one result a launch"
        if any(family(n) == "ranged" and not {o for m in work for o in m.outputs}.isdisjoint(n.inputs[1:]) for n in work):
            return "a range is known once all cores have met"
        return ""

    def _is_connected(self, work: Sequence[OpNode]) -> bool:
        """Return whether all nodes hang together by tensors that are no constants."""
        touched = [{t for t in (*n.inputs, *n.outputs) if t and t not in self.constants} for n in work]
        seen, reached = {0}, set(touched[0])
        while new := {i for i, own in enumerate(touched) if i not in seen and not own.isdisjoint(reached)}:
            seen |= new
            reached.update(*(touched[i] for i in new))
        return len(seen) == len(work)
