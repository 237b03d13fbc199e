"""What no vector operation makes of a definition's reads and loops, and moves or constants do.

A read where data say (`T[I[s], d]`) is a gather. A read around the end of an axis (`X[s, (d + 32) % 64]`) is two slices. One that begins a
few elements beside its rows (`X[s, d - 1] else 0.0`) is padded, for copies begin with whole blocks. What depends on loops alone (`n < 32`)
is a constant. Each becomes a tensor that the statement reads at its loops.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from aoec.frontend.own.own_taps import find_cut, make_slice
from aoec.frontend.translate.node import Node
from aoec.ir.func.meaning import Statement
from aoec.ir.index import Binary, Call, Expr, Float, Int, Read, Var, affine, children, normalise, reads, rebuild, variables, walk
from aoec.ops.expressions import value_at
from aoec.ops.words.layout import BLOCK_BYTES

PLACES = ("int32", "int64")  # dtypes of what says where another is read
MOST_CONSTANT = 1 << 24  # elements of what depends on loops alone
Extents = Mapping[str, int]
Tensor = Callable[[str], str]  # the draft's tensor for one of the definition


@dataclass(frozen=True)
class Moved:
    """A tensor that stands for a part of a statement, and the loops that are its dimensions."""

    tensor: str
    labels: tuple[str, ...]


def moves(s: Statement) -> bool:
    """Return True where a statement has a part that a move or a constant may make."""
    return any(_is_moved(r) for r in reads(s.value)) or bool(_of_loops(s.value) or _beside(s))


def _is_moved(r: Read) -> bool:
    return any(reads(i) or isinstance(i, Binary) and i.op == "%" for i in r.indices)


def replace_parts(s: Statement, new: Mapping[Expr, Read]) -> Statement:
    """Return the statement with some of its parts read from tensors of their own."""
    def of(e: Expr) -> Expr:
        return new[e] if e in new else e if isinstance(e, Read) else rebuild(e, of)
    return Statement(s.target, s.op, of(s.value), s.init)


def add_moves(n: Node, s: Statement, extents: Extents, real: bool, tensor: Tensor) -> dict[Expr, Moved]:
    """Add nodes for the parts of a statement that are moves or constants, and return part -> what takes its place. `real` says whether the
    values are real. Other parts stay unchanged: reads at data that are no gathers, reads around an end that are no slices, and constants
    that would be too large."""
    out: dict[Expr, Moved] = {}
    guarded = {e.args[0] for e in walk(s.value) if isinstance(e, Call) and e.fn == "guard"}
    within = {r for other in reads(s.value) for i in other.indices for r in reads(i)}
    for r in dict.fromkeys(reads(s.value)):
        by_data = any(reads(i) for i in r.indices)
        if not _is_moved(r) or r in within or by_data and r in guarded:
            continue
        found = _add_gather(n, r, extents, tensor) if by_data else _add_roll(n, r, extents, tensor)
        if found is not None:
            out[r] = found
    for g in _beside(s):
        read, otherwise = g.args
        assert isinstance(read, Read) and isinstance(otherwise, (Int, Float))
        x = tensor(read.buffer)
        if (c := find_cut(read, n.made_shape(x), variables(s.target), extents, True)) is not None:
            out[g] = Moved(make_slice(n, x, c, float(otherwise.value)), tuple(v for v in c.labels if v))
    alone = [e for e in _of_loops(s.value) if prod(extents[v] for v in variables(e)) <= MOST_CONSTANT]
    return out | {e: _constant(n, e, extents, real) for e in alone}


# ---------------------------------------------------------------- where data say

def _add_gather(n: Node, r: Read, extents: Extents, tensor: Tensor) -> Moved | None:
    """Add a gather for a read by an index from data. An index outside of the axis reads the nearest place. Return None where no gather
    makes it."""
    found = [(at, i) for at, i in enumerate(r.indices) if reads(i)]
    axis, index = found[0]
    rest = [i.name if isinstance(i, Var) else "" for at, i in enumerate(r.indices) if at != axis]
    if len(found) > 1 or not isinstance(index, Read) or not all(rest):
        return None
    x, place, own = tensor(r.buffer), tensor(index.buffer), _labels(index)
    shape = n.made_shape(x)
    if n.made_dtype(place) not in PLACES:
        return None
    whole = [extents[v] for v in rest] == [size for at, size in enumerate(shape) if at != axis]
    if not own or not whole or tuple(extents[v] for v in own) != n.made_shape(place):
        return None
    if len({*own, *rest}) == len(own) + len(rest):
        return Moved(n.step("gather", [x, place], {"axis": axis}), (*rest[:axis], *own, *rest[axis:]))
    if len(own) == len(shape) and [*own[:axis], *own[axis + 1:]] == rest and own[axis] not in rest:
        return Moved(n.step("gather_elements", [x, place], {"axis": axis}), own)
    return None


def _labels(r: Read) -> tuple[str, ...]:
    """Return the loops of a read at loops alone, each once. Return none for any other read."""
    found = tuple(i.name for i in r.indices if isinstance(i, Var))
    return found if len(found) == len(set(found)) == len(r.indices) else ()


# ---------------------------------------------------------------- around an end

def _add_roll(n: Node, r: Read, extents: Extents, tensor: Tensor) -> Moved | None:
    """Add slices for a read at `(v + c) % size` of one axis and at loops of the others. Return None where it is no such read."""
    x = tensor(r.buffer)
    shape, labels = n.made_shape(x), []
    starts: list[tuple[int, int]] = []  # (axis, first element)
    for axis, (i, size) in enumerate(zip(r.indices, shape)):
        if isinstance(i, Binary) and i.op == "%" and i.right == Int(size):
            found = affine(normalise(i.left), variables(i.left))
            if found is None or list(found[0].values()) != [Int(1)] or not isinstance(found[1], Int):
                return None
            labels.append(next(iter(found[0])))
            starts.append((axis, found[1].value % size))
        elif isinstance(i, Var) and extents[i.name] == size:
            labels.append(i.name)
        else:
            return None
    if len(set(labels)) < len(labels) or any(extents[labels[axis]] > size for axis, size in enumerate(shape)):
        return None
    for axis, first in starts:
        many = extents[labels[axis]]
        head = min(many, shape[axis] - first)
        pieces = [n.piece(x, axis, first, head), *([n.piece(x, axis, 0, many - head)] if many > head else [])]
        x = n.step("concat", pieces, {"axis": axis}) if len(pieces) > 1 else pieces[0]
    return Moved(x, tuple(labels))


# ---------------------------------------------------------------- beside its rows

def _beside(s: Statement) -> list[Call]:
    """Return the guarded reads along the last loop of an elementwise statement that do not begin with a block, of whichever dtype."""
    last = s.target.indices[-1] if s.op == "=" and s.target.indices else None
    found = dict.fromkeys(e for e in walk(s.value) if isinstance(e, Call) and e.fn == "guard")
    return [g for g in found if isinstance(g.args[0], Read) and _shift(g.args[0].indices[-1], last) % BLOCK_BYTES]


def _shift(i: Expr, last: Expr | None) -> int:
    """Return c where an index is the last loop + c, for a whole number c; return 0 for any other index."""
    found = affine(normalise(i), variables(i))
    plain = found is not None and isinstance(last, Var) and found[0] == {last.name: Int(1)} and isinstance(found[1], Int)
    return found[1].value if plain else 0  # type: ignore[index, union-attr]


# ---------------------------------------------------------------- loops alone

def _of_loops(e: Expr) -> list[Expr]:
    """Return the largest parts of a value that depend on loops and on nothing that is read."""
    if isinstance(e, Read) or not variables(e):
        return []
    if not reads(e):
        return [e]
    return list(dict.fromkeys(part for c in children(e) for part in _of_loops(c)))


def _constant(n: Node, e: Expr, extents: Extents, real: bool) -> Moved:
    """Return the values of what depends on loops alone, in the dtype of what it meets."""
    labels = tuple(v for v in extents if v in variables(e))
    shape = tuple(extents[v] for v in labels)
    points: dict[str, Any] = {v: np.arange(extents[v]).reshape([-1 if v == w else 1 for w in labels]) for v in labels}
    with np.errstate(all="ignore"):
        found = np.ascontiguousarray(np.broadcast_to(np.asarray(value_at(e, points, {})), shape))
    return Moved(n.constant("loops", found.astype(np.float32 if real else np.int32), "fp32" if real else "int32"), labels)
