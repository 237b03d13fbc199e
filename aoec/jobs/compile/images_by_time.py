"""Choice of the convolutions that stay as the model has them: those that take longer otherwise, by default schedules.

Convolutions of one image may be one, and a product may make the planes of one. A launch that makes the image is timed with them, since it
leaves the image in L2. Equal ones are timed once.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aoec.base.text import plural
from aoec.ir.graph import bodies
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode
from aoec.ir.text.show import show
from aoec.jobs.choose.alone import graph_of_nodes, recall_times, time_us
from aoec.jobs.choose.moves import time_or_refusal
from aoec.lowering.arrange.images.planes import Planes, find_planes
from aoec.lowering.arrange.images.siblings import Siblings, find_siblings, join_convolutions, joint_nodes
from aoec.lowering.arrange.layout import assign, family
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import FEW, FIVE, PIXEL
from aoec.target.machine import Machine

Part = tuple[Graph, dict[str, np.ndarray]]  # nodes of a draft as a graph of their own, and its constants
JOINED = "convolutions of one image kept apart", "joined"
PLANES = "convolution with its conversion kept", "as a product"


@dataclass(frozen=True)
class Unchanged:
    """Convolutions that stay as they are, by name. `exception`: as `fuse` takes it. `words`: what stays, and what it is not.
    Modelled us, as they are and otherwise (inf: refused)."""

    convolutions: tuple[str, ...]
    exception: str
    words: tuple[str, str]
    kept_us: float
    other_us: float


def say_unchanged(found: Sequence[Unchanged]) -> list[str]:
    """Return a sentence on each kind of convolutions that stay as they are."""
    alike: dict[tuple[object, ...], list[Unchanged]] = {}
    for u in found:
        alike.setdefault((u.words, u.kept_us, u.other_us), []).append(u)
    out = []
    for those in alike.values():
        first = those[0]
        others = f" and {plural(len(those) - 1, 'other')} like this" if len(those) > 1 else ""
        times = f"{first.kept_us:.1f} us against {time_or_refusal(first.other_us)} {first.words[1]}"
        out.append(f"{' and '.join(first.convolutions)}{others}: {first.words[0]}, {times}, with what makes the image, modelled")
    return out


def keep_images(graph: Graph, machine: Machine) -> list[Unchanged]:
    """Return the convolutions that `fuse` is to leave as they are. Times do not depend on values: constants are not read."""
    return [u for _, part in bodies.split_bodies(graph) if any(n.op == "conv2d" for n in part.nodes) for u in _keep_flat(part, machine)]


def _keep_flat(graph: Graph, machine: Machine) -> list[Unchanged]:
    """Return what stays as it is of a graph without bodies."""
    zeros = {t.name: np.broadcast_to(np.zeros((), NUMPY[t.dtype]), t.shape) for t in graph.tensors if t.data}
    draft, out = Draft.of(graph, zeros), list[Unchanged]()
    for found in find_siblings(draft):
        times = _sibling_times(draft, found, machine)
        if times[0] <= times[1]:
            out.append(Unchanged(tuple(b.convolution.name for b in found.branches), found.exception, JOINED, *times))
    join_convolutions(draft, [u.exception for u in out])
    assign(draft, four=machine.has("load3d", channels=PIXEL[FEW]))
    users = draft.users()
    for planes in find_planes(draft):
        times = _planes_times(draft, planes, users.get(planes.result, []), machine)
        if times[0] <= times[1]:
            out.append(Unchanged((planes.convolution.name,), planes.exception, PLANES, *times))
    return out


def _sibling_times(draft: Draft, found: Siblings, machine: Machine) -> tuple[float, float]:
    """Return the modelled us of branches apart and joined."""
    maker = _maker(draft, found.nodes[0].inputs[0])
    single = _part(draft, [*maker, *found.nodes], [b.result for b in found.branches])

    def make() -> list[float]:
        joint = [*maker, *joint_nodes(draft, found)]
        return [_time_us(single, machine), _time_us(_part(draft, joint, joint[-1].outputs), machine)]
    return _recall("siblings", single, machine, make)


def _planes_times(draft: Draft, found: Planes, readers: Sequence[OpNode], machine: Machine) -> tuple[float, float]:
    """Return the modelled us of a convolution with its conversion, and of a product. An elementwise operator of one operand behind it is
    included; the addition of a bias is joined with it."""
    behind = [n for n in readers if len(readers) == 1 and family(n) == "elementwise" and len(n.inputs) == 1 and not n.definition]
    convolution = replace(found.convolution, outputs=found.conversion.outputs)
    maker = _maker(draft, convolution.inputs[0])
    nodes = [*maker, convolution, *([found.reshape] if found.reshape else []), *behind]
    single = _part(draft, nodes, nodes[-1].outputs, ends=())

    def make() -> list[float]:
        (planes,) = find_planes(_with_layouts(single, machine))
        return [_time_us(single, machine, planes.exception), _time_us(single, machine)]
    return _recall("planes", single, machine, make)


def _maker(draft: Draft, image: str) -> list[OpNode]:
    """Return a node that makes an image of another; none of one of few channels, which has another layout."""
    t = draft.tensors[image]
    if t.shape[1] <= PIXEL[FEW]:
        return []
    return [draft.node("relu", [draft.tensor(f"{image}_given", t.dtype, t.shape, t.layout)], image)]


def _with_layouts(part: Part, machine: Machine) -> Draft:
    """Return a graph as a draft with layouts."""
    draft = Draft.of(*part)
    assign(draft, four=machine.has("load3d", channels=PIXEL[FEW]))
    return draft


def _recall(kind: str, single: Part, machine: Machine, make: Callable[[], list[float]]) -> tuple[float, float]:
    """Return the modelled us of both ways, made once."""
    kept_us, other_us = recall_times((kind, show(single[0]), machine.name, machine.hash), make)
    return kept_us, other_us


def _time_us(part: Part, machine: Machine, *exceptions: str) -> float:
    """Return the modelled us of a graph."""
    return time_us(part[0], machine, exceptions, part[1])


def _part(draft: Draft, nodes: Sequence[OpNode], results: Sequence[str], ends: Sequence[str] | None = None) -> Part:
    """Return some nodes as a graph of their own. Images that it reads and of the `ends` that it makes (None: all) lie as convolutions take
    them."""
    single = graph_of_nodes(draft.tensors, *nodes)
    made = [o for n in nodes for o in n.outputs]
    read = dict.fromkeys(i for n in nodes for i in n.inputs if i and i not in made)
    own = dict(zip((*read, *made), (t.name for t in single.tensors)))
    constants = {own[name]: draft.weights[name] for name in read if draft.is_constant(name)}
    inputs = [name for name in single.inputs if name not in constants]
    images = {own[name] for name in (results if ends is None else ends)}.union(
        name for name, t in ((own[i], draft.tensors[i]) for i in read) if name in inputs and len(t.shape) == 4 and t.shape[1] > PIXEL[FEW])
    tensors = [replace(t, layout=FIVE) if t.name in images else t for t in single.tensors]
    return Draft(single.name, inputs, [own[name] for name in results], tensors, single.nodes, constants).finish()
