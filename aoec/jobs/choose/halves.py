"""Undoing of fusion where a fused group has no schedule. Its halves may have one, and so may theirs; each such split is reported."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from aoec.bank.record import Key
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import Placed, place_groups, taken_apart, tasks
from aoec.jobs.compile.compiled_model import Ready
from aoec.jobs.context import Context
from aoec.jobs.tune.order import Order, keys
from aoec.jobs.voice import Voice
from aoec.lowering.arrange.fuse import halve_groups
from aoec.lowering.arrange.planned.enter import refuse_launches


def where(ready: Ready, failed: Mapping[Key, str], order: Order, context: Context) -> Ready:
    """Return the model with groups that have no schedule split in halves. Return the model itself where all groups have one, or where its
    funcs come from a dump. Raise CheckError where a plan has such a group."""
    keyed = {t.group.name: keys(t, context.machine, order.robust)[1] for t in ready.tasks}
    reasons = {name: failed[key] for name, key in keyed.items() if key in failed}
    if ready.stage.entered and ready.stage.entered.plan.groups:
        refuse_launches(ready.stage.entered.plan, ready.stage.entered.at, reasons)
    graph = halve_groups(ready.model.graph, reasons)
    if graph == ready.model.graph or ready.stage.funcs:
        return ready
    context.voice.in_parts(taken_apart(ready.model.graph, reasons))
    graph, funcs = place_halves(place_groups(graph), context.voice)
    listed = tasks(graph, context.machine, context.options.metric == "throughput", funcs)
    return replace(ready, model=replace(ready.model, graph=graph), tasks=listed)


def place_halves(found: Placed, voice: Voice) -> tuple[Graph, dict[str, Func]]:
    """Return the graph and its funcs, after what is in parts or on the host, and why, was said."""
    voice.in_parts(found.apart)
    voice.on_host(found.reasons)
    return found.graph, found.funcs
