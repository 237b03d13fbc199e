"""Choice of how attention is done: the fastest way on the model machine, by default schedules and from cold inputs. It runs in one pass or
in single operators. With single operators, the scores have rows as they are or rows of whole fractals. Equal attentions are timed once."""
from __future__ import annotations

from collections.abc import Sequence
from math import inf

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_us
from aoec.lowering.arrange.take_apart import in_one_pass
from aoec.lowering.arrange.whole_rows import ragged_scores
from aoec.ops.words.layout import FRACTAL_ROWS
from aoec.target.machine import Machine

SINGLE, WHOLE_ROWS = ("attention",), ("attention", "attention_shares")


def fuse_exceptions(graph: Graph, machine: Machine) -> frozenset[str]:
    """Return the exceptions for `fuse`: attention nodes that run in single operators instead of one pass, and softmax nodes whose scores
    are in whole fractals."""
    draft, out = Draft.of(graph, {}), set[str]()
    for n in (n for n in graph.nodes if n.op == "attention"):
        ragged = draft.tensors[n.inputs[1]].shape[-2] % FRACTAL_ROWS > 0
        ways = [()] * in_one_pass(draft, n, machine) + [SINGLE] + [WHOLE_ROWS] * ragged
        out.update(n.name + word.removeprefix("attention") for word in _fastest(graph_of_nodes(draft.tensors, n), machine, ways))
    for s in ragged_scores(draft):
        if _fastest(graph_of_nodes(draft.tensors, *s.nodes), machine, [(), ("softmax",)]):
            out.add(s.softmax.name)
    return frozenset(out)


def _fastest(single: Graph, machine: Machine, ways: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the fastest way for a graph, the first of equal ones. Return single operators where the graph has no schedule in any way:
    those of the operators that have one then do not run on the host."""
    def make() -> list[float]:
        return [time_us(single, machine, named) for named in ways]
    if len(ways) == 1:
        return ways[0]
    at = ("attention", show(single), machine.name, machine.hash)
    times = recall_times(at, make)
    return SINGLE if min(times) == inf and SINGLE in ways else ways[times.index(min(times))]
