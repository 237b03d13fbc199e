"""A graph built as a plan says: widened sums, matrices in NZ, nodes that stay apart, groups, and the groups that run in slices.

Every entry of a plan is checked. Each name must be one that the model has, and a group must be nodes that can run together in the order
of the plan. An entry that fails is refused at its line, with what would help. Whether a group can be one launch is left to the code that
lowers it.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from aoec.base.errors import UnsupportedError
from aoec.base.text import nearest
from aoec.ir.graph.bodies import MAIN, homes
from aoec.ir.graph.graph import Graph, Group, OpNode
from aoec.ir.plan import Plan, PlanGroup
from aoec.ir.text.places import Places
from aoec.lowering.arrange.fuse import kind_of
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.nz import in_nz, regions
from aoec.lowering.arrange.planned.launch import Launches
from aoec.lowering.arrange.slices import PIECE, Region, slice_graph
from aoec.lowering.arrange.wide_sums import find_joined_tails, join_tails, may_be_wide, widen_sums
from aoec.target.machine import Machine

Weights = Mapping[str, np.ndarray]
Fused = tuple[Graph, Weights, frozenset[str]]  # a graph in groups, its constants, and the names that fusion asked for
HOST = "host."


class Asked(Collection[str]):
    """Exceptions of fusion, by name, which note those that `fuse` asks for: no other name decides anything."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names, self.asked = frozenset(names), set[str]()

    def __contains__(self, name: object) -> bool:
        self.asked.add(str(name))
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def plan_of(model: str, target: str, wide: Collection[str], tails: Collection[str], apart: Collection[str]) -> Plan:
    """Return the plan of a model by what was decided before its groups were made."""
    return Plan(model, target, wide=tuple(sorted(wide)), tails=tuple(sorted(tails)), apart=tuple(sorted(apart)))


def check_target(plan: Plan, at: Places, model: str, target: str) -> None:
    """Raise CheckError where a plan is of another model or another machine."""
    at.refuse(plan.target != target, lambda: f"this plan is for {plan.target}, and {target} is the target: what is faster there need not "
              f"be so here; give --target {plan.target}, or make a plan for {target}", ("target", plan.target), plan.target)
    at.refuse(plan.name != model, lambda: f"this plan is of {plan.name}, and the model is {model}: where they are one under two names, "
              "write the model's in the plan's first line", plan, plan.name)


def before_fusion(graph: Graph, plan: Plan, at: Places) -> Graph:
    """Return the imported graph with the sums that a plan widens, the tails that it joins, and its matrices in NZ. Raise CheckError at
    the line that names something the model does not have."""
    tensors, inside = {t.name: t for t in graph.tensors}, homes(graph)
    _refuse_unknown(plan.wide, {n.name for n in graph.nodes if n.name not in inside and may_be_wide(n, tensors)}, "wide", at,
                    "is no sum that can be wide: sums of 16 bits, means and norms of long rows can")
    graph = widen_sums(graph, frozenset(plan.wide))
    _refuse_unknown(plan.tails, set(find_joined_tails(graph)), "tail", at, "is no norm of groups of channels with factors behind it")
    graph = join_tails(graph, frozenset(plan.tails))
    found = {r.matrix: r for r in regions(graph)} if plan.nz else {}
    _refuse_unknown(plan.nz, found, "nz", at, "is no matrix between products, of whole fractals and 16 bits, that could lie in NZ")
    return in_nz(graph, [found[name] for name in plan.nz]) if plan.nz else graph


def _refuse_unknown(names: Sequence[str], known: Collection[str], word: str, at: Places, why: str) -> None:
    """Raise CheckError at the line of the first name that is not known."""
    for name in names:
        at.refuse(name not in known, lambda name=name: f"{word} {name}: {name} {why}{nearest(name, known)}",  # type: ignore[misc]
                  (word, name), name)


