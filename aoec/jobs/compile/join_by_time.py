"""Which convolutions of one image stay apart: those that take longer joined, by default schedules and from cold inputs.

Equal ones are timed once.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from aoec.base.text import plural
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_us
from aoec.lowering.arrange.siblings.convolutions import Siblings, find_siblings, joint_nodes
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import FEW, FIVE, PIXEL
from aoec.target.machine import Machine


@dataclass(frozen=True)
class Apart:
    """Convolutions of one image that stay apart, by name. `exception`: as `fuse` takes it. Modelled us, apart and joined (inf: refused)."""

    convolutions: tuple[str, ...]
    exception: str
    apart_us: float
    joined_us: float


def say_apart(found: Sequence[Apart]) -> list[str]:
    """Return a sentence on each kind of convolutions that stay apart."""
    alike: dict[tuple[float, float], list[Apart]] = {}
    for a in found:
        alike.setdefault((a.apart_us, a.joined_us), []).append(a)
    out = []
    for (apart_us, joined_us), those in alike.items():
        against = "no schedule" if joined_us == inf else f"{joined_us:.1f} us"
        others = f" and {plural(len(those) - 1, 'set')} like them" if len(those) > 1 else ""
        out.append(f"{' and '.join(those[0].convolutions)}{others}: convolutions of one image kept apart, {apart_us:.1f} us against "
                   f"{against} joined, modelled")
    return out


def keep_apart(graph: Graph, machine: Machine) -> list[Apart]:
    """Return the convolutions of one image that `fuse` is to leave as several. Times do not depend on values: constants are not read."""
    zeros = {t.name: np.broadcast_to(np.zeros((), NUMPY[t.dtype]), t.shape) for t in graph.tensors if t.data}
    draft = Draft.of(graph, zeros)
    out = []
    for found in find_siblings(draft):
        apart_us, joined_us = _times(draft, found, machine)
        if apart_us <= joined_us:
            out.append(Apart(tuple(b.convolution.name for b in found.branches), found.exception, apart_us, joined_us))
    return out


def _times(draft: Draft, found: Siblings, machine: Machine) -> list[float]:
    """Return the modelled us of branches apart and joined."""
    single, zeros = _graph_alone(draft, found.nodes, [b.result for b in found.branches])

    def make() -> list[float]:
        joint = joint_nodes(draft, found)
        graph, wide = _graph_alone(draft, joint, joint[-1].outputs)
        return [time_us(single, machine, (), zeros), time_us(graph, machine, (), wide)]
    return recall_times(("siblings", show(single), machine.name, machine.hash), make)


def _graph_alone(draft: Draft, nodes: Sequence[OpNode], results: Sequence[str]) -> tuple[Graph, dict[str, np.ndarray]]:
    """Return some nodes as a graph of their own, and its constants. Images that it reads and makes lie as convolutions take them."""
    single = graph_of_nodes(draft.tensors, *nodes)
    made = [o for n in nodes for o in n.outputs]
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made)
    own = dict(zip((*read, *made), (t.name for t in single.tensors)))
    constants = {own[name]: draft.weights[name] for name in read if draft.is_constant(name)}
    outputs = [own[name] for name in results]
    inputs = [name for name in single.inputs if name not in constants]
    tensors = [replace(t, layout=FIVE) if t.name in outputs or t.name in inputs and t.shape[1] > PIXEL[FEW] else t for t in single.tensors]
    return Draft(single.name, inputs, outputs, tensors, single.nodes, constants).finish()
