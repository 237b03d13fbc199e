"""Slices: what a part of a result needs of the arguments, and the node that makes that part.

They follow from another reading of index notation. An axis can be cut where a loop of its own indexes it, in the result and in all that is
read alike. This loop must be in no sum, number or longer index.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from aoec.base.errors import CheckError
from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.graph.graph import Attribute, OpNode
from aoec.ir.index import Expr, Int, Read, Var, children, normalise, substitute
from aoec.ops.declare import Shape
from aoec.ops.host.host import PREFIX
from aoec.ops.meanings import meaning
from aoec.ops.own import extents, word

Box = tuple[tuple[int, int], ...]  # (start, size) along each axis
Range = tuple[int, int] | None  # along one axis; None: all of it
EXTENTS = {"reshape": "shape", "expand": "shape", "slice": "sizes"}  # attributes that say how large a result is


@dataclass(frozen=True)
class Part:
    """A node that makes a part of a result, still by the names of the whole, and what of each argument it reads; None of absent ones."""

    node: OpNode
    boxes: tuple[Box | None, ...]


def whole_box(shape: Shape) -> Box:
    """Return all of a tensor."""
    return tuple((0, n) for n in shape)


def sizes(box: Box) -> Shape:
    """Return the shape of a part."""
    return tuple(n for _, n in box)


def taken_box(node: OpNode) -> Box | None:
    """Return what a `slice` takes of its tensor. Return None where it leaves elements out between those."""
    starts, count, steps = (node.attribute(name) for name in ("starts", "sizes", "steps"))
    assert isinstance(starts, tuple) and isinstance(count, tuple) and isinstance(steps, tuple)
    return None if set(steps) - {1} else tuple((int(at), int(n)) for at, n in zip(starts, count))


def taking(box: Box) -> dict[str, Attribute]:
    """Return the attributes of a `slice` that takes a part."""
    return {"starts": tuple(at for at, _ in box), "sizes": sizes(box), "steps": (1,) * len(box)}


def run_of(shape: Shape, start: int, count: int) -> Box | None:
    """Return the part of a tensor that is `count` elements from `start` on in row-major order. Return None where these are no box."""
    if not shape:
        return () if (start, count) == (0, 1) else None
    each = prod(shape[1:])
    if count and not start % each and not count % each:
        return ((start // each, count // each), *whole_box(shape[1:]))
    if not count or start // each != (start + count - 1) // each:
        return None
    inner = run_of(shape[1:], start % each, count)
    return None if inner is None else ((start // each, 1), *inner)


def uneven(of: int, units: int) -> bool:
    """Return whether `units`, such as images, that stay whole, make `of` parts of which the first hold one more than the last."""
    return units > of and units % of != 0


def nth(shape: Shape, at: int, of: int, units: int = 1) -> Box | None:
    """Return the part number `at`, from 0, of `of` in row-major order, equal ones where `units` do not make them uneven. Return None where
    they are no boxes."""
    count = prod(shape)
    each, more = divmod(units, of) if uneven(of, units) else (1, 0)
    whole_units = units if uneven(of, units) else of
    if count % whole_units:
        return None
    unit = count // whole_units
    return run_of(shape, (at * each + min(at, more)) * unit, (each + (at < more)) * unit)


def start_of(shape: Shape, box: Box) -> int | None:
    """Return the element at which a part begins in row-major order. Return None where it does not lie in one run."""
    start = sum(at * prod(shape[axis + 1:]) for axis, (at, _) in enumerate(box))
    return start if run_of(shape, start, prod(sizes(box))) == box else None


def part_of(node: OpNode, shapes: Sequence[Shape | None], result: Shape, box: Box) -> Part | None:
    """Return the node that makes a part of a node's result, and the parts of the arguments that it reads. `shapes` are those of the
    arguments (None: an absent one). Return None where the node cannot be cut so."""
    if node.op.startswith(PREFIX) or len(node.outputs) != 1:
        return None
    given = [s for s in shapes if s is not None]
    found = _move_box(given[0], result, box) if node.op == "reshape" else _argument_boxes(meaning(word(node), given, node.attributes), box)
    if found is None:
        return None
    cut = _resize_node(node, box)
    if node.op != "reshape" and not _alike(node, given, cut, found, box):
        return None
    boxes = iter(found)
    return Part(cut, tuple(None if s is None else next(boxes) for s in shapes))


def _move_box(source: Shape, result: Shape, box: Box) -> list[Box] | None:
    """Return the box of a reshape's source with the same elements in row-major order, or None where they are no box."""
    start = start_of(result, box)
    found = None if start is None else run_of(source, start, prod(sizes(box)))
    return None if found is None else [found]


