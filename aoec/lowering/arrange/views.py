"""Views: nodes that move nothing, as their result lies in the bytes of another tensor.

A reshape renames bytes. A conversion does too, where the data lies alike in both layouts. A contiguous slice begins in the middle of its
tensor. The parts of a concat that are contiguous in it are written to their places by the nodes that make them. So the skip connections
of a network (U-Net, YOLO, DenseNet) copy nothing. A tensor can lie in one place only. Some parts of a concat cannot lie in it: inputs
and results of the graph, constants, parts of another concat, and parts that would begin between two tensors' places. At most one run of
neighbouring parts of that kind is copied.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import prod

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.lowering.arrange.layout import family
from aoec.ops.slices import Box, sizes, start_of, taken_box, whole_box
from aoec.ops.words.layout import BLOCK_BYTES, FIVE, FRACTAL_ROWS, PIXEL, pixel_channels, stored_shape

ALIGN_BYTES = 512  # at which parts begin in GM, as tensors do (asc-devkit, of transfers on 2201); shorter ones at a block


# ---------------------------------------------------------------- which nodes are views

def find_views(draft: Draft, moved: Collection[str] = ()) -> set[str]:
    """Return the names of the nodes that are views; concats of which a part cannot lie in the whole read a copy of it, a node that is new.
    `moved`: nodes that are none, since their group moves what they do."""
    found = {n.name for n in draft.nodes if family(n) == "view" or _converts_nothing(draft, n)}
    makers = draft.producers()
    parts: set[str] = set()  # what lies in a concat, with all that it is a reshape of
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        joined = _concat_as_view(draft, node, makers, found, parts) if node.op == "concat" and node.name not in moved else None
        draft.nodes += joined or [node]
        found.update([joined[-1].name] if joined else [])
    slices = [n for n in draft.nodes if n.op == "slice" and n.name not in moved]
    found.update(n.name for n in slices if _is_part(draft, n) and parts.isdisjoint(n.outputs))
    return found


def _converts_nothing(draft: Draft, node: OpNode) -> bool:
    """Return whether a node converts what lies alike in both layouts: an image of one pixel, in whole blocks of channels, in NC1HWC0 and
    ND; an image of one row of pixels in NC1HWC0, and in NZ the matrix of a row for each pixel."""
    if node.op == "transpose":
        image, matrix = (draft.tensors[name] for name in (*node.inputs, *node.outputs))
        return (image.layout, matrix.layout) == (FIVE, "NZ") and node.attribute("perm") == (0, 2, 3, 1) and (
            image.shape[2] == 1 and image.shape[3] % FRACTAL_ROWS == 0 == image.shape[1] % pixel_channels(image))
    if not node.op.endswith("nc1hwc0"):
        return False
    every = [draft.tensors[name] for name in (*node.inputs, *node.outputs)]
    return all(t.layout == "ND" or t.layout == FIVE and _flat(t) for t in every)


def _flat(t: Tensor) -> bool:
    return prod(t.shape[2:]) == 1 and t.shape[1] % pixel_channels(t) == 0


def _concat_as_view(draft: Draft, node: OpNode, makers: Mapping[str, OpNode], views: set[str], parts: set[str]) -> list[OpNode] | None:
    """Return a concat as a view, behind the copy of those parts that cannot lie in the whole; None where it is no view.
    `parts` grows by its own."""
    own: set[str] = set()
    free = []
    every = lies_in_run(draft.tensors, node)
    for name, lies in zip(node.inputs, every):
        names = set(_aliases(name, makers, views))
        fits = parts.isdisjoint(names) and own.isdisjoint(names) and _can_lie(draft, names, makers)
        free.append(fits and lies and (all(every) or all(makers[n].op != "slice" for n in names)))  # no launch more beside the copy
        own |= names if free[-1] else set()
    several = [(is_free, [name for _, name in run]) for is_free, run in groupby(zip(free, node.inputs), lambda x: x[0])]
    runs = [(is_free, run) for is_free, names in several for run in ([[x] for x in names] if is_free else [names])]
    whole = draft.tensors[node.outputs[0]]
    lie = all(_is_run(whole, box) for box in _boxes(draft.tensors, node, [run for _, run in runs]))
    if not own or not lie or [is_free for is_free, _ in runs].count(False) > 1:
        return None
    copies = [_copy(draft, node, run) for is_free, run in runs if not is_free]
    parts |= own | {n.outputs[0] for n in copies}
    return [*copies, replace(node, inputs=tuple(run[0] if is_free else copies[0].outputs[0] for is_free, run in runs))]


def lies_in_run(tensors: Mapping[str, Tensor], node: OpNode) -> list[bool]:
    """Return of each input of a concat whether it may lie in the result, in one run."""
    return [is_aligned(tensors[node.outputs[0]], box) for box in _boxes(tensors, node, [[i] for i in node.inputs])]


def _boxes(tensors: Mapping[str, Tensor], node: OpNode, runs: Sequence[Sequence[str]]) -> Iterator[Box]:
    """Yield what runs of neighbours among a concat's inputs are of the whole."""
    shape, at = tensors[node.outputs[0]].shape, 0
    for run in runs:
        count = sum(tensors[name].shape[_axis(node)] for name in run)
        yield tuple((at, count) if axis == _axis(node) else (0, n) for axis, n in enumerate(shape))
        at += count


def _axis(node: OpNode) -> int:
    axis = node.attribute("axis")
    assert isinstance(axis, int)
    return axis


