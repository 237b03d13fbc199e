"""Slices: consecutive groups run for one part of their results at a time, so that the tensors between them stay in L2.

The graph has the nodes of a region once for each slice, in groups named after the region's groups (`g3_1of4`). A slice reads tensors
from before the region through views (`slice`). Its results are joined by views too (`concat`), so each is written directly to its place.
Parts are equal, or as even as whole images (or texts) allow. Each part that is a view is contiguous in GM. The meaning of a node tells
which part of its arguments it needs (`ops/slices.py`), and along which axis the images of a tensor lie. One product may make queries,
keys and values one after the other; each of the three then has its own images.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd

from aoec.base.errors import UnsupportedError
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.lowering.arrange.views import is_aligned, unit_bytes
from aoec.ops.slices import Box, nth, part_of, sizes, taking, uneven, whole_box
from aoec.ops.words.layout import PIXEL

PIECE = re.compile(r"(.+)_([0-9]+)of([0-9]+)")  # the name of a group that is a slice: the whole group's, which one, of how many


@dataclass(frozen=True)
class Region:
    """The groups from `first` to `last`, in order, that run in `slices` parts."""

    first: str
    last: str
    slices: int


def slice_graph(graph: Graph, regions: Sequence[Region]) -> Graph:
    """Slice these regions of the fused graph. Raise UnsupportedError, with the reason, where one cannot run in slices."""
    shares = Shares(graph)
    for region in regions:
        graph = _slice_region(graph, *_ends(graph, region), region.slices, shares)
    return graph


def batch(graph: Graph) -> int:
    """Return how many images (or texts, ...) a model takes at once, as far as its inputs tell: what their first axes have in common."""
    shapes = [t.shape for t in graph.tensors if t.name in graph.inputs and t.shape]
    return gcd(*(s[0] for s in shapes)) or 1


class Shares:
    """Which part of each tensor a slice makes: its images along the axis on which they lie, within it the elements in row-major order."""

    def __init__(self, graph: Graph) -> None:
        self.units, self.shapes = batch(graph), {t.name: t.shape for t in graph.tensors}
        self.axes: dict[str, int] = {}  # of tensors whose images are known to lie so
        if self.units > 1 and not graph.bodies:
            self.axes = {name: 0 for name in graph.inputs if self.shapes[name]}
            for n in graph.nodes:
                if any(i in self.axes for i in n.inputs):
                    self.axes |= {o: axis for o in n.outputs if (axis := self._image_axis(n)) is not None}

    def share(self, name: str, at: int, of: int) -> Box | None:
        """Return the part number `at`, from 0, of `of`; None where it is no box."""
        return self._share_along(name, self.axes.get(name, 0), at, of)

    def _share_along(self, name: str, axis: int, at: int, of: int) -> Box | None:
        shape = self.shapes[name]
        inner = nth(shape[axis:], at, of, self.units)
        return None if inner is None else (*whole_box(shape[:axis]), *inner)

    def _image_axis(self, node: OpNode) -> int | None:
        """Return the first axis of a node's result along which an image of it needs the same image of each argument that has some."""
        if len(node.outputs) != 1:
            return None
        result, last = self.shapes[node.outputs[0]], self.units - 1
        for axis, n in enumerate(result):
            box = self._share_along(node.outputs[0], axis, last, self.units) if n > 1 else None
            part = box and part_of(node, [self.shapes[i] if i else None for i in node.inputs], result, box)
            if part and all(b == self.share(i, last, self.units) for i, b in zip(node.inputs, part.boxes) if i in self.axes):
                return axis
        return None


def in_slices(graph: Graph) -> bool:
    """Return whether groups of a graph run in slices."""
    return bool(pieces(graph))


def pieces(graph: Graph) -> dict[str, tuple[str, int, int]]:
    """Return the groups of a graph that are slices -> (the whole group's name, which slice it is, from 1, of how many)."""
    views = {name for g in graph.groups if g.kind == "view" for name in g.nodes}
    if not any(n.op in ("slice", "concat") and n.name in views for n in graph.nodes):  # others may be named so by whoever wrote the graph
        return {}
    found = ((g.name, PIECE.fullmatch(g.name)) for g in graph.groups)
    return {name: (m[1], int(m[2]), int(m[3])) for name, m in found if m}


