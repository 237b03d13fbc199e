"""Simplifies concats of parts that already are adjacent. Neighbouring slices of a tensor become one slice of it, or the tensor itself. A
concat that begins with the inputs of another reads that one. Halves of a split that are joined again (C2f of YOLO) and the growing concats
of dense blocks (DenseNet) then are parts of one tensor, each written once. A slice of a slice becomes one slice, so that no tensor is made
in between.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode
from aoec.ops.slices import Box, sizes, taken_box, taking

Taken = tuple[str, Box]  # of a slice: of which tensor, and what of it


def join_slices(draft: Draft) -> None:
    """Let slices of a slice read that slice's input, where together they read no more elements than the inner slice gives."""
    makers, users = draft.producers(), draft.users()
    for at, node in enumerate(draft.nodes):
        inner = makers.get(node.inputs[0]) if node.op == "slice" else None
        if inner is None or inner.op != "slice":
            continue
        between = draft.tensors[inner.outputs[0]]
        readers = users[between.name]
        if between.name not in draft.outputs and all(n.op == "slice" for n in readers) and (
                sum(prod(draft.tensors[n.outputs[0]].shape) for n in readers) <= prod(between.shape)):
            draft.nodes[at] = makers[node.outputs[0]] = _of_slice(node, inner)


def _of_slice(node: OpNode, inner: OpNode) -> OpNode:
    """Return the slice that a slice of `inner` is."""
    (starts, steps), (first, by) = ([n.attribute(name) for name in ("starts", "steps")] for n in (node, inner))
    assert isinstance(starts, tuple) and isinstance(steps, tuple) and isinstance(first, tuple) and isinstance(by, tuple)
    given = {"starts": tuple(int(f) + int(at) * int(b) for f, at, b in zip(first, starts, by)), "sizes": node.attribute("sizes"),
             "steps": tuple(int(a) * int(b) for a, b in zip(steps, by))}
    return replace(node, inputs=inner.inputs, attributes=tuple(given.items()))  # type: ignore[arg-type]


def join_neighbours(draft: Draft) -> None:
    """Make concats read as few tensors as give the same result."""
    makers, begun = draft.producers(), dict[tuple[int, tuple[str, ...]], str]()
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        draft.nodes.append(_shorten_concat(draft, node, makers, begun) if node.op == "concat" else node)


def _shorten_concat(draft: Draft, node: OpNode, makers: Mapping[str, OpNode], begun: dict[tuple[int, tuple[str, ...]], str]) -> OpNode:
    """Return a concat of as few tensors as give the same; a view where that is one.
    `begun`: (axis, inputs) of those before -> what they make."""
    axis, result = node.attribute("axis"), node.outputs[0]
    assert isinstance(axis, int)
    inputs = _of_whole_slices(draft, node, axis, [_slice_source(makers.get(i)) for i in node.inputs])
    longest = next((n for n in range(len(inputs) - 1, 1, -1) if (axis, inputs[:n]) in begun), 0)
    begun.setdefault((axis, inputs), result)
    if len(inputs) == 1:
        return OpNode(node.name, "reshape", inputs, node.outputs, (("shape", draft.tensors[result].shape),))
    return replace(node, inputs=(begun[axis, inputs[:longest]], *inputs[longest:]) if longest else inputs)


def _slice_source(node: OpNode | None) -> Taken | None:
    """Return what a slice takes. Return None for other nodes, and of a slice that leaves elements out."""
    box = taken_box(node) if node is not None and node.op == "slice" else None
    return None if node is None or box is None else (node.inputs[0], box)


def _of_whole_slices(draft: Draft, node: OpNode, axis: int, parts: Sequence[Taken | None]) -> tuple[str, ...]:
    """Return a concat's inputs, with one tensor in place of neighbouring slices that follow each other in another."""
    out = list[str]()
    at = 0
    while at < len(parts):
        end, joined = at + 1, parts[at]
        while end < len(parts) and (wider := _with(joined, parts[end], axis)):
            end, joined = end + 1, wider
        out.append(node.inputs[at] if end == at + 1 or joined is None else _slice(draft, node, *joined))
        at = end
    return tuple(out)


def _with(a: Taken | None, b: Taken | None, axis: int) -> Taken | None:
    """Return what two slices take that follow each other along an axis. Return None where they do not."""
    if a is None or b is None or a[0] != b[0]:
        return None
    (source, one), (_, other) = a, b
    start, end = one[axis][0], sum(one[axis])
    follows = other[axis][0] == end
    alike = one[:axis] == other[:axis] and one[axis + 1:] == other[axis + 1:]
    return (source, (*one[:axis], (start, sum(other[axis]) - start), *one[axis + 1:])) if alike and follows else None


def _slice(draft: Draft, node: OpNode, source: str, box: Box) -> str:
    """Return the tensor that holds a part of another: that itself where the part is all of it."""
    t = draft.tensors[source]
    if sizes(box) == t.shape:
        return source
    made = draft.tensor(f"{source}_part", t.dtype, sizes(box))
    draft.nodes.append(draft.node("slice", [source], made, taking(box), node.name))
    return made
