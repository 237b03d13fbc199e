"""Convolutions of one image become one, whose channels are those of each side by side. Their results are views of its result.

A network writes C3 of YOLO, branches of Inception and heads of detectors as several convolutions of one image. Together they read it once,
and fill more cores. What is done alike to the result of each is done once, to all channels. A channel slice of one image in NC1HWC0 lies in
one run, where it begins at a whole block. So only images of a batch of 1 are joined. Where a concat reads some of the results, these come
first or last in it. Then the joint result lies in a larger image, and what the concat makes is a run of that.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.views import is_aligned
from aoec.ops.run import REALS
from aoec.ops.words.layout import FIVE, c0_of

MOST_FOLLOWERS = 8  # operators behind a convolution that are looked at
CHANNELS = 1  # the axis
Readers = Mapping[str, list[OpNode]]


@dataclass(frozen=True)
class Branch:
    """A convolution and the operators of one operand behind it, each the only reader of the one before."""

    convolution: OpNode
    followers: tuple[OpNode, ...]

    @property
    def nodes(self) -> tuple[OpNode, ...]:
        """Return all of them in order."""
        return (self.convolution, *self.followers)

    @property
    def result(self) -> str:
        """Return the tensor that the last of them makes."""
        return self.nodes[-1].outputs[0]


@dataclass(frozen=True)
class Siblings:
    """Branches in the order of their channels in the joint result. `concat`: the node that reads some of their results, which are its
    first or its last ones; None where none does."""

    branches: tuple[Branch, ...]
    concat: OpNode | None

    @property
    def nodes(self) -> tuple[OpNode, ...]:
        """Return the nodes of all branches."""
        return tuple(n for b in self.branches for n in b.nodes)

    @property
    def exception(self) -> str:
        """Return the name under which they stay apart, as `fuse` takes it."""
        return f"{min(b.convolution.name for b in self.branches)}.siblings"


def join_convolutions(draft: Draft, apart: Collection[str] = ()) -> None:
    """Join convolutions of one image. `apart`: exceptions, by name."""
    for found in find_siblings(draft):
        if found.exception not in apart:
            _replace(draft, found)


def joint_nodes(draft: Draft, found: Siblings) -> list[OpNode]:
    """Return the joint convolution and what is done to its result; their tensors and constants are added to the draft."""
    branches = [b.convolution for b in found.branches]
    first = branches[0]
    weights = [draft.weights[n.inputs[1]] for n in branches]
    constants = [draft.constant(f"{first.inputs[1]}_joined", np.concatenate(weights), draft.tensors[first.inputs[1]].dtype)]
    if given := next((n.inputs[2] for n in branches if len(n.inputs) > 2), ""):
        biases = [draft.weights[n.inputs[2]] if len(n.inputs) > 2 else np.zeros(len(w), draft.weights[given].dtype)
                  for n, w in zip(branches, weights)]
        constants.append(draft.constant(f"{given}_joined", np.concatenate(biases), draft.tensors[given].dtype))
    count, out, read = sum(map(len, weights)), list[OpNode](), first.inputs[0]
    for node in found.branches[0].nodes:
        t = draft.tensors[node.outputs[0]]
        made = draft.tensor(f"{t.name}_joined", t.dtype, (t.shape[0], count, *t.shape[2:]))
        inputs = (read, *constants) if node is first else (read,)
        out.append(replace(node, name=draft.fresh(f"{node.name}_joined", "node"), inputs=inputs, outputs=(made,)))
        read = made
    return out


# ---------------------------------------------------------------- finding

def find_siblings(draft: Draft) -> list[Siblings]:
    """Return the convolutions that may be joined. No node is in two of them, nor a concat."""
    users, makers = draft.users(), draft.producers()
    alike: dict[tuple[object, ...], list[Branch]] = {}
    for node in draft.nodes:
        if node.op == "conv2d" and _is_plain(draft, node):
            b = Branch(node, tuple(_followers(draft, node, users)))
            done = tuple((n.op, n.attributes) for n in b.followers)
            kernel = draft.tensors[node.inputs[1]]
            at = (node.inputs[0], node.attributes, kernel.dtype, kernel.shape[1:], draft.tensors[b.result].dtype, done)
            if b.result not in draft.outputs and users.get(b.result):
                alike.setdefault(at, []).append(b)
    out: list[Siblings] = []
    for branches in alike.values():
        found = _arrange(draft, branches, users, makers) if len(branches) > 1 else None
        if found is not None and not any(found.concat is not None and found.concat is s.concat for s in out):
            out.append(found)
    return out


def _is_plain(draft: Draft, node: OpNode) -> bool:
    """Return whether a node is a convolution of one group in reals, with constant weights, which makes one image of whole blocks."""
    out = draft.tensors[node.outputs[0]]
    constant = all(draft.is_constant(i) for i in node.inputs[1:]) and not draft.is_constant(node.inputs[0])
    whole = len(out.shape) == 4 and out.shape[0] == 1 and 0 not in out.shape and out.shape[CHANNELS] % c0_of(out.dtype) == 0
    return constant and whole and node.attribute("group", 1) == 1 and out.dtype in REALS and out.name not in draft.outputs


def _followers(draft: Draft, node: OpNode, users: Readers) -> Iterator[OpNode]:
    """Yield elementwise operators of one operand, each the only reader of the one before, of one dtype."""
    for _ in range(MOST_FOLLOWERS):
        reader = draft.only_user(node.outputs[0], users)
        if reader is None or family(reader) != "elementwise" or len(reader.inputs) != 1 or reader.definition:
            return
        a, b = (draft.tensors[n.outputs[0]] for n in (node, reader))
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return
        yield reader
        node = reader


def _arrange(draft: Draft, branches: Sequence[Branch], users: Readers, makers: Mapping[str, OpNode]) -> Siblings | None:
    """Return branches that can be joined, in an order in which what concats make lies in one run; None where there are no two."""
    concats = {b.result: {n.name: n for n in users[b.result] if n.op == "concat"} for b in branches}
    free = [b for b in branches if not concats[b.result]]
    candidates = {n.name: n for b in branches if len(concats[b.result]) == 1 for n in concats[b.result].values()}
    for concat in candidates.values():
        joined = [b for b in branches if list(concats[b.result]) == [concat.name]]
        found = _around(draft, concat, joined, free, users, makers)
        if found is not None:
            return found
    found = Siblings(tuple(free), None)
    return found if len(free) > 1 and _lie_in_runs(draft, found) else None


def _around(draft: Draft, concat: OpNode, joined: Sequence[Branch], free: Sequence[Branch], users: Readers,
            makers: Mapping[str, OpNode]) -> Siblings | None:
    """Return the branches that a concat reads at one of its ends, beside those that none reads; None where this is not possible."""
    by_result = {b.result: b for b in joined}
    inside = [name in by_result for name in concat.inputs]
    ends = [e for e in (_run_length(inside), -_run_length(inside[::-1])) if e]
    plain = concat.attribute("axis") == CHANNELS and len(set(concat.inputs)) == len(concat.inputs)
    if not plain or not ends or not _can_move(draft, concat, users):
        return None
    end = max(ends, key=abs)
    at_end = concat.inputs[:end] if end > 0 else concat.inputs[end:]
    others = concat.inputs[end:] if end > 0 else concat.inputs[:end]
    own = [by_result[name] for name in at_end]
    found = Siblings((*free, *own) if end > 0 else (*own, *free), concat)
    fits = all(_can_be_part(draft, name, concat, users, makers) for name in others)
    return found if fits and len(found.branches) > 1 and _lie_in_runs(draft, found) else None


def _run_length(inside: Sequence[bool]) -> int:
    """Return how many are true at the beginning."""
    return next((at for at, x in enumerate(inside) if not x), len(inside))


def _can_move(draft: Draft, concat: OpNode, users: Readers) -> bool:
    """Return whether the result of a concat may be a part of something else: no result of the graph, nor a part of another concat."""
    name = concat.outputs[0]
    return name not in draft.outputs and all(n.op != "concat" for n in users.get(name, []))


def _can_be_part(draft: Draft, name: str, concat: OpNode, users: Readers, makers: Mapping[str, OpNode]) -> bool:
    """Return whether another part of a concat can be made where it belongs: an AI Core makes it, for this concat alone."""
    maker, t = makers.get(name), draft.tensors[name]
    alone = all(n.op != "concat" or n is concat for n in users[name])
    made = maker is not None and family(maker) not in ("host", "view") and maker.op != "slice"
    return alone and made and name not in draft.outputs and t.shape[CHANNELS] % c0_of(t.dtype) == 0


def _lie_in_runs(draft: Draft, found: Siblings) -> bool:
    """Return whether each result, and what a concat makes of some, begins in the joint image where a tensor may."""
    parts = [b.result for b in found.branches]
    joint = _image(draft, parts)
    each = all(is_aligned(joint, box) for box in _boxes(draft, joint, parts))
    if found.concat is None or not each:
        return each
    names, box = _in_whole(draft, found)
    whole = _image(draft, names)
    return is_aligned(whole, box) and all(is_aligned(whole, b) for b in _boxes(draft, whole, names))


def _image(draft: Draft, names: Sequence[str]) -> Tensor:
    """Return the image in NC1HWC0 that has the channels of several."""
    t = draft.tensors[names[0]]
    return replace(t, layout=FIVE, shape=(t.shape[0], sum(draft.tensors[n].shape[CHANNELS] for n in names), *t.shape[2:]))


def _boxes(draft: Draft, whole: Tensor, names: Sequence[str]) -> list[tuple[tuple[int, int], ...]]:
    """Return which box of an image each of the tensors is that it has the channels of."""
    counts = [draft.tensors[n].shape[CHANNELS] for n in names]
    return [_box(whole, at, count) for at, count in zip(accumulate(counts, initial=0), counts)]


def _box(whole: Tensor, at: int, count: int) -> tuple[tuple[int, int], ...]:
    """Return some channels of an image as a box."""
    return tuple((at, count) if axis == CHANNELS else (0, n) for axis, n in enumerate(whole.shape))


def _in_whole(draft: Draft, found: Siblings) -> tuple[list[str], tuple[tuple[int, int], ...]]:
    """Return (the tensors of the image that holds all branches and the other parts of their concat, the concat's result as a box of it)."""
    assert found.concat is not None
    parts, inputs = [b.result for b in found.branches], list(found.concat.inputs)
    others = [name for name in inputs if name not in parts]
    first = inputs[0] in parts
    names = [*parts, *others] if first else [*others, *parts]
    whole, count = _image(draft, names), _image(draft, inputs).shape[CHANNELS]
    return names, _box(whole, whole.shape[CHANNELS] - count if first else 0, count)


# ---------------------------------------------------------------- replacing

def _replace(draft: Draft, found: Siblings) -> None:
    """Replace branches by the joint convolution and slices of its result, and their concat by a slice of what holds all of them."""
    joint = joint_nodes(draft, found)
    made = joint[-1].outputs[0]
    parts = [b.result for b in found.branches]
    slices = [_slice(draft, made, box, name) for name, box in zip(parts, _boxes(draft, _image(draft, parts), parts))]
    gone = {n.name for n in found.nodes}
    first = next(n.name for n in draft.nodes if n.name in gone)
    nodes, draft.nodes = draft.nodes, []
    for node in nodes:
        if node.name == first:
            draft.nodes += [*joint, *slices]
        elif found.concat is not None and node.name == found.concat.name:
            draft.nodes += _concat(draft, found, made)
        elif node.name not in gone:
            draft.nodes.append(node)


def _concat(draft: Draft, found: Siblings, joint: str) -> list[OpNode]:
    """Return a concat of the joint result with the other parts, and the slice of it that the concat of a network makes."""
    assert found.concat is not None
    (out,), parts = found.concat.outputs, [b.result for b in found.branches]
    names, box = _in_whole(draft, found)
    others = [name for name in names if name not in parts]
    if not others:
        return [_slice(draft, joint, box, out)]
    whole = _image(draft, names)
    made = draft.tensor(f"{out}_joined", whole.dtype, whole.shape)
    inputs = [joint, *others] if names[0] in parts else [*others, joint]
    node = draft.node("concat", inputs, made, dict(found.concat.attributes), found.concat.name)
    return [node, _slice(draft, made, box, out)]


def _slice(draft: Draft, source: str, box: tuple[tuple[int, int], ...], name: str) -> OpNode:
    """Return the node that makes a tensor of a box of another."""
    starts, sizes = (tuple(ends) for ends in zip(*box))
    return draft.node("slice", [source], name, {"starts": starts, "sizes": sizes, "steps": (1,) * len(box)}, f"slice_{name}")
