"""Variants of a plan, in which its decisions are changed. Decisions of one kind change together, since equal places gain alike. Each
stretch of groups that changes is then taken or left alone."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from aoec.ir.graph.bodies import homes
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan
from aoec.jobs.plans.model_lattice import Grouped, Stretch, find_stretches
from aoec.lowering.arrange.wide_sums import find_joined_tails, may_be_wide, widen_sums


@dataclass(frozen=True)
class Change:
    """Names that enter a field of a plan, or leave it where they are in it."""

    field: str
    names: frozenset[str]

    def apply(self, plan: Plan) -> Plan:
        """Return the plan with the change made."""
        names: dict[str, Any] = {self.field: tuple(sorted(frozenset(getattr(plan, self.field)) ^ self.names))}
        return replace(plan, **names)

    def restrict_to(self, nodes: Collection[str], tensors: Collection[str]) -> Change:
        """Return the part of the change that is of some nodes, and of some tensors."""
        own = tensors if self.field == "nz" else nodes
        return replace(self, names=frozenset(n for n in self.names if n in own or n.rpartition(".")[0] in own))


@dataclass(frozen=True)
class Variant:
    """A stretch of groups that a change gives instead of others, in the graph that the whole change makes."""

    change: Change
    graph: Grouped
    stretch: Stretch


def changes_of(plan: Plan, imported: Graph, asked: Collection[str]) -> list[Change]:
    """Return the changes of a plan by kind. `asked`: names of exceptions that fusion asks for in the model."""
    tensors, inside = {t.name: t for t in imported.tensors}, homes(imported)
    sums = {n.name: n.op for n in imported.nodes if n.name not in inside and may_be_wide(n, tensors)}
    tails = find_joined_tails(widen_sums(imported, frozenset(plan.wide)))
    kinds = {"apart": {name: _kind_of_exception(name) for name in asked}, "wide": sums, "tails": dict.fromkeys(tails, "tail"),
             "nz": dict.fromkeys(plan.nz, "nz")}
    return [Change(field, frozenset(names)) for field, of in kinds.items() for names in _by_kind(of, getattr(plan, field))]


def _kind_of_exception(name: str) -> str:
    """Return what an exception of fusion is about: the operand, or which way of attention."""
    _, dot, word = name.rpartition(".")
    return word.rstrip("0123456789") if dot else "shares" if name.endswith("_shares") else "attention"


def _by_kind(kinds: dict[str, str], now: Collection[str]) -> Iterator[set[str]]:
    """Return names by kind: of each those that would enter, and those that would leave."""
    there = frozenset(now)
    for kind in sorted(set(kinds.values())):
        of = {name for name, k in kinds.items() if k == kind}
        yield from (some for some in (of - there, of & there) if some)


def find_variants(base: Grouped, plan: Plan, changes: Collection[Change], imported: Graph,
                  make: Callable[[Plan], Graph | None]) -> list[Variant]:
    """Return the stretches that changes make of a plan's graph. `make`: the graph of a plan, None where there is none."""
    names = {t.name for t in imported.tensors}
    before, out = base.signatures(names), []
    for change in changes:
        made = make(change.apply(plan))
        if made is None:
            continue
        other = Grouped(made, base.rules.machine)
        for stretch in find_stretches(before, other, names):
            groups = (*base.graph.groups[stretch.first:stretch.last], *stretch.groups)
            nodes = {name for g in groups for name in g.nodes}
            known = {**base.nodes, **other.nodes}
            own = change.restrict_to(nodes, {t for name in nodes for t in (*known[name].inputs, *known[name].outputs)})
            if own.names:
                out.append(Variant(own, other, stretch))
    return out
