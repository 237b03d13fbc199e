"""Grouping of a model: layouts, fused groups, and slices where they are asked for. The groups follow from rules and times, or from a plan.
The step also lists the tasks to schedule."""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import CheckError, UnsupportedError
from aoec.base.text import plural
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan, PlanGroup
from aoec.jobs.choose import halves, slices
from aoec.jobs.choose.model_tasks import lower_groups, place_groups, tasks
from aoec.jobs.choose.wide_sums import Widened, widen
from aoec.jobs.compile import models
from aoec.jobs.compile.compiled_model import Model, Ready
from aoec.jobs.compile.fuse_by_time import fuse_by_time
from aoec.jobs.compile.models import Weights
from aoec.jobs.context import Context
from aoec.jobs.plans.entered import Entered
from aoec.jobs.stages.stage import Stage
from aoec.lowering.arrange.planned import enter

NAMED = 8  # nodes in a sentence


def group_model(stage: Stage, context: Context) -> Ready:
    """Return a stage with its model in groups, and these lowered. Raise UnsupportedError for nodes on the host that --no-host forbids."""
    asked = context.options.slicing
    if (asked.regions or asked.source == "search") and (stage.funcs or stage.traces):
        raise CheckError(f"--slices cuts a model, or the fused graph of a dump: enter it at --from fuse, not {stage.start}")
    model, funcs = enter_plan(stage, stage.entered, context) if stage.entered else fuse_model(stage, context, asked.regions)
    if context.options.no_host:
        refuse_host(model.graph, {})
    return Ready(stage, model, tasks(model.graph, context.machine, context.options.metric == "throughput", funcs))


def fuse_model(stage: Stage, context: Context, regions: slices.Asked = ()) -> tuple[Model, dict[str, Func]]:
    """Return the model in layouts and groups, `regions` of these in slices, and its funcs by group. Groups that cannot be lowered go to the
    host, which is said."""
    graph, weights, plan = lay_out(stage, context)
    if plan is not None and regions:
        plan = replace(plan, groups=tuple(PlanGroup(g.name, g.kind, g.nodes) for g in graph.groups), slices=tuple(regions))
    graph = slices.cut_regions(graph, regions)
    graph, funcs = halves.place_halves(place_groups(graph), context.voice)
    model = Model(stage.name, stage.precision, graph, weights, stage.inputs, stage.outputs, plan)
    return model, {**funcs, **stage.funcs}


def enter_plan(stage: Stage, entered: Entered, context: Context) -> tuple[Model, dict[str, Func]]:
    """Return the model as a plan puts it together, and its funcs by group. Raise CheckError at the line of the plan that cannot be."""
    plan, at, machine = entered.plan, entered.at, context.machine

    def fuse(graph: Graph, apart: frozenset[str]) -> enter.Fused:
        return models.fuse_model(graph, stage.weights, machine, context.pool, apart)

    context.voice.say(f"put together as {at.source} says, and no layouts and slices are looked for")
    enter.check_target(plan, at, stage.graph.name, machine.name)
    graph, weights = enter.apply_plan(stage.graph, plan, at, machine, fuse)
    whole = tuple(PlanGroup(g.name, g.kind, g.nodes) for g in graph.groups)
    graph = enter.cut_as(graph, plan, at)
    if plan.groups:
        funcs, reasons = lower_groups(graph)
        enter.refuse_launches(plan, at, reasons)
    else:
        graph, funcs = halves.place_halves(place_groups(graph), context.voice)
    plan = replace(plan, groups=whole, rewrites=stage.made or plan.rewrites)
    return Model(stage.name, stage.precision, graph, weights, stage.inputs, stage.outputs, plan), funcs


def lay_out(stage: Stage, context: Context, widened: Widened | None = None) -> tuple[Graph, Weights, Plan | None]:
    """Return (the graph in layouts and groups, its constants, what was decided); a stage's own where it has groups. `widened`: of which the
    stage's graph is one with matrices in NZ."""
    if stage.graph.groups:
        return stage.graph, stage.weights, None
    wide = widened or widen(stage.graph, context.machine)
    graph, weights, apart, kept = fuse_by_time(stage.graph if widened else wide.graph, stage.weights, context.machine, context.pool)
    for said in kept:
        context.voice.say(said)
    plan = enter.plan_of(stage.graph.name, context.machine.name, wide.wide, wide.tails, apart)
    return graph, weights, replace(plan, rewrites=stage.made)


def refuse_host(graph: Graph, reasons: dict[str, str]) -> None:
    """Raise UnsupportedError that names the nodes that would run on the host, and the reasons that are known."""
    nodes = {n.name: n for n in graph.nodes}
    found = [(name, nodes[name].op, reasons.get(g.name, "")) for g in graph.groups if g.kind == "host" for name in g.nodes]
    if found:
        named = ", ".join(f"{name} ({op}{': ' * bool(why)}{why})" for name, op, why in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise UnsupportedError(f"{plural(len(found), 'node')} would run on the host, which --no-host forbids: {named}{more}")
