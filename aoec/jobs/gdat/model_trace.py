"""The trace of a compiled training graph: when each gradient is ready, and when each parameter is read, in modelled time.

Launches run one after the other, as the model's timeline has them: forward, then backward, then the optimiser. Where the order of launches
mixes them, each keeps its time and moves behind those of the phase before. What the host does is between them at its modelled time.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from aoec.base.errors import CheckError
from aoec.frontend.training.phases import ORDER
from aoec.frontend.training.training import find_gradients, find_loss
from aoec.ir.graph.graph import Graph
from aoec.ir.training import Gradient, StepTrace, check_trace
from aoec.jobs.choose.model_tasks import size_bytes
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.compile.training_step import launch_times, launches_of
from aoec.target.machine import Machine


def model_trace(made: Made, machine: Machine) -> StepTrace:
    """Return the trace of a graph that was compiled for a machine, with its schedules, modelled. Raise CheckError where the model has no
    gradients, or was compiled for another machine."""
    graph = made.model.graph
    if made.artifact.machine_hash != machine.hash:
        raise CheckError(f"the model was compiled for {made.artifact.target}, and a trace on {machine.name} is asked for")
    return trace_of(graph, launch_times(graph, made.choices, made.lines), find_loss(graph), find_gradients(graph))


def trace_of(graph: Graph, times: Mapping[str, float], loss: str, gradients: Sequence[tuple[str, str]]) -> StepTrace:
    """Return the trace of a fused training graph whose groups take so long. `gradients`: (parameter, its gradient); a gradient has the name
    of its parameter where that is known. Sizes are those in which gradients are stored."""
    if not gradients:
        raise CheckError("the graph has no gradients: compile it with --loss, or say with --gradients which outputs they are")
    launches = launches_of(graph, times, loss, gradients)
    spans, now = dict[str, tuple[float, float]](), 0.0
    took = dict.fromkeys(ORDER, 0.0)
    for launch in launches:
        spans[launch.group] = now, now + launch.us
        now += launch.us
        took[launch.phase] += launch.us
    tensors = {t.name: t for t in graph.tensors}
    made, read = _ends(graph, spans), _first_reads(graph, spans)
    found = [Gradient(name or g, size_bytes(tensors[g]), min(max(made.get(g, 0.0) - took["forward"], 0.0), took["backward"]),
                      min(read.get(name, 0.0), took["forward"])) for name, g in gradients]
    trace = StepTrace(tuple(sorted(found, key=lambda g: g.ready_us)), took["forward"], took["backward"], took["optimiser"], "modelled")
    check_trace(trace, graph.name)
    return trace


def _ends(graph: Graph, spans: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return tensor -> when the launch that makes it ends; of a view, when the last of what it shows does."""
    group = {name: g.name for g in graph.groups for name in g.nodes}
    out: dict[str, float] = {}
    for n in graph.nodes:
        own = spans.get(group[n.name])
        end = own[1] if own else max((out.get(i, 0.0) for i in n.inputs if i), default=0.0)
        out.update((o, end) for o in n.outputs if o)
    return out


def _first_reads(graph: Graph, spans: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Return tensor -> when the first launch that reads it, or a view of it, begins."""
    group = {name: g.name for g in graph.groups for name in g.nodes}
    out: dict[str, float] = {}
    for n in reversed(graph.nodes):
        own = spans.get(group[n.name])
        begin = own[0] if own else min((out[o] for o in n.outputs if o in out), default=None)
        for i in n.inputs:
            if i and begin is not None:
                out[i] = min(begin, out.get(i, begin))
    return out