def _ends(graph: Graph, region: Region) -> tuple[int, int]:
    """Return where the groups of a region stand; UnsupportedError where there are none."""
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


def _slice_region(graph: Graph, first: int, last: int, slices: int, shares: Shares) -> Graph:
    cut = Cut(graph, first, last, slices, shares)
    parts = [part for at in range(slices) for part in cut.slice(at)]
    views, joins = [*cut.views], [n for name in cut.results for n in cut.join_parts(name)]
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

    def __init__(self, graph: Graph, first: int, last: int, slices: int, shares: Shares) -> None:
        self.draft, self.slices, self.groups, self.shares = Draft.of(graph, {}), slices, graph.groups[first:last + 1], shares
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
        """Return the part of a tensor that a slice makes."""
        box = self.shares.share(name, at, self.slices)
        if box is None:
            how = f"{self.slices} parts of whole images" if uneven(self.slices, self.shares.units) else f"{self.slices} equal parts"
            raise UnsupportedError(f"slices: {name} of shape {list(self.draft.tensors[name].shape)} has no {how} that lie in one run each")
        return box

    def slice(self, at: int) -> Iterator[tuple[Group, list[OpNode]]]:
        """Yield the groups of one slice, with their nodes."""
        mark = f"_{at + 1}of{self.slices}"
        for g in self.groups:
            if g.kind == "host":
                raise UnsupportedError(f"slices: group {g.name} runs on the host, which is not sliced")
            nodes = [self.node(n, at, mark) for n in self.nodes[g.name]]
            yield Group(self.draft.fresh(g.name + mark, "group"), g.kind, tuple(n.name for n in nodes)), nodes

    def node(self, node: OpNode, at: int, mark: str) -> OpNode:
        """Return the node of a slice."""
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
        """Return what a slice of a node reads in place of a tensor."""
        t = self.draft.tensors[name]
        if name in self.made:
            if box != self.share(name, at):
                raise UnsupportedError(f"slices: node {node.name} ({node.op}) reads more of {name} than one slice of {self.slices} makes")
            return self.of[name, at]
        if box == whole_box(t.shape):
            return name
        if (name, box) not in self.parts:
            self.lies(name, box)
            self.parts[name, box] = self.view(name, box, f"{name}_{at + 1}of{self.slices}")
        return self.parts[name, box]

    def view(self, name: str, box: Box, label: str) -> str:
        """Return the name of a part of a tensor from before the region, which a new node views."""
        t, part = self.draft.tensors[name], self.draft.fresh(label)
        self.draft.put(replace(t, name=part, shape=sizes(box), data=""))
        self.views.append(self.draft.node("slice", [name], part, taking(box), part))
        return part

    def lies(self, name: str, box: Box) -> None:
        """Raise UnsupportedError where a part is no view."""
        t = self.draft.tensors[name]
        if not sliceable(t, box):
            raise UnsupportedError(f"slices: the part of {name} ({t.dtype}{list(t.shape)} {t.layout}) of a slice of {self.slices} does not "
                                   f"begin at a multiple of {unit_bytes(t, box)} bytes, or does not lie in one run")

    def cut_axis(self, name: str) -> int:
        """Return the axis that uneven parts of a result share; UnsupportedError where they are cut along several."""
        shape, boxes = self.draft.tensors[name].shape, [self.share(name, at) for at in range(self.slices)]
        axes = {axis for box in boxes for axis, (_, n) in enumerate(box) if n != shape[axis]}
        if len(axes) > 1:
            raise UnsupportedError(f"slices: {name} of shape {list(shape)} has no {self.slices} parts of whole images along one axis")
        return axes.pop()

    def join_parts(self, name: str) -> list[OpNode]:
        """Return the nodes, all views, that join the parts of a result."""
        t = self.draft.tensors[name]
        parts = [self.of[name, at] for at in range(self.slices)]
        if uneven(self.slices, self.shares.units):
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


def sliceable(t: Tensor, box: Box | None) -> bool:
    """Return whether a part of a tensor can be a slice of it: it lies in one run that begins as a tensor does, and images in it are
    whole."""
    return box is not None and is_aligned(t, box) and (t.layout not in PIXEL or box[1:] == whole_box(t.shape)[1:])