def _copy(draft: Draft, node: OpNode, run: Sequence[str]) -> OpNode:
    """Return the concat of some neighbours among a concat's inputs."""
    out, (box,) = draft.tensors[node.outputs[0]], _boxes(draft.tensors, node, [run])
    made = draft.tensor(f"{out.name}_copied", out.dtype, sizes(box), out.layout)
    return draft.node("concat", run, made, dict(node.attributes), node.name)


def _aliases(name: str, makers: Mapping[str, OpNode], views: set[str]) -> Iterator[str]:
    """Yield a tensor, and all tensors of which it is another name."""
    yield name
    while name in makers and makers[name].name in views and makers[name].op != "concat":
        name = makers[name].inputs[0]
        yield name


def _can_lie(draft: Draft, names: set[str], makers: Mapping[str, OpNode]) -> bool:
    """Return whether tensors may lie in another: an AI Core makes them, and nobody outside reads them."""
    return all(name in makers and name not in draft.outputs and family(makers[name]) != "host" for name in names)


def _is_part(draft: Draft, node: OpNode) -> bool:
    """Return whether what a slice takes lies in one run of a tensor that is no constant."""
    box = taken_box(node)
    return box is not None and not draft.is_constant(node.inputs[0]) and node.outputs[0] not in draft.outputs and (
        is_aligned(draft.tensors[node.inputs[0]], box))


# ---------------------------------------------------------------- where they lie

def is_aligned(t: Tensor, box: Box | None) -> bool:
    """Return whether a part of a tensor lies in one run that begins as a tensor does."""
    start = None if box is None else offset_bytes(t, box)
    return box is not None and start is not None and start % unit_bytes(t, box) == 0


def _is_run(t: Tensor, box: Box) -> bool:
    """Return whether a part of a tensor lies in one run of whole blocks, as a launch that copies it can write it."""
    start = offset_bytes(t, box)
    return start is not None and start % BLOCK_BYTES == 0


def unit_bytes(t: Tensor, box: Box) -> int:
    """Return at which multiples a part begins in GM."""
    return ALIGN_BYTES if prod(sizes(box)) * DTYPES[t.dtype] >= ALIGN_BYTES else BLOCK_BYTES


def offset_bytes(t: Tensor, box: Box) -> int | None:
    """Return where a part of a tensor begins in GM; None where it does not lie in one run."""
    stored = _stored_box(t, box)
    start = None if stored is None else start_of(stored_shape(t), stored)
    return None if start is None else start * DTYPES[t.dtype]


def _stored_box(t: Tensor, box: Box) -> Box | None:
    """Return a part of a tensor as a box of its stored array; None where it is none."""
    if t.layout == "ND":
        return box
    if t.layout in PIXEL and len(t.shape) == 4:
        return _of_blocks(t, box)
    lead = 0 if t.layout in PIXEL else len(t.shape) - 2  # axes before those of a matrix
    return (*box[:lead], *whole_box(stored_shape(t))[lead:]) if box[lead:] == whole_box(t.shape)[lead:] else None


def _of_blocks(t: Tensor, box: Box) -> Box | None:
    """Return a part of an image as one of its stored array; None where it is no whole blocks of channels."""
    n, (at, count), *image = box
    unit = pixel_channels(t)
    if at % unit or count % unit and at + count != t.shape[1]:
        return None
    return n, (at // unit, -(-count // unit)), *image, (0, unit)


def places(graph: Graph) -> Mapping[str, tuple[str, int]]:
    """Return tensor -> (tensor in whose bytes it lies, byte at which it begins), of all that views make or join; others lie in their own.

    UnsupportedError for a group of kind view whose node moves elements."""
    nodes, tensors = {n.name: n for n in graph.nodes}, {t.name: t for t in graph.tensors}
    views = [nodes[name] for g in graph.groups if g.kind == "view" for name in g.nodes]
    out: dict[str, tuple[str, int]] = {}
    for n in reversed(views):  # what is joined lies in the whole, and what that is a view of too
        whose, start = out.get(n.outputs[0], (n.outputs[0], 0))
        if n.op == "concat":
            for i, at in zip(n.inputs, _starts(n, tensors, graph.inputs)):
                out[i] = whose, start + at
        elif n.outputs[0] in out and n.op != "slice" and not tensors[n.inputs[0]].data:
            out.setdefault(n.inputs[0], (whose, start))
    for n in views:
        if n.op != "concat" and n.outputs[0] not in out:
            whose, start = out.get(n.inputs[0], (n.inputs[0], 0))
            out[n.outputs[0]] = whose, start + (_start(n, tensors) if n.op == "slice" else 0)
    return out


def _start(node: OpNode, tensors: Mapping[str, Tensor]) -> int:
    """Return the byte at which the view of a part begins."""
    box = taken_box(node)
    found = None if box is None else offset_bytes(tensors[node.inputs[0]], box)
    if found is None:
        raise UnsupportedError(f"node {node.name} is in a group of kind view, and what it takes does not lie in one run")
    return found


def _starts(node: OpNode, tensors: Mapping[str, Tensor], given: Sequence[str]) -> list[int]:
    """Return the bytes at which the parts begin that are joined, none of which is `given`."""
    out = []
    for name, box in zip(node.inputs, _boxes(tensors, node, [[i] for i in node.inputs])):
        found = offset_bytes(tensors[node.outputs[0]], box)
        if found is None or tensors[name].data or name in given:
            raise UnsupportedError(f"node {node.name} is in a group of kind view, and {name} cannot lie in what it joins")
        out.append(found)
    return out
