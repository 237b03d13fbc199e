"""Concats of what lies together already: neighbouring slices of a tensor are one slice of it, or itself, and a concat that begins as
another one does reads that. Halves of a split that meet again (C2f of YOLO) and the growing concats of dense blocks (DenseNet) then are
parts of one tensor, each written once.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.ir.draft import Draft
from aoec.ir.graph import OpNode

Taken = tuple[str, tuple[int, ...], tuple[int, ...]]  # of a slice: of which tensor, from where on, how much


def join_neighbours(draft: Draft) -> None:
    """Nothing; concats read as few tensors as say the same."""
    makers, begun = draft.producers(), dict[tuple[int, tuple[str, ...]], str]()
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        axis = node.attribute("axis")
        if node.op != "concat" or not isinstance(axis, int):
            draft.nodes.append(node)
            continue
        inputs = _of_whole_slices(draft, node, axis, [_taken(makers.get(i)) for i in node.inputs])
        begun.setdefault((axis, node.inputs), node.outputs[0])
        longest = next((n for n in range(len(inputs) - 1, 1, -1) if (axis, inputs[:n]) in begun), 0)
        if longest:
            inputs = (begun[axis, inputs[:longest]], *inputs[longest:])
        begun.setdefault((axis, inputs), node.outputs[0])
        alone = OpNode(node.name, "reshape", inputs, node.outputs, (("shape", draft.tensors[node.outputs[0]].shape),))
        draft.nodes.append(alone if len(inputs) == 1 else replace(node, inputs=inputs))


def _taken(node: OpNode | None) -> Taken | None:
    """What a slice takes; None of others, and of one that takes not every element."""
    if node is None or node.op != "slice":
        return None
    starts, sizes, steps = (node.attribute(name) for name in ("starts", "sizes", "steps"))
    assert isinstance(starts, tuple) and isinstance(sizes, tuple) and isinstance(steps, tuple)
    return None if set(steps) - {1} else (node.inputs[0], tuple(map(int, starts)), tuple(map(int, sizes)))


def _of_whole_slices(draft: Draft, node: OpNode, axis: int, taken: Sequence[Taken | None]) -> tuple[str, ...]:
    """A concat's inputs, with one tensor in place of neighbouring slices that follow each other in another."""
    out = list[str]()
    at = 0
    while at < len(taken):
        end, joined = at + 1, taken[at]
        while end < len(taken) and (wider := _with(joined, taken[end], axis)):
            end, joined = end + 1, wider
        out.append(node.inputs[at] if end == at + 1 or joined is None else _slice(draft, node, joined))
        at = end
    return tuple(out)


def _with(a: Taken | None, b: Taken | None, axis: int) -> Taken | None:
    """What two slices take that follow each other along an axis; None where they do not."""
    if a is None or b is None or a[0] != b[0]:
        return None
    (source, starts, sizes), (_, others, more) = a, b
    alike = all(starts[i] == others[i] and sizes[i] == more[i] for i in range(len(starts)) if i != axis)
    follows = others[axis] == starts[axis] + sizes[axis]
    return (source, starts, (*sizes[:axis], sizes[axis] + more[axis], *sizes[axis + 1:])) if alike and follows else None


def _slice(draft: Draft, node: OpNode, taken: Taken) -> str:
    """The tensor that holds what is taken: the source itself where that is all."""
    source, starts, sizes = taken
    t = draft.tensors[source]
    if sizes == t.shape:
        return source
    made = draft.tensor(f"{source}_part", t.dtype, sizes)
    draft.nodes.append(draft.node("slice", [source], made, {"starts": starts, "sizes": sizes, "steps": (1,) * len(sizes)}, node.name))
    return made
