"""Lets heads that share keys and values read them in place.

Exporters repeat the keys and values of each group of heads (grouped queries): a view, an expansion and a view of it. This writes them once
for each head that shares them. In a language model that happens in each step, for all of the text that is kept. The queries of such heads
are rows of one product as well: [batch, heads, rows, depth] is [batch, groups, heads of a group * rows, depth].
"""
from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from aoec.frontend.passes.find import Finder
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode

Shape = tuple[int, ...]
MOST_MASK_BYTES = 16 << 20  # of a constant mask that is repeated for the heads of a group


def share_keys(draft: Draft) -> None:
    """Let attentions of repeated keys and values read these once."""
    find = Finder.of(draft)
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes += (_group_heads(find, node) if node.op == "attention" else None) or [node]


def _group_heads(find: Finder, node: OpNode) -> list[OpNode] | None:
    """Return the attention with groups in place of heads, between views. Return None where keys and values are not both repeated for each
    head."""
    draft, (q, k, v, *bias) = find.draft, node.inputs
    shape, rank = draft.tensors[q].shape, len(draft.tensors[q].shape)
    held = [_repeat_source(find, name) for name in (k, v)]
    if rank < 3 or held[0] is None or held[1] is None or held[0][1] != held[1][1]:
        return None
    each, out = held[0][1], []
    lead: Shape = (*shape[:-3], shape[-3] // each)
    rows = (*lead, each * shape[-2])
    mask = [_of_rows(draft, name, shape, rows) for name in bias]
    if None in mask:
        return None

    def view(source: str, to: Shape) -> str:
        made = draft.tensor(f"{source}_grouped", draft.tensors[source].dtype, to)
        out.append(draft.node("reshape", [source], made, {"shape": to}, node.name))
        return made
    result = draft.tensors[node.outputs[0]]
    inputs = [view(q, (*rows, shape[-1])), *(view(source, (*lead, *draft.tensors[name].shape[-2:]))
                                             for (source, _), name in zip([h for h in held if h], (k, v)))]
    inputs += [view(name, to) if draft.tensors[name].shape != to else name for name, to in [m for m in mask if m]]
    made = draft.tensor(f"{result.name}_grouped", result.dtype, (*rows, result.shape[-1]))
    return [*out, replace(node, inputs=tuple(inputs), outputs=(made,)),
            draft.node("reshape", [made], result.name, {"shape": result.shape}, node.name)]


def _repeat_source(find: Finder, name: str) -> tuple[str, int] | None:
    """Return (what is repeated, how often) where a tensor holds each head of another so many times, one behind the other."""
    view = find.producer(name, "reshape")
    wide = find.producer(view.inputs[0], "expand") if view is not None else None
    if wide is None:
        return None
    own, more, shape = (find.draft.tensors[t].shape for t in (wide.inputs[0], wide.outputs[0], name))
    at = [axis for axis, (a, b) in enumerate(zip(own, more)) if a != b]
    joined = len(own) == len(more) and len(at) == 1 and at[0] > 0 and own[at[0]] == 1
    if not joined or more[at[0] + 1:] != shape[-2:] or prod(more[:at[0] + 1]) != prod(shape[:-2]) or len(shape) < 3:
        return None
    each = more[at[0]]
    return (wide.inputs[0], each) if shape[-3] % each == 0 and more[at[0] - 1] * each == shape[-3] else None


def _of_rows(draft: Draft, name: str, shape: Shape, rows: Shape) -> tuple[str, Shape] | None:
    """Return (a tensor that is added to scores of heads, in which shape it is added to those of groups); a constant mask for all heads is
    repeated for the heads of a group. Return None where it would have to be made anew."""
    t = draft.tensors[name]
    own = (*[1] * (len(shape) - len(t.shape)), *t.shape)
    heads, count = own[-3], own[-2]
    if count == heads == 1:
        return name, t.shape
    if (heads, count) == shape[-3:-1]:
        return name, (*own[:-3], *rows[-2:], own[-1])
    each = rows[-1] // shape[-2]
    if heads != 1 or not draft.is_constant(name) or draft.weights[name].nbytes * each > MOST_MASK_BYTES:
        return None
    made = f"{name}_rows{each}"
    if made not in draft.weights:
        draft.constant(made, np.concatenate([draft.weights[name].reshape(own)] * each, axis=-2), t.dtype)
    return made, draft.tensors[made].shape
