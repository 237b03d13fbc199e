"""Concats of many tensors are made in parts: a program has a slot in UB, and so a flag from pipe to pipe, for each tensor that it joins."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.lowering.arrange.layout import family
from aoec.lowering.emit.emit import MOST_APART

FLAG_IDS = 6  # between two pipes, where no machine says how many


def join_in_parts(draft: Draft, views: Collection[str] = (), most: int = FLAG_IDS) -> None:
    """Replace every concat of more than `most` tensors by concats of at most `most`. Leave the concats in `views` as they are."""
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        inputs = list(node.inputs)
        while node.op == "concat" and node.name not in views and len(inputs) > most:
            inputs = [_join_inputs(draft, node, inputs[i:i + most]) for i in range(0, len(inputs), most)]
        draft.nodes.append(replace(node, inputs=tuple(inputs)))


def _join_inputs(draft: Draft, node: OpNode, part: Sequence[str]) -> str:
    """Return the tensor that joins some of a concat's inputs; the input itself where it is only one."""
    if len(part) == 1:
        return part[0]
    axis, out = node.attribute("axis"), draft.tensors[node.outputs[0]]
    assert isinstance(axis, int)
    shape = [sum(draft.tensors[i].shape[axis] for i in part) if at == axis else n for at, n in enumerate(out.shape)]
    made = draft.tensor(f"{out.name}_part", out.dtype, shape, out.layout)
    draft.nodes.append(draft.node("concat", part, made, {"axis": axis}, node.name))
    return made


def flags_of(draft: Draft, nodes: Sequence[OpNode]) -> int:
    """Return how many flags say that what a group reads is in UB: one for each tensor. A group that works by a range reads several small
    ones, which are brought once, and one flag says that all of these are there."""
    read = {i for n in nodes for i in n.inputs if i} - {o for n in nodes for o in n.outputs}
    ends = {i for n in nodes if family(n) == "ranged" for i in n.inputs[1:]}
    once = {i for i in read if i in ends or ends and prod(draft.tensors[i].shape) in draft.tensors[i].shape[-1:]}
    return len(read) if len(once) < MOST_APART else len(read - once) + 1
