"""Concats of slices: which of them are one group, and which pieces of other tensors make up their result.

Exporters write a roll as two slices and a concat for each axis. They write the padding of an image with its own pixels in the same way,
and use a slice for each block of pixels that become channels (patch merging, Focus). A slice alone is a launch, and writes a tensor that
the next launch reads. In one group, each piece is copied directly from its source to its place in the result.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from aoec.ir.func.narrow import MOST
from aoec.ir.graph.draft import Draft
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import DTYPES
from aoec.lowering.arrange.layout import family
from aoec.lowering.arrange.views import lies_in_run
from aoec.lowering.lower.movement.turn_moves import turned_axes
from aoec.lowering.lower.movement.turn_reads import TURNED

MOST_NODES = 32  # of one group
MOST_COLUMNS = 256  # of what is turned, brought by pieces: no more are in UB at once
PLACE_BYTES = 512  # between one index and the next of an axis along which places are found index by index


@dataclass(frozen=True)
class Walk:
    """Along one axis: elements `to`, `to` + 1, ... of the result are those at `start`, `start` + `step`, ... of a tensor."""

    to: int
    count: int
    start: int
    step: int = 1

    def slice(self, start: int, count: int, step: int, to: int) -> Walk | None:
        """Return what a slice leaves of the walk, in a result where the slice begins at `to`; None where it leaves nothing."""
        ends = sorted((self.to - start, self.to + self.count - 1 - start))
        low, high = (-(ends[0] // -step), ends[1] // step) if step > 0 else (-(ends[1] // -step), ends[0] // step)
        low, high = max(low, 0), min(high, count - 1)
        if low > high:
            return None
        kept = high - low + 1
        return Walk(to + low, kept, self.start + self.step * (start + step * low - self.to), self.step * step if kept > 1 else 1)


@dataclass(frozen=True)
class Piece:
    """A box of the result, and the elements of a tensor that it is made of: a walk for each axis."""

    source: str
    walks: tuple[Walk, ...]


# ---------------------------------------------------------------- composing

def pieces_of(nodes: Sequence[OpNode], shapes: Mapping[str, Sequence[int]]) -> list[Piece]:
    """Return the pieces of the result of the last of some slices and concats, in order; each is of a tensor that none of them makes."""
    known: dict[str, list[Piece]] = {}
    for node in nodes:
        parts = [known.get(i) or [_whole_piece(i, shapes[i])] for i in node.inputs]
        known[node.outputs[0]] = list(_slice_pieces(node, parts[0]) if node.op == "slice" else _side_by_side(node, parts, shapes))
    return known[nodes[-1].outputs[0]]


def _whole_piece(name: str, shape: Sequence[int]) -> Piece:
    return Piece(name, tuple(Walk(0, n, 0) for n in shape))


def _slice_pieces(node: OpNode, pieces: Sequence[Piece]) -> Iterator[Piece]:
    starts, counts, steps = ([int(v) for v in value] for name in ("starts", "sizes", "steps")  # type: ignore[arg-type]
                             if isinstance(value := node.attribute(name), tuple))
    for p in pieces:
        walks = [w.slice(start, count, step, 0) for w, start, count, step in zip(p.walks, starts, counts, steps)]
        kept = [w for w in walks if w is not None]
        if len(kept) == len(walks):
            yield Piece(p.source, tuple(kept))


def _side_by_side(node: OpNode, parts: Sequence[Sequence[Piece]], shapes: Mapping[str, Sequence[int]]) -> Iterator[Piece]:
    axis, at = axis_of(node), 0
    for name, pieces in zip(node.inputs, parts):
        for p in pieces:
            w = p.walks[axis]
            yield Piece(p.source, (*p.walks[:axis], Walk(w.to + at, w.count, w.start, w.step), *p.walks[axis + 1:]))
        at += shapes[name][axis]


def axis_of(node: OpNode) -> int:
    """Return the axis of a concat."""
    axis = node.attribute("axis")
    assert isinstance(axis, int)
    return axis


# ---------------------------------------------------------------- simplifying

def joined_axes(pieces: Sequence[Piece], shapes: Mapping[str, tuple[int, ...]], result: tuple[int, ...],
                ) -> tuple[list[Piece], dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Return pieces, shapes and the result's shape with neighbouring axes merged. Two axes are merged where all pieces walk the second
    whole, and the first in steps of one. Axes of one element are removed too."""
    at = next((a for a in range(len(result) - 2, -1, -1) if _joins(pieces, shapes, result, a)), None)
    if at is None:
        return list(pieces), dict(shapes), result
    each = result[at + 1]

    def one(w: Walk) -> Walk:
        return Walk(w.to * each, w.count * each, w.start * each)

    def shape(s: tuple[int, ...]) -> tuple[int, ...]:
        return (*s[:at], s[at] * s[at + 1], *s[at + 2:])
    return joined_axes([Piece(p.source, (*p.walks[:at], one(p.walks[at]), *p.walks[at + 2:])) for p in pieces],
                       {name: shape(s) for name, s in shapes.items()}, shape(result))


