"""Grouping: a model in layouts and fused groups, in slices where that is asked for, and what of it is to be scheduled."""
from __future__ import annotations

from aoec.base.errors import CheckError, UnsupportedError
from aoec.base.text import plural
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose import halves, slices
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.choose.wide_sums import wide
from aoec.jobs.compile.compiled_model import Model, Ready
from aoec.jobs.compile.fuse_by_time import fuse_by_time
from aoec.jobs.compile.models import Weights
from aoec.jobs.context import Context
from aoec.jobs.stages.stage import Stage

NAMED = 8  # nodes in a sentence


def group_model(stage: Stage, context: Context) -> Ready:
    """A stage with its model in groups, and these lowered. UnsupportedError for nodes on the host that --no-host forbids."""
    asked = context.options.slicing
    if (asked.regions or asked.source == "search") and (stage.funcs or stage.traces):
        raise CheckError(f"--slices cuts a model, or the fused graph of a dump: enter it at --from fuse, not {stage.start}")
    model, funcs = fuse_model(stage, context, asked.regions)
    if context.options.no_host:
        refuse_host(model.graph, {})
    return Ready(stage, model, tasks(model.graph, context.machine, context.options.metric == "throughput", funcs))


def fuse_model(stage: Stage, context: Context, regions: slices.Asked = ()) -> tuple[Model, dict[str, Func]]:
    """The model in layouts and groups, `regions` of these in slices, and its funcs by group. Groups that cannot be lowered go to the host,
    which is said."""
    graph, weights = lay_out(stage, context)
    graph = slices.cut_regions(graph, regions)
    graph, funcs = halves.place_halves(place_groups(graph), context.voice)
    return Model(stage.name, stage.precision, graph, weights, stage.inputs, stage.outputs), {**funcs, **stage.funcs}


def lay_out(stage: Stage, context: Context) -> tuple[Graph, Weights]:
    """The graph in layouts and groups, with its constants; a stage's own where it has groups."""
    if stage.graph.groups:
        return stage.graph, stage.weights
    graph, weights, kept = fuse_by_time(wide(stage.graph, context.machine), stage.weights, context.machine, context.pool)
    for said in kept:
        context.voice.say(said)
    return graph, weights


def refuse_host(graph: Graph, reasons: dict[str, str]) -> None:
    """Raises UnsupportedError that names the nodes that would run on the host, and why where there is more to say."""
    nodes = {n.name: n for n in graph.nodes}
    found = [(name, nodes[name].op, reasons.get(g.name, "")) for g in graph.groups if g.kind == "host" for name in g.nodes]
    if found:
        named = ", ".join(f"{name} ({op}{': ' * bool(why)}{why})" for name, op, why in found[:NAMED])
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise UnsupportedError(f"{plural(len(found), 'node')} would run on the host, which --no-host forbids: {named}{more}")
