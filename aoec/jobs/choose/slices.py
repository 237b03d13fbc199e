"""Slices (SGAT): which groups of a model run slice by slice, and what there is to say of it."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from aoec.base.keys import digest
from aoec.ir.graph.graph import Graph
from aoec.ir.text.show import show
from aoec.jobs.choose.regions import Whole, regions
from aoec.jobs.known import recall
from aoec.jobs.tune.budget import Until
from aoec.jobs.tune.made import Schedule
from aoec.lowering.arrange.slices import Region, pieces, slice_graph
from aoec.simulate.timing.time import Chain
from aoec.target.machine import Machine

Asked = Sequence[tuple[str, str, int]]  # as base/regions.py reads them


def cut_regions(graph: Graph, regions: Asked) -> Graph:
    """Return the fused graph with these regions in slices. Raise UnsupportedError where one cannot run so."""
    return slice_graph(graph, [Region(*r) for r in regions])


def describe_slices(graph: Graph) -> tuple[str, ...]:
    """Return a sentence on the regions of a graph that run in slices; none where none do."""
    of = pieces(graph)
    firsts = [of.get(g.name, ("", 0, 0)) for g in graph.groups]
    runs = [list(run) for (nth, _), run in groupby(firsts, lambda piece: piece[1:]) if nth == 1]
    named = ", ".join(f"{run[0][0]}{f'..{run[-1][0]}' * (len(run) > 1)} in {run[0][2]}" for run in runs)
    return (f"groups in slices, one slice after the other: {named}",) if runs else ()


def find_regions(graph: Graph, chosen: Mapping[str, Schedule], machine: Machine, until: Until) -> Asked:
    """Return the regions of a fused graph that take less time in slices, by fitted schedules. `chosen`: those of its groups. `until`: when
    the search ends. An equal question is answered once, unless time ends the answer."""
    whole = {name: Whole(show(s.trace), s.measure) for name, s in chosen.items()}
    said = digest("\n".join(f"{name} {w.trace} {w.measure.ticks}" for name, w in whole.items()))
    def look() -> Asked:
        return [(r.first, r.last, r.slices) for r in regions(graph, machine, whole, until.ends)]

    if until.steps:  # time ended an equal looking, whose answer is repeated
        return look()
    return recall(("slices", show(graph), machine.name, machine.hash, said), look,
                 lambda made: [list(r) for r in made], lambda kept: [(str(a), str(b), int(n)) for a, b, n in kept],
                 lambda: not until.over)


def faster(before: Chain, after: Chain, metric: str) -> bool:
    """Return whether a model in slices is the faster one."""
    return asked_us(after, metric) < asked_us(before, metric)


def gain(before: Chain, after: Chain, metric: str) -> str:
    """Return what a model gains in slices, in words."""
    old, new = (asked_us(c, metric) for c in (before, after))
    return f"slices: {old:,.1f} -> {new:,.1f} us modelled, {'between inferences' if metric == 'throughput' else 'an inference'}"


def asked_us(line: Chain, metric: str) -> float:
    """Return what a whole model takes by what it is tuned for."""
    return line.throughput_us if metric == "throughput" else line.latency_us
