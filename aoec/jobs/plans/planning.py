"""A plan as a stage. A plan is made of a graph by the rules and times of a compile, and a graph is put together by a plan."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from aoec.base.errors import CheckError
from aoec.base.text import plural
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan, PlanGroup
from aoec.jobs.choose.model_tasks import lower_groups, place_groups
from aoec.jobs.choose.wide_sums import widen
from aoec.jobs.compile.fuse_by_time import fuse_by_time
from aoec.jobs.plans.entered import read_plan
from aoec.jobs.stages.stages import graph_of, load_weights
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.planned import enter
from aoec.target.machine import load

Weights = Mapping[str, np.ndarray]


def plan_text(text: str, source: str, weights_path: str, target: str) -> tuple[Plan, list[str]]:
    """Return (the plan of an imported graph as a compile without a bank makes it, sentences on what stays as it is). Layouts and slices,
    which are found with schedules, are in none."""
    graph, machine = _imported_graph(text, source), load(target)
    wide = widen(graph, machine)
    fused, _, apart, said = fuse_by_time(wide.graph, load_weights(graph, weights_path), machine)
    placed = place_groups(fused)
    groups = tuple(PlanGroup(g.name, g.kind, g.nodes) for g in placed.graph.groups)
    return replace(enter.plan_of(graph.name, machine.name, wide.wide, wide.tails, apart), groups=groups), said


def fuse_planned(text: str, source: str, weights_path: str, target: str, plan_path: str) -> tuple[Graph, Weights]:
    """Return the graph in layouts, groups and slices as a plan has them, and its packed constants. Raise CheckError at the line that cannot
    be."""
    graph, machine, entered = _imported_graph(text, source), load(target), read_plan(plan_path)
    plan, at = entered.plan, entered.at

    def fuse_asked(given: Graph, apart: frozenset[str]) -> enter.Fused:
        names = enter.Asked(apart)
        made, stored = fuse(given, weights, machine, names)
        return made, stored, frozenset(names.asked)

    enter.check_target(plan, at, graph.name, machine.name)
    weights = load_weights(graph, weights_path)
    made, stored = enter.apply_plan(graph, plan, at, machine, fuse_asked)
    made = enter.cut_as(made, plan, at)
    if plan.groups:
        enter.refuse_launches(plan, at, lower_groups(made)[1])
    return made, stored


def _imported_graph(text: str, source: str) -> Graph:
    """Return the graph, which is not fused yet."""
    graph = graph_of(text, source)
    if graph.groups:
        raise CheckError(f"graph {graph.name} is fused already: it has {plural(len(graph.groups), 'group')}", source=source)
    return graph