def _resize_node(node: OpNode, box: Box) -> OpNode:
    """Return the node, saying the size of its part where it says that of its result."""
    name = EXTENTS.get(node.op)
    return replace(node, attributes=tuple((k, sizes(box) if k == name else v) for k, v in node.attributes))


def _alike(node: OpNode, shapes: Sequence[Shape], cut: OpNode, boxes: Sequence[Box], box: Box) -> bool:
    """Return whether the node of the parts says what that of the whole says, and makes what is to be made."""
    try:
        own = meaning(word(cut), [sizes(b) for b in boxes], cut.attributes)
    except CheckError:
        return False
    once: dict[str, Expr] = {d.name: Int(0) for a in (*own.inputs, *own.outputs) for d in a.dims if d.extent == Int(1)}
    said = [[_normal_statement(s, once) for s in m.statements] for m in (own, meaning(word(node), shapes, node.attributes))]
    return said[0] == said[1] and extents(own.outputs[0]) == sizes(box)


def _normal_statement(s: Statement, once: dict[str, Expr]) -> Statement:
    """Return a statement in the normal form, loops that are made `once` at 0."""
    target, value, init = (None if e is None else normalise(substitute(e, once)) for e in (s.target, s.value, s.init))
    assert isinstance(target, Read) and value is not None
    return replace(s, target=target, value=value, init=init)


# ---------------------------------------------------------------- index notation

class _Uncut(Exception):
    """A loop that is cut does more than walk an axis."""


def _argument_boxes(m: Meaning, box: Box) -> list[Box] | None:
    """Return the box of each argument that is read for a part of the (one) result. Return None where this is no box, or depends on where
    the part is."""
    result = m.outputs[0]
    known: dict[str, tuple[Range, ...]] = {
        result.name: tuple(None if r == (0, n) else r for r, n in zip(box, extents(result)))}
    try:
        for s in reversed(m.statements):
            _read(s, known)
    except _Uncut:
        return None
    out = []
    for a in m.inputs:
        shape = extents(a)
        ranges = known.get(a.name, (None,) * len(shape))
        if any(r is not None and sum(r) > n for r, n in zip(ranges, shape)):
            return None
        out.append(tuple((0, n) if r is None else r for r, n in zip(ranges, shape)))
    return out


def _read(s: Statement, known: dict[str, tuple[Range, ...]]) -> None:
    """Enter in `known` what a statement reads for the wanted part of its target. Raise _Uncut where this is no part of an argument."""
    wanted = known.get(s.target.buffer, (None,) * len(s.target.indices))
    cut: dict[str, tuple[int, int]] = {}
    for index, r in zip(s.target.indices, wanted):
        if r is not None:
            plain = normalise(index)
            if not isinstance(plain, Var) or plain.name in cut:
                raise _Uncut
            cut[plain.name] = r
    for index, r in zip(s.target.indices, wanted):
        if r is None:
            _visit(index, cut, known)
    for e in (s.value, s.init):
        if e is not None:
            _visit(e, cut, known)


def _visit(e: Expr, cut: dict[str, tuple[int, int]], known: dict[str, tuple[Range, ...]]) -> None:
    """Enter the reads of an expression in `known`. Raise _Uncut where a loop that is cut occurs outside of an index of its own."""
    if isinstance(e, Var) and e.name in cut:
        raise _Uncut
    if not isinstance(e, Read):
        for c in children(e):
            _visit(c, cut, known)
        return
    found: list[Range] = []
    for index in map(normalise, e.indices):
        if isinstance(index, Var):
            found.append(cut.get(index.name))
        else:
            _visit(index, cut, known)
            found.append(None)
    if known.setdefault(e.buffer, tuple(found)) != tuple(found):
        raise _Uncut
