"""Device memory of a training step: parameters, states, gradients, and what forward and backward passes keep."""
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from aoec.frontend.training.phases import phases
from aoec.frontend.training.training import find_gradients, find_loss
from aoec.ir.graph.gradients import NEXT
from aoec.ir.graph.graph import OPAQUE, Graph
from aoec.jobs.choose.model_tasks import size_bytes
from aoec.lowering.arrange.views import places

MB = 1e6


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a step. `parameters`, `states` (of the optimiser, and running statistics) and `gradients` are there all the time; next
    values take the place of the present ones. `inputs`: data, labels and constants. `kept`: what forward and backward passes hold when the
    backward pass begins. `most`: the most that they hold at one time. `peak`: all of it at that time."""

    parameters: int
    states: int
    gradients: int
    inputs: int
    kept: int
    most: int

    @property
    def peak(self) -> int:
        """Return the most bytes that are needed at one time."""
        return self.parameters + self.states + self.gradients + self.inputs + self.most

    def facts(self) -> dict[str, float]:
        """Return all of it, in MB (10^6 bytes)."""
        return {**{name: getattr(self, name) / MB for name in self.__dataclass_fields__}, "peak": self.peak / MB}

    def sentence(self) -> str:
        """Return all of it in words."""
        return (f"peak HBM of a step {self.peak / MB:,.1f} MB: parameters {self.parameters / MB:,.1f}, states {self.states / MB:,.1f}, "
                f"gradients {self.gradients / MB:,.1f}, inputs {self.inputs / MB:,.1f}, activations and what is between launches "
                f"{self.most / MB:,.1f} (of which {self.kept / MB:,.1f} when the backward pass begins)")


def step_memory(graph: Graph) -> StepMemory | None:
    """Return the memory of a fused training graph. A tensor is held from the launch that makes it to the last launch that reads it. Return
    None where the graph has no gradients."""
    gradients = find_gradients(graph)
    if not gradients:
        return None
    tensors, lies = {t.name: t for t in graph.tensors}, places(graph)

    def root(name: str) -> str:
        return lies[name][0] if name in lies else name

    sizes = {t.name: size_bytes(t) for t in graph.tensors if t.dtype != OPAQUE and root(t.name) == t.name}
    sent = {root(g) for _, g in gradients}
    parameters = {name for name, _ in gradients if name in tensors}
    states = {i for i in graph.inputs if f"{i}{NEXT}" in tensors} - parameters
    updated = {root(f"{i}{NEXT}") for i in (*parameters, *states) if f"{i}{NEXT}" in tensors}
    still = {*sent, *updated, *map(root, graph.inputs), *(t.name for t in graph.tensors if t.data)}
    there = _lives(graph, {name: size for name, size in sizes.items() if name not in still}, root)
    of = phases(graph, find_loss(graph), [g for _, g in gradients])
    nodes = {n.name: n for n in graph.nodes}
    back = [any(of[o] == "backward" for name in g.nodes for o in nodes[name].outputs if o) for g in graph.groups if g.kind != "view"]
    begins = [at for at, g in enumerate(graph.groups) if g.kind != "view"]
    kept = there[begins[back.index(True)]] if True in back else 0
    rest = [i for i in (*graph.inputs, *(t.name for t in graph.tensors if t.data)) if i not in parameters | states]
    return StepMemory(sum(sizes.get(p, 0) for p in parameters), sum(sizes.get(s, 0) for s in states), sum(sizes.get(g, 0) for g in sent),
                      sum(sizes.get(i, 0) for i in rest), kept, max(there, default=0))


def _lives(graph: Graph, sizes: Mapping[str, int], root: Callable[[str], str]) -> list[int]:
    """Return the bytes of tensors that are there while each group runs; what a launch keeps to itself is none of them."""
    group = {name: at for at, g in enumerate(graph.groups) for name in g.nodes}
    first, last = dict[str, int](), dict[str, int]()
    for n in graph.nodes:
        for t in (*n.inputs, *n.outputs):
            if t and root(t) in sizes:
                first[root(t)] = min(group[n.name], first.get(root(t), group[n.name]))
                last[root(t)] = max(group[n.name], last.get(root(t), 0))
    results = set(map(root, graph.outputs))
    change = Counter[int]()
    for name, begin in first.items():
        if name in results or last[name] > begin:
            change[begin] += sizes[name]
            change[len(graph.groups) if name in results else last[name] + 1] -= sizes[name]
    return list(accumulate(change[at] for at in range(len(graph.groups))))