def _joins(pieces: Sequence[Piece], shapes: Mapping[str, tuple[int, ...]], result: tuple[int, ...], at: int) -> bool:
    return all(p.walks[at].step == 1 and p.walks[at + 1] == Walk(0, n, 0) and result[at + 1] == n
               for p in pieces for n in [shapes[p.source][at + 1]])


def places(pieces: Sequence[Piece], result: tuple[int, ...], size: int, least: int) -> tuple[list[Piece], dict[int, list[Walk]]]:
    """Return (pieces, axis -> the walks along it).

    Some axes are cut in the same way whatever the others do. These are taken off the pieces, except the last axis that is cut, where at
    least `least` bytes lie between one index and the next. Each index along them is then calculated where it is needed."""
    out, along = list(pieces), dict[int, list[Walk]]()
    cut = [a for a, n in enumerate(result) if any(p.walks[a] != Walk(0, n, 0) for p in pieces)]
    for a in cut[:-1]:
        by_walk: dict[Walk, set[Piece]] = {}
        for p in out:
            by_walk.setdefault(p.walks[a], set()).add(_without(p, a, result))
        if prod(result[a + 1:]) * size >= least and len({frozenset(rest) for rest in by_walk.values()}) == 1:
            along[a] = sorted(by_walk, key=lambda w: w.to)
            out = list(dict.fromkeys(_without(p, a, result) for p in out))
    return out, along


def _without(p: Piece, axis: int, result: tuple[int, ...]) -> Piece:
    return Piece(p.source, (*p.walks[:axis], Walk(0, result[axis], 0), *p.walks[axis + 1:]))


@dataclass(frozen=True)
class Laid:
    """Pieces as they are moved, of tensors and a result with axes made one; `along` an axis of which each index is found where it is
    needed, where these lie."""

    pieces: tuple[Piece, ...]
    shapes: Mapping[str, tuple[int, ...]]
    result: tuple[int, ...]
    along: Mapping[int, Sequence[Walk]]

    @property
    def has_core_axis(self) -> bool:
        """Return whether there is an axis for cores to share: one that all pieces walk whole, one of places, or the only one."""
        return len(self.result) == 1 or any(map(self.walks_whole, range(len(self.result))))

    def walks_whole(self, axis: int) -> bool:
        """Return whether all pieces walk an axis of the result from its first index to its last."""
        return all((p.walks[axis].to, p.walks[axis].count) == (0, self.result[axis]) for p in self.pieces)


def laid_out(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> Laid:
    """Return what the last of some slices and concats moves, in as few axes and pieces as say it."""
    shapes = {t.name: t.shape for n in nodes for name in (*n.inputs, *n.outputs) for t in [tensors[name]]}
    out = tensors[nodes[-1].outputs[0]]
    pieces, shapes, result = joined_axes(pieces_of(nodes, shapes), shapes, out.shape)
    laid = Laid(tuple(pieces), shapes, result, {})
    for least in (PLACE_BYTES, 0):
        kept, along = places(pieces, result, DTYPES[out.dtype], least)
        laid = Laid(tuple(kept), shapes, result, along)
        if laid.has_core_axis:
            break
    return laid


@dataclass(frozen=True)
class Turned:
    """Pieces whose whole is turned: rows of a matrix, or of several, become columns. `axes`: those of the whole, joined, in the order of
    the result: pieces lie behind each other along the last one. `order`: the same in the order of the whole."""

    pieces: tuple[Piece, ...]
    axes: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]


