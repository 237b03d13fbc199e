"""Search of a plan by the time of the whole model: its groups, parts and neighbours of them, and what the plan decides by name.

A lattice holds the groups as they are, and beside them what else may run in their place. The cheapest row of it says which changes of the
plan pay. They are made, and the model is looked at again, until no change pays. The last row is the groups of the plan.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aoec.ir.graph.graph import Graph, Group
from aoec.ir.plan import Plan, PlanGroup
from aoec.jobs.plans.model_lattice import Grouped, Known, LatticeMaker, ModelLattice
from aoec.jobs.plans.plan_prices import PlanPrices
from aoec.jobs.plans.variants import Variant, changes_of, find_variants
from aoec.search.plans.cheapest import Price, Queue, find_cheapest
from aoec.search.plans.decide import NEVER, Decision, decide_row
from aoec.search.plans.lattice import Lattice, Launch
from aoec.search.plans.recency import Held, State, held_after
from aoec.target.machine import Machine

MOST_ROUNDS = 4  # changes of changes
LEAST_GAIN = 1e-6  # of the time, below which a plan is no faster

@dataclass(frozen=True)
class PlannedGraph:
    """The graph of a plan, in groups, and the names of exceptions that fusion `asked` for."""

    graph: Graph
    asked: frozenset[str]


@dataclass(frozen=True)
class FoundPlan:
    """The plan that was found and its graph, in groups. `end_us`: when its last launch ends, `before_us`: that of the first plan, both
    on the timeline of the queue. `bound_us`: what no plan of the last lattice beats. `is_decided`: whether none of it is faster with
    the schedules that searches find. `paths`: the plans that the last lattice holds; `timed`: launches that were searched."""

    plan: Plan
    graph: Graph
    end_us: float
    before_us: float
    bound_us: float
    is_decided: bool
    paths: int
    timed: int

    @property
    def is_faster(self) -> bool:
        """Return whether the plan takes less time than the first."""
        return self.end_us < self.before_us * (1 - LEAST_GAIN)

    @property
    def is_proved(self) -> bool:
        """Return whether no plan of the last lattice takes less time with any schedules."""
        return self.is_decided and self.end_us <= self.bound_us


class PlanFinder:
    """A model whose plan is looked for. `make`: the graph of a plan that has no groups; None where there is none. `ends`: whether to end,
    asked before launches are searched."""

    def __init__(self, imported: Graph, machine: Machine, prices: PlanPrices, make: Callable[[Plan], PlannedGraph | None],
                 ends: Callable[[], bool], warm: bool) -> None:
        self.imported, self.machine, self.prices, self.make, self.ends, self.warm = imported, machine, prices, make, ends, warm
        self.known, self.timed = Known(), 0
        self.queue = Queue(machine.enqueue_us, machine.l2_usable_bytes)

    def find(self, plan: Plan, first: PlannedGraph) -> FoundPlan:
        """Return the fastest plan that was found, from a plan without groups and its graph."""
        seen, grouped = {plan}, Grouped(first.graph, self.machine)
        own = LatticeMaker(grouped, self.known).finish()
        held = self._find_held(own)
        before_us = find_cheapest(self._row_alone(own), self._known_price, self.queue, held).end_us
        best = FoundPlan(plan, first.graph, before_us, before_us, 0.0, False, 1, 0)
        for number in range(MOST_ROUNDS):
            is_last = number == MOST_ROUNDS - 1
            variants = [] if is_last else self._variants(plan, grouped, first.asked)
            whole, decision = self._decide(grouped, variants, held)
            chosen = sorted({whole.variants[n] for n in decision.row.edges} - {0})
            if not chosen:
                groups = name_groups([whole.groups[n] for n in decision.row.edges], first.graph.groups)
                planned = replace(plan, groups=tuple(PlanGroup(g.name, g.kind, g.nodes) for g in groups))
                best = FoundPlan(planned, replace(first.graph, groups=groups), decision.row.end_us, before_us, decision.bound_us,
                                 decision.is_decided and not is_last, whole.lattice.count_paths(), self.timed)
                break
            for n in chosen:
                plan = variants[n - 1].change.apply(plan)
            made = self.make(plan) if plan not in seen else None
            if made is None:
                break
            plan = replace(plan, apart=tuple(n for n in plan.apart if n in made.asked))  # the others decide nothing any more
            first, seen, grouped = made, {*seen, plan}, Grouped(made.graph, self.machine)
        return replace(best, timed=self.timed)

    def _variants(self, plan: Plan, grouped: Grouped, asked: frozenset[str]) -> list[Variant]:
        """Return what else a plan could decide, as stretches of groups."""
        def graph_of(other: Plan) -> Graph | None:
            made = self.make(other)
            return made.graph if made else None
        return find_variants(grouped, plan, changes_of(plan, self.imported, asked), self.imported, graph_of)

    def _decide(self, grouped: Grouped, variants: Sequence[Variant], held: Held) -> tuple[ModelLattice, Decision]:
        """Return the lattice of a graph and of variants of it, and which row of it is the fastest."""
        maker = LatticeMaker(grouped, self.known)
        for number, v in enumerate(variants, 1):
            maker.add_variant(number, v.graph, v.stretch)
        whole = maker.finish()
        self.prices.tasks |= whole.tasks
        decision = decide_row(whole.lattice, self.prices, self.prices.settle, self.queue, self.ends, held)
        self.timed += decision.timed
        return whole, decision

    def _known_price(self, launch: Launch, state: State) -> Price:
        """Return what a launch takes that has a schedule."""
        return self.prices.known_price(launch, state) or NEVER

    def _row_alone(self, whole: ModelLattice) -> Lattice:
        """Return the lattice of the first graph's own groups alone."""
        return Lattice(whole.lattice.places, tuple(whole.lattice.edges[n] for n in whole.base))

    def _find_held(self, whole: ModelLattice) -> Held:
        """Return what L2 holds at first: nothing, or what an equal inference before left."""
        lattice = whole.lattice
        return held_after(lattice, whole.base, self.machine.l2_usable_bytes, lattice.touched_later[0]) if self.warm else ()


def name_groups(row: Sequence[Group], before: Sequence[Group]) -> tuple[Group, ...]:
    """Return the groups of a row with names. A group has the name that it had `before`, else that of its first node's group, with a number
    where there are several."""
    whole = {g.nodes: g.name for g in before}
    of = {name: g.name for g in before for name in g.nodes}
    taken = {whole[g.nodes] for g in row if g.nodes in whole}
    out = []
    for g in row:
        name, number = whole.get(g.nodes, ""), 0
        while not name:
            name, number = f"{of[g.nodes[0]]}_{number}", number + 1
            name = "" if name in taken else name
        taken.add(name)
        out.append(Group(name, g.kind, g.nodes))
    return tuple(out)
