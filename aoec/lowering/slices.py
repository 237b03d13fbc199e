"""Slices: groups that follow each other run for one part of their results after the other, so that what lies between them stays in L2.

A region's nodes stand in the graph once for each slice, in groups named after it (`g3_1of4`). What it reads of tensors from before it are
views (`slice`), and what is read of it later is joined by views too (`concat`): a slice of a result is written where it belongs. Parts are
equal, or as even as whole images (or texts) allow, and each that is a view lies in one run in GM. Which part of its arguments a node needs
follows from its meaning (`ops/slices.py`).
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from aoec.base.errors import UnsupportedError
from aoec.ir.draft import Draft
from aoec.ir.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.ops.layout import BLOCK_BYTES, PIXEL, stored_shape
from aoec.ops.slices import Box, nth, part_of, sizes, start_of, uneven, whole

ALIGN_BYTES = 512  # at which parts begin in GM, as tensors do (asc-devkit, of transfers on 2201); shorter ones at a block


@dataclass(frozen=True)
class Region:
    """The groups from `first` to `last`, in order, that run in `slices` parts."""

    first: str
    last: str
    slices: int


def sliced(graph: Graph, regions: Sequence[Region]) -> Graph:
    """The fused graph with these regions in slices. UnsupportedError where one cannot run so, with the reason."""
    for region in regions:
        graph = _sliced(graph, *_ends(graph, region), region.slices)
    return graph


def batch(graph: Graph) -> int:
    """How many images (or texts, ...) a model takes at once, as far as its inputs tell: what their first axes have in common."""
    shapes = [t.shape for t in graph.tensors if t.name in graph.inputs and t.shape]
    return gcd(*(s[0] for s in shapes)) or 1


def in_slices(graph: Graph) -> bool:
    """Whether groups of a graph run in slices."""
    views = {name for g in graph.groups if g.kind == "view" for name in g.nodes}
    return any(n.op in ("slice", "concat") and n.name in views for n in graph.nodes)


def _ends(graph: Graph, region: Region) -> tuple[int, int]:
    """Where the groups of a region stand; UnsupportedError where there are none."""
    at = {g.name: i for i, g in enumerate(graph.groups)}
    for name in (region.first, region.last):
        if name not in at:
            raise UnsupportedError(f"slices: there is no group {name}; graph {graph.name} has {', '.join(list(at)[:12])}"
                                   f"{', ...' * (len(at) > 12)}")
    if graph.bodies:
        raise UnsupportedError(f"slices: graph {graph.name} has control flow with bodies, which is not sliced")
    if at[region.first] > at[region.last] or region.slices < 2:
        raise UnsupportedError(f"slices: {region.first}..{region.last} in {region.slices} is no region: it is from a group to itself or a "
                               "later one, in 2 slices or more")
    return at[region.first], at[region.last]


def _sliced(graph: Graph, first: int, last: int, slices: int) -> Graph:
    cut = Cut(graph, first, last, slices)
    parts = [part for at in range(slices) for part in cut.slice(at)]
    views, joins = [*cut.views], [n for name in cut.results for n in cut.joined(name)]
    groups = [*graph.groups[:first]]
    if views:
        groups.append(Group(cut.draft.fresh(f"{graph.groups[first].name}_parts", "group"), "view", tuple(n.name for n in views)))
    groups += [g for g, _ in parts]
    if joins:
        groups.append(Group(cut.draft.fresh(f"{graph.groups[last].name}_joined", "group"), "view", tuple(n.name for n in joins)))
    made = {n.name: n for n in (*graph.nodes, *views, *joins, *(n for _, own in parts for n in own))}
    nodes = tuple(made[name] for g in (*groups, *graph.groups[last + 1:]) for name in g.nodes)
    used = dict.fromkeys([*graph.inputs, *(t for n in nodes for t in (*n.inputs, *n.outputs) if t), *graph.outputs])
    return replace(graph, tensors=tuple(cut.draft.tensors[t] for t in used), nodes=nodes, groups=(*groups, *graph.groups[last + 1:]))


class Cut:
    """A region while it is cut. UnsupportedError, wherever it is noticed, where it cannot be."""

    def __init__(self, graph: Graph, first: int, last: int, slices: int) -> None:
        self.draft, self.slices, self.groups, self.units = Draft.of(graph, {}), slices, graph.groups[first:last + 1], batch(graph)
        self.draft.reserve([g.name for g in graph.groups], "group")
        nodes = {n.name: n for n in graph.nodes}
        self.nodes = {g.name: [nodes[name] for name in g.nodes] for g in self.groups}
        own = {name for g in self.groups for name in g.nodes}
        self.made = {o for name in own for o in nodes[name].outputs}
        read = {i for n in graph.nodes if n.name not in own for i in n.inputs} | set(graph.outputs)
        self.results = [o for g in self.groups for n in self.nodes[g.name] for o in n.outputs if o in read]
        self.views: list[OpNode] = []
        self.parts: dict[tuple[str, Box], str] = {}  # of a tensor from before the region -> the view
        self.of: dict[tuple[str, int], str] = {}  # a tensor that the region makes, and the slice -> its part
        for name in self.results:
            self.lies(name, self.share(name, slices - 1))

    def share(self, name: str, at: int) -> Box:
        """The part of a tensor that a slice makes."""
        box = nth(self.draft.tensors[name].shape, at, self.slices, self.units)
        if box is None:
            how = f"{self.slices} parts of whole images" if uneven(self.slices, self.units) else f"{self.slices} equal parts"
            raise UnsupportedError(f"slices: {name} of shape {list(self.draft.tensors[name].shape)} has no {how} that lie in one run each")
        return box

    def slice(self, at: int) -> Iterator[tuple[Group, list[OpNode]]]:
        """The groups of one slice, with their nodes."""
        mark = f"_{at + 1}of{self.slices}"
        for g in self.groups:
            if g.kind == "host":
                raise UnsupportedError(f"slices: group {g.name} runs on the host, which is not sliced")
            nodes = [self.node(n, at, mark) for n in self.nodes[g.name]]
            yield Group(self.draft.fresh(g.name + mark, "group"), g.kind, tuple(n.name for n in nodes)), nodes

    def node(self, node: OpNode, at: int, mark: str) -> OpNode:
        """The node of a slice."""
        tensors, result = self.draft.tensors, node.outputs[0]
        box = self.share(result, at)
        part = part_of(node, [tensors[i].shape if i else None for i in node.inputs], tensors[result].shape, box)
        if part is None:
            raise UnsupportedError(f"slices: node {node.name} ({node.op}) cannot be cut into {self.slices}: {result} of shape "
                                   f"{list(tensors[result].shape)} takes more than slices of what it is made of")
        inputs = tuple(self.input(node, i, b, at) if i and b is not None else "" for i, b in zip(node.inputs, part.boxes))
        self.of[result, at] = self.draft.fresh(result + mark)
        self.draft.put(replace(tensors[result], name=self.of[result, at], shape=sizes(box)))
        return replace(part.node, name=self.draft.fresh(node.name + mark, "node"), inputs=inputs, outputs=(self.of[result, at],))

    def input(self, node: OpNode, name: str, box: Box, at: int) -> str:
        """What a slice of a node reads in place of a tensor."""
        t = self.draft.tensors[name]
        if name in self.made:
            if box != self.share(name, at):
                raise UnsupportedError(f"slices: node {node.name} ({node.op}) reads more of {name} than one slice of {self.slices} makes")
            return self.of[name, at]
        if box == whole(t.shape):
            return name
        if (name, box) not in self.parts:
            self.lies(name, box)
            self.parts[name, box] = self.view(name, box, f"{name}_{at + 1}of{self.slices}")
        return self.parts[name, box]

    def view(self, name: str, box: Box, label: str) -> str:
        """The name of a part of a tensor from before the region, which a new node views."""
        t, part = self.draft.tensors[name], self.draft.fresh(label)
        self.draft.put(replace(t, name=part, shape=sizes(box), data=""))
        given = {"starts": tuple(at for at, _ in box), "sizes": sizes(box), "steps": (1,) * len(box)}
        self.views.append(self.draft.node("slice", [name], part, given, part))
        return part

    def lies(self, name: str, box: Box) -> None:
        """Nothing, or UnsupportedError where a part is no view."""
        t = self.draft.tensors[name]
        if not aligned(t, box):
            raise UnsupportedError(f"slices: the part of {name} ({t.dtype}{list(t.shape)} {t.layout}) of a slice of {self.slices} does not "
                                   f"begin at a multiple of {unit_bytes(t, box)} bytes, or does not lie in one run")

    def cut_axis(self, name: str) -> int:
        """The axis that uneven parts of a result share; UnsupportedError where they are cut along several."""
        shape, boxes = self.draft.tensors[name].shape, [self.share(name, at) for at in range(self.slices)]
        axes = {axis for box in boxes for axis, (_, n) in enumerate(box) if n != shape[axis]}
        if len(axes) > 1:
            raise UnsupportedError(f"slices: {name} of shape {list(shape)} has no {self.slices} parts of whole images along one axis")
        return axes.pop()

    def joined(self, name: str) -> list[OpNode]:
        """The nodes, views, that join the parts of a result."""
        t = self.draft.tensors[name]
        parts = [self.of[name, at] for at in range(self.slices)]
        if uneven(self.slices, self.units):
            return [self.draft.node("concat", parts, name, {"axis": self.cut_axis(name)}, f"{name}_joined")]
        axis = max(axis for axis, (_, n) in enumerate(self.share(name, 0)) if n != t.shape[axis])
        out: list[OpNode] = []
        while True:
            shape = self.draft.tensors[parts[0]].shape
            while axis and t.shape[axis] == shape[axis]:
                axis -= 1
            each = t.shape[axis] // shape[axis]
            if each == len(parts):
                return [*out, self.draft.node("concat", parts, name, {"axis": axis}, f"{name}_joined")]
            wider = (*shape[:axis], t.shape[axis], *shape[axis + 1:])
            rows = [parts[i:i + each] for i in range(0, len(parts), each)]
            parts = [self.draft.fresh(f"{name}_joined") for _ in rows]
            for part in parts:
                self.draft.put(replace(t, name=part, shape=wider))
            out += [self.draft.node("concat", row, part, {"axis": axis}, part) for row, part in zip(rows, parts)]


def aligned(t: Tensor, box: Box | None) -> bool:
    """Whether a part of a tensor lies in one run that begins as a tensor does."""
    start = None if box is None else offset_bytes(t, box)
    return box is not None and start is not None and start % unit_bytes(t, box) == 0


def unit_bytes(t: Tensor, box: Box) -> int:
    """At which multiples a part begins in GM."""
    return ALIGN_BYTES if prod(sizes(box)) * DTYPES[t.dtype] >= ALIGN_BYTES else BLOCK_BYTES


def offset_bytes(t: Tensor, box: Box) -> int | None:
    """Where a part of a tensor begins in GM; None where it does not lie in one run."""
    lead = len(t.shape) if t.layout == "ND" else 1 if t.layout in PIXEL else len(t.shape) - 2
    if box[lead:] != whole(t.shape)[lead:] or start_of(t.shape, box) is None:
        return None
    stored = stored_shape(t)
    return sum(at * prod(stored[axis + 1:]) for axis, (at, _) in enumerate(box[:lead])) * DTYPES[t.dtype]


def places(graph: Graph) -> Mapping[str, tuple[str, int]]:
    """Tensor -> (tensor in whose bytes it lies, byte at which it begins), of all that views make or join; others lie in their own.

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
    """The byte at which the view of a part begins."""
    starts, count, steps = (node.attribute(name) for name in ("starts", "sizes", "steps"))
    assert isinstance(starts, tuple) and isinstance(count, tuple) and isinstance(steps, tuple)
    box = tuple((int(a), int(n)) for a, n in zip(starts, count))
    found = None if set(steps) - {1} else offset_bytes(tensors[node.inputs[0]], box)
    if found is None:
        raise UnsupportedError(f"node {node.name} is in a group of kind view, and what it takes does not lie in one run")
    return found


def _starts(node: OpNode, tensors: Mapping[str, Tensor], given: Sequence[str]) -> list[int]:
    """The bytes at which the parts begin that are joined, none of which is `given`."""
    result, axis, out, at = tensors[node.outputs[0]], node.attribute("axis"), [], 0
    assert isinstance(axis, int)
    for i in node.inputs:
        box = tuple((at, tensors[i].shape[axis]) if a == axis else (0, n) for a, n in enumerate(result.shape))
        found, at = offset_bytes(result, box), at + tensors[i].shape[axis]
        if found is None or tensors[i].data or i in given:
            raise UnsupportedError(f"node {node.name} is in a group of kind view, and {i} cannot lie in what it joins")
        out.append(found)
    return out