def turn_pieces(nodes: Sequence[OpNode], tensors: Mapping[str, Tensor]) -> Turned | None:
    """Return the pieces of some slices and concats that a transpose, the last of the nodes, turns; None where a program does not bring
    each to where it belongs among the rows that it turns."""
    *moves, last = nodes
    shapes = {t: tensors[t].shape for n in nodes for t in (*n.inputs, *n.outputs)}
    whole, perm = shapes[last.inputs[0]], tuple(int(a) for a in last.attribute("perm", ()))  # type: ignore[union-attr, arg-type]
    axes = turned_axes(whole, perm)
    if len(axes) < 2 or tensors[last.inputs[0]].dtype not in TURNED:
        return None
    order = tuple(sorted(range(len(axes)), key=lambda g: axes[g][0]))
    pieces = pieces_of(moves, shapes)
    columns, count = axes[-1][0], prod(whole[a] for a in axes[-1])
    alike = all(p.walks[a] == Walk(0, n, 0) and shapes[p.source][a] == n for p in pieces for a, n in enumerate(whole) if a != columns)
    forwards = all(p.walks[columns].step == 1 for p in pieces) and len(axes[-1]) == 1
    fits = MOST <= count <= MOST_COLUMNS and len(pieces) <= MOST_NODES and order[-1] != len(axes) - 1
    return Turned(tuple(pieces), tuple(map(tuple, axes)), order) if alike and forwards and fits else None


# ---------------------------------------------------------------- finding

def find_pieces(draft: Draft, most: int, inside: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the name of a node -> the nodes that are one group with it, in order, itself the last.

    A group is a concat, slices before it, and concats whose result only these read, perhaps with the transpose that alone reads its
    result. A program has a slot in UB, and so a flag from pipe to pipe, for each of at most `most` pieces. `inside`: nodes that are in
    another group."""
    makers, users = draft.producers(), draft.users()
    order = {n.name: at for at, n in enumerate(draft.nodes)}
    out: dict[str, tuple[str, ...]] = {}
    taken_by: set[str] = set()
    for node in reversed(draft.nodes):
        if node.op != "concat" or node.name in taken_by:
            continue
        for nested in (True, False):
            found = sorted(_reaching(draft, node, makers, users, nested), key=lambda n: order[n.name])
            turn = draft.only_user(node.outputs[0], users)
            if found and turn is not None and turn.name not in inside and _is_turned(draft, found, turn):
                out[turn.name] = tuple(n.name for n in (*found, turn))
                taken_by.update(out[turn.name])
                break
            if len(found) > 1 and _pays(draft, found, makers) and _moves(draft, found, most):
                out[node.name] = tuple(n.name for n in found)
                taken_by.update(out[node.name])
                break
    return out


def _reaching(draft: Draft, last: OpNode, makers: Mapping[str, OpNode], users: Mapping[str, list[OpNode]],
              nested: bool) -> list[OpNode]:
    """Return a concat with the slices whose results nobody else reads and, where they are `nested`, such concats before it."""
    names, found, grown = {last.name}, [last], True
    while grown and len(found) <= MOST_NODES:
        grown = False
        for name in [i for n in found for i in n.inputs]:
            maker = makers.get(name)
            if maker is None or maker.name in names or maker.op != "slice" and (maker.op != "concat" or not nested):
                continue
            if name not in draft.outputs and all(u.name in names for u in users[name]):
                names.add(maker.name)
                found.append(maker)
                grown = True
    plain = all(draft.tensors[t].layout == "ND" and 0 not in draft.tensors[t].shape for n in found for t in (*n.inputs, *n.outputs))
    return found if plain and len(found) <= MOST_NODES else []


def _is_turned(draft: Draft, nodes: Sequence[OpNode], turn: OpNode) -> bool:
    """Return whether a transpose of a concat's result can load the pieces itself. None of the pieces may be one that its maker could
    have written in place."""
    plain = turn.op == "transpose" and draft.tensors[turn.outputs[0]].layout == "ND"
    return plain and not any(lies_in_run(draft.tensors, nodes[-1])) and turn_pieces([*nodes, turn], draft.tensors) is not None


def _pays(draft: Draft, nodes: Sequence[OpNode], makers: Mapping[str, OpNode]) -> bool:
    """Return whether the group copies nothing that its maker could have written in place. A tensor that a concat reads as it is must be
    read by a slice too, or be unable to lie in another tensor. It is unable to where the AI Core does not make it, or where no part of
    the last concat lies in one run."""
    made = {n.outputs[0] for n in nodes}
    sliced = {n.inputs[0] for n in nodes if n.op == "slice"}
    direct = {i for n in nodes if n.op == "concat" for i in n.inputs} - made - sliced
    if bool(sliced) and not any(lies_in_run(draft.tensors, nodes[-1])):
        return True
    return bool(sliced) and not any(name in makers and name not in draft.outputs and family(makers[name]) != "host" for name in direct)


def _moves(draft: Draft, nodes: Sequence[OpNode], most: int) -> bool:
    """Return whether a program moves the pieces: not too many, and rows of each in runs."""
    laid = laid_out(nodes, draft.tensors)
    return laid.has_core_axis and len(laid.pieces) <= most and all(p.walks[-1].step == 1 for p in laid.pieces)
