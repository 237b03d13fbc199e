"""Structure of a model for its report: the operators that it was imported with, and the launches that do them."""
from __future__ import annotations

from collections import Counter

from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.tune.solve import total_ticks
from aoec.lowering.arrange.slices import PIECE, pieces
from aoec.report.pictures.launches import Launch, Structure
from aoec.target.machine import Machine


def structure_of(made: Made, machine: Machine) -> Structure:
    """Return the launches of a compiled model in order, slices of a group as one, with the imported operators that each does. Operators are
    known again by what they make, else by their names."""
    graph, of = made.model.graph, pieces(made.model.graph)
    whole = {g.name: of.get(g.name, (g.name, 1, 1)) for g in graph.groups}
    us = host_times(graph) | {c.task.group.name: total_ticks(c.best.measure, machine) * machine.us_per_tick for c in made.choices}
    own: dict[str, dict[str, str]] = {}
    taken: dict[str, float] = {}
    facts: dict[str, tuple[str, int]] = {}
    words = {n.name: n.op for n in graph.nodes}
    for g in (g for g in graph.groups if g.kind != "view"):
        name, _, count = whole[g.name]
        facts[name] = g.kind, count
        own.setdefault(name, {}).update((_whole_name(n, count), words[n]) for n in g.nodes)
        taken[name] = taken.get(name, 0.0) + us.get(g.name, 0.0)
    imported, elsewhere = _imported_operators(made.stage.graph, graph, whole, own)
    reads = _edges(graph, {g.name: whole[g.name][0] for g in graph.groups if g.kind != "view"})
    results = {o for n in made.stage.graph.nodes for o in n.outputs}
    known = {n.name for n in made.stage.graph.nodes} | {n.name for n in graph.nodes if not results.isdisjoint(n.outputs)}
    launches = tuple(
        Launch(name, kind, tuple(imported.get(name, ())), tuple(pair for pair in own[name].items() if pair[0] not in known), taken[name],
               count, tuple(reads.get(name, ()))) for name, (kind, count) in facts.items())
    return Structure(launches, tuple(Counter(elsewhere).items()))


def _whole_name(name: str, count: int) -> str:
    """Return the name of a node before it was cut."""
    return m[1] if count > 1 and (m := PIECE.fullmatch(name)) else name


def _imported_operators(before: Graph, after: Graph, whole: dict[str, tuple[str, int, int]],
                        own: dict[str, dict[str, str]]) -> tuple[dict[str, list[tuple[str, str]]], list[str]]:
    """Return (launch -> the imported operators that it does, the words of those that none does)."""
    group = {n: g for g in after.groups for n in g.nodes}
    by_name = {n: name for name, nodes in own.items() for n in nodes}
    by_result = {o: whole[g.name][0] for n in after.nodes for g in [group[n.name]] if g.kind != "view" for o in n.outputs if o}
    out: dict[str, list[tuple[str, str]]] = {}
    elsewhere = []
    for n in before.nodes:
        there = next((by_result[o] for o in n.outputs if o in by_result), by_name.get(n.name, ""))
        if there:
            out.setdefault(there, []).append((n.name, n.op))
        else:
            elsewhere.append(n.op)
    return out, elsewhere


def _edges(graph: Graph, launch: dict[str, str]) -> dict[str, list[str]]:
    """Return launch -> the launches that make what it reads, views between them left out."""
    group = {n: g.name for g in graph.groups for n in g.nodes}
    makers = {o: n for n in graph.nodes for o in n.outputs if o}
    known: dict[str, frozenset[str]] = {}

    def sources(tensor: str) -> frozenset[str]:
        """Return the launches that make a tensor, or what it is a view of."""
        if tensor not in known:
            node = makers.get(tensor)
            if node is None:
                known[tensor] = frozenset()
            elif group[node.name] in launch:
                known[tensor] = frozenset((launch[group[node.name]],))
            else:
                known[tensor] = frozenset().union(*(sources(i) for i in node.inputs if i))
        return known[tensor]

    out: dict[str, list[str]] = {}
    for n in graph.nodes:  # in order, so that what a view reads is known before
        for o in n.outputs:
            sources(o)
        if (name := launch.get(group[n.name])) is not None:
            mine = out.setdefault(name, [])
            mine += [s for i in n.inputs if i for s in sorted(sources(i)) if s != name and s not in mine]
    return out