def apply_plan(graph: Graph, plan: Plan, at: Places, machine: Machine,
               fuse: Callable[[Graph, frozenset[str]], Fused]) -> tuple[Graph, Weights]:
    """Return (the imported graph in layouts and in the plan's groups, its constants as stored). Slices are cut later. Raise CheckError
    at the line that cannot be done. `fuse`: a function of a graph and the names of exceptions."""
    fused, weights, asked = fuse(before_fusion(graph, plan, at), frozenset(plan.apart))
    _refuse_unknown(plan.apart, asked, "apart", at, "is nothing that fusion decides in this model")
    return (regroup_as(fused, plan, at, machine) if plan.groups else fused), weights


# ---------------------------------------------------------------- groups

def regroup_as(graph: Graph, plan: Plan, at: Places, machine: Machine) -> Graph:
    """Return the fused graph in the plan's groups. Raise CheckError at a group that cannot be, or cannot run where it stands."""
    where = f"plan {plan.name}"
    fused = _Fused(graph, at, where)
    order = fused.order
    for g in plan.groups:
        for name in g.nodes:
            at.refuse(name not in order, lambda g=g, name=name:  # type: ignore[misc]
                      f"{where}: group {g.name}: by the plan's other lines the model has no node {name}{nearest(name, order)}",
                      g, name)
    named = {name: g for g in plan.groups for name in g.nodes}
    if missing := next((n for n in graph.nodes if n.name not in named), None):
        old = next((g for g in graph.groups if missing.name in g.nodes), None)
        kind = old.kind if old else "vector"
        raise at.error(f"{where}: node {missing.name} ({missing.op}) is in no group: once there are group lines each node is in one; add "
                       f"it to a group, or as one of its own: group g_{len(plan.groups)} {kind} [{missing.name}]", plan, plan.name)
    groups = tuple(map(fused.group, plan.groups))
    if groups != graph.groups:
        _check_order(graph, plan, named, at, where)
        launches = Launches(graph, machine)
        refuse_launches(plan, at, {g.name: launches.refusal(g) for g in groups if g.kind in ("cube", "vector")})
    return replace(graph, groups=groups)


class _Fused:
    """A fused graph, and what is asked of it for each group of a plan."""

    def __init__(self, graph: Graph, at: Places, where: str) -> None:
        self.graph, self.at, self.where = graph, at, where
        self.order = {n.name: i for i, n in enumerate(graph.nodes)}
        self.known = {g.nodes: g for g in graph.groups}
        self.views = {name for g in graph.groups if g.kind == "view" for name in g.nodes}
        self.home = homes(graph)

    def group(self, g: PlanGroup) -> Group:
        """Return a group of a plan as the graph has it, its nodes in the order of the graph unless fusion has them in this one."""
        at, old = self.at, self.known.get(g.nodes)
        if old is not None and old.kind == g.kind:
            return Group(g.name, g.kind, g.nodes)
        nodes = [self.graph.nodes[i] for i in sorted(self.order[name] for name in g.nodes)]
        at.refuse(len({self.home.get(n.name, MAIN) for n in nodes}) > 1, lambda: f"{self.where}: the nodes of group {g.name} do not lie in "
                  "one body of control flow; keep bodies apart", g, g.name)
        hosts = [n.name for n in nodes if n.op.startswith(HOST)]
        renames = all(family(n) == "view" for n in nodes)
        fit = "host" if hosts else "view" if renames or self.views.issuperset(g.nodes) else kind_of(nodes)
        kinds = ("host", fit, "vector") if fit == "view" and not renames else ("host", fit)
        at.refuse(g.kind not in kinds, lambda: f"{self.where}: group {g.name} is of kind {g.kind}, and "
                  f"{_why_kind(fit, hosts or [n.name for n in nodes])}: write {fit}", g, g.kind)
        return Group(g.name, g.kind, tuple(n.name for n in nodes))


