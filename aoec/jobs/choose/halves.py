"""Fusion taken back where a fused group has no schedule: its halves may have one, and theirs; what is done so is said."""
from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace

from aoec.bank.record import Key
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.plan import Placed, placed, taken_apart, tasks
from aoec.jobs.compile.compiled_model import Ready
from aoec.jobs.compile.say import Voice
from aoec.jobs.tune.order import Order, keys
from aoec.lowering.arrange.fuse import halve_groups
from aoec.target.machine import Machine


def where(ready: Ready, failed: Mapping[Key, str], machine: Machine, order: Order, options: Namespace, voice: Voice) -> Ready:
    """The model with those of its groups that have no schedule in halves; itself where there are none, or where funcs are a dump's."""
    keyed = {t.group.name: keys(t, machine, order.robust)[1] for t in ready.plan}
    reasons = {name: failed[key] for name, key in keyed.items() if key in failed}
    graph = halve_groups(ready.model.graph, reasons)
    if graph == ready.model.graph or ready.stage.funcs:
        return ready
    voice.apart(taken_apart(ready.model.graph, reasons))
    graph, funcs = place_halves(placed(graph), voice)
    plan = tasks(graph, machine, options.metric == "throughput", funcs)
    return replace(ready, model=replace(ready.model, graph=graph), plan=plan)


def place_halves(found: Placed, voice: Voice) -> tuple[Graph, dict[str, Func]]:
    """The graph and its funcs, after what is in parts or on the host, and why, was said."""
    voice.apart(found.apart)
    voice.on_host(found.reasons)
    return found.graph, found.funcs
