"""Finds the interleaving of channels as pixels (depth to space, pixel shuffle, the phases of a transposed convolution) that a reshape, a
transpose and a reshape spell out.

An image can be moved in blocks of channels where all channels of a phase are consecutive and fill whole blocks. In PyTorch's pixel shuffle
the channels of a pixel are consecutive instead. Then a convolution before it, with constant weights, gives its channels in the other order.
Elementwise work behind the interleaving is done before it, where a convolution can do it when it writes its result.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops import OPS
from aoec.ops.words.movement import BY_PHASE

BLOCK = 32  # channels of whole blocks in any dtype
BY_CHANNEL = (0, 1, 4, 2, 5, 3)  # [n, c, phases down, across, h, w] as [n, c, h, phase, w, phase]


@dataclass(frozen=True)
class Shuffle:
    """`source`: an image of which channels become `scale` pixels down and across; `last`: the node that gives these, `by_phase`: in which
    order the channels are."""

    source: str
    last: OpNode
    scale: tuple[int, int]
    by_phase: bool


def find_shuffles(draft: Draft) -> None:
    """Replace the nodes that spell out a `depth_to_space` by that one node. Put it behind the elementwise work that followed them."""
    find = Finder.of(draft)
    changed: dict[str, list[OpNode]] = {}  # name of a node -> what stands in its place
    for node in draft.nodes:
        found = _shuffle(find, node) if node.op == "transpose" else None
        if found is None:
            continue
        if not found.by_phase:
            if (maker := _maker(find, found.source)) is None or maker.name in changed:
                continue
            changed[maker.name] = [_by_phase(draft, maker, prod(found.scale))]
        each = _each_behind(find, found.last.outputs[0])
        changed |= {n.name: [] for n in (found.last, *each)}
        changed[(found.last, *each)[-1].name] = _hoist_work(draft, found, each)
    draft.nodes = [made for node in draft.nodes for made in changed.get(node.name, [node])]


def _shuffle(find: Finder, turned: OpNode) -> Shuffle | None:
    """Return what a transpose and the views around it do, where they are such an interleaving of whole blocks of channels."""
    perm, first = turned.attribute("perm"), find.producer(turned.inputs[0], "reshape")
    last = find.only_user(turned.outputs[0])
    if perm not in (BY_PHASE, BY_CHANNEL) or first is None or last is None or last.op != "reshape":
        return None
    image, apart, result = (find.draft.tensors[t].shape for t in (first.inputs[0], first.outputs[0], last.outputs[0]))
    n, c, h, down, w, across = find.draft.tensors[turned.outputs[0]].shape
    fits = image == (n, c * down * across, h, w) and result == (n, c, h * down, w * across) and c % BLOCK == 0 and 0 not in apart
    return Shuffle(first.inputs[0], last, (down, across), perm == BY_PHASE) if fits else None


def _maker(find: Finder, name: str) -> OpNode | None:
    """Return the convolution of constant weights, in one group, that makes an image for one reader alone, perhaps through work on each
    element."""
    while find.only_user(name) is not None and (node := find.producers.get(name)) is not None:
        if node.op == "conv2d":
            plain = node.attribute("group", 1) == 1 and all(find.draft.is_constant(i) for i in node.inputs[1:] if i)
            return node if plain else None
        if not _is_unary(node):
            return None
        name = node.inputs[0]
    return None


def _is_unary(node: OpNode) -> bool:
    """Return True for work on each element by itself."""
    return node.op in OPS and OPS[node.op].family == "elementwise" and len(node.inputs) == len(node.outputs) == 1 and not node.definition


def _by_phase(draft: Draft, conv: OpNode, phases: int) -> OpNode:
    """Return the convolution with its channels phase after phase, in place of channel after channel."""
    def order_by_phase(name: str) -> str:
        w = draft.weights[name]
        turned = w.reshape(-1, phases, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)
        return draft.constant(f"{name}_by_phase", np.ascontiguousarray(turned), draft.tensors[name].dtype)
    return replace(conv, inputs=(conv.inputs[0], *(i and order_by_phase(i) for i in conv.inputs[1:])))


def _each_behind(find: Finder, name: str) -> list[OpNode]:
    """Return the nodes behind a tensor that work on each element by itself, for one reader each but the last."""
    found: list[OpNode] = []
    while (user := find.only_user(found[-1].outputs[0] if found else name)) is not None and _is_unary(user):
        found.append(user)
    return found


def _hoist_work(draft: Draft, found: Shuffle, each: Sequence[OpNode]) -> list[OpNode]:
    """Return the work on each element, then the interleaving."""
    made, name = [], found.source
    for node in each:
        t = draft.tensors[node.outputs[0]]
        before = draft.tensor(f"{t.name}_apart", t.dtype, draft.tensors[found.source].shape)
        made.append(replace(node, inputs=(name,), outputs=(before,)))
        name = before
    result = (found.last, *each)[-1].outputs[0]
    return [*made, draft.node("depth_to_space", [name], result, {"scale": found.scale})]