def _why_kind(fit: str, nodes: Sequence[str]) -> str:
    """Return why a group of nodes is of a kind, as a clause."""
    said = f"{nodes[0]}{' and others' if len(nodes) > 1 else ''}"
    return {"host": f"{said} can run on the host alone", "cube": f"{said} has a product or convolution, which the cube does",
            "view": f"{said} moves nothing", "vector": f"{said} has no product, and no view of all of it"}[fit]


def _check_order(graph: Graph, plan: Plan, named: Mapping[str, PlanGroup], at: Places, where: str) -> None:
    """Raise CheckError at the first group that reads what is not made by then."""
    home, nodes = homes(graph), {n.name: n for n in graph.nodes}
    makers = {o: n.name for n in graph.nodes for o in n.outputs if o}
    done: set[str] = set()
    for g in plan.groups:
        for name in g.nodes:
            for i in (i for i in nodes[name].inputs if i in makers):
                maker = named[makers[i]]
                if maker is g or maker.name in done or home.get(makers[i], MAIN) != home.get(name, MAIN):
                    continue
                if _needs(maker, g, nodes, makers, named):
                    raise at.error(f"{where}: groups {g.name} and {maker.name} need each other: {name} reads {i} of {maker.name}, "
                                   f"and {maker.name} needs what {g.name} makes; no order of them can run, so split one of them", g, name)
                raise at.error(f"{where}: group {g.name} runs before {maker.name}, and {name} reads {i}, which {maker.name} makes: put the "
                               f"line of {maker.name} before that of {g.name}", g, name)
        done.add(g.name)


def _needs(g: PlanGroup, other: PlanGroup, nodes: Mapping[str, OpNode], makers: Mapping[str, str], named: Mapping[str, PlanGroup]) -> bool:
    """Return whether a group needs, perhaps through further ones, what another makes."""
    seen, open_ = {g.name}, [g]
    while open_:
        at = open_.pop()
        for name in at.nodes:
            for i in nodes[name].inputs:
                maker = named[makers[i]] if i in makers else at
                if maker is other:
                    return True
                if maker.name not in seen:
                    seen.add(maker.name)
                    open_.append(maker)
    return False


def refuse_launches(plan: Plan, at: Places, reasons: Mapping[str, str]) -> None:
    """Raise CheckError at the first group of a plan that cannot be one launch. `reasons`: by group, or by a slice of one."""
    of = {m[1] if (m := PIECE.fullmatch(name)) else name: why for name, why in reasons.items()}
    for g in plan.groups:
        if why := of.get(g.name, ""):
            raise at.error(f"plan {plan.name}: group {g.name} cannot be one launch: {why}; split it, or write host", g, g.name)


# ---------------------------------------------------------------- slices

def cut_as(graph: Graph, plan: Plan, at: Places) -> Graph:
    """Return the graph with the plan's regions in slices. Raise CheckError at the region that cannot be cut."""
    for region in plan.slices:
        try:
            graph = slice_graph(graph, [Region(*region)])
        except UnsupportedError as e:
            raise at.error(str(e), ("slices", region)) from e
    return graph


def whole_groups(before: Sequence[Group], plan: Plan, after: Graph) -> tuple[Group, ...]:
    """Return the groups of a model before it was cut: those of a cut graph, each region as the groups that it had `before`."""
    at = {g.name: i for i, g in enumerate(before)}
    cut = [before[at[first]:at[last] + 1] for first, last, _ in plan.slices]
    inside = {name for region in cut for g in region for name in g.nodes}
    own = {name for g in before for name in g.nodes}
    region_of = {g.name: number for number, region in enumerate(cut) for g in region}
    out: list[Group] = []
    placed: set[int] = set()
    for g in after.groups:
        number = next((region_of[name] for name in [g.name.rpartition("_")[0]] if name in region_of), -1)
        if own.issuperset(g.nodes) and inside.isdisjoint(g.nodes):
            out.append(g)
        elif number >= 0 and number not in placed:
            placed.add(number)
            out += cut[number]
    return tuple(out)
