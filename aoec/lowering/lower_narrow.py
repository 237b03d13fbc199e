"""Funcs of copies that take columns of narrow rows: a transposition of rows of a few elements, every n-th element of a row.

In bursts such rows would be a few bytes each. They come into UB as the run that they are, are turned there (emit_narrow.py), and leave it
as rows of columns.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.graph import Tensor
from aoec.ir.index import Expr, Int, Read, Var, affine, normalise, substitute, variables
from aoec.ir.narrow import GROUP, MOST
from aoec.ir.tir import Buffer, Func
from aoec.lowering.physical import buffer_of, stage
from aoec.lowering.work import Work

LEAST_ROWS = GROUP // 2  # that are turned for fewer costs as much as a burst for each
LEAST_TAKEN = 16  # elements of a row of which every n-th is taken


def is_narrow(work: Work) -> bool:
    """True for a transposition of many rows of a few elements that lie one behind the other."""
    (s,) = work.statements
    assert isinstance(s.value, Read)
    rows, across = work.shapes[s.value.buffer][-2:]
    return s.value.indices[-2] == s.target.indices[-1] and across < MOST and rows >= LEAST_ROWS


def columns(name: str, work: Work, x: Tensor, y: Tensor) -> Func:
    """The func of a transposition of narrow rows."""
    (s,) = work.statements
    assert isinstance(s.value, Read)
    *around, many, across = work.shapes[s.value.buffer]
    far, near = (i.name for i in s.value.indices[-2:])  # type: ignore[attr-defined]
    outer = [i.name for i in s.target.indices if i.name not in (far, near)]  # type: ignore[attr-defined]
    lead, own = [(v, work.extents[v]) for v in outer], {near: Var("i"), far: Var("x")}  # "i": whole in a tile
    taken = Read("columns", (*map(Var, outer), Var("i"), Var("x")))
    return through(name, x, lead, [("i", across), ("x", many)], (*map(Var, outer), Var("x") * across + Var("i")), many * across,
                   (buffer_of(x, "X", (*around, many * across)), Read("X", (*s.value.indices[:-2], Var("q")))),
                   (buffer_of(y, "Y", work.shapes[s.target.buffer]), Read("Y", tuple(substitute(i, own) for i in s.target.indices))), taken)


def through(name: str, x: Tensor, lead: list[tuple[str, int]], last: list[tuple[str, int]], place: tuple[Expr, ...], run: int,
            source: tuple[Buffer, Read], target: tuple[Buffer, Read], taken: Read) -> Func:
    """The func that loads runs of rows, for each of the loops `lead`, takes `place` of them in the loops `last`, and stores that."""
    rows, column = (Buffer(b, x.dtype, tuple(Int(n) for _, n in loops)) for b, loops in (
        ("rows", [*lead, ("q", run)]), ("columns", [*lead, *last])))
    return Func(name, (source[0],), (target[0],), (rows, column), (
        stage("load", [*lead, ("q", run)], Read("rows", (*[Var(v) for v, _ in lead], Var("q"))), source[1]),
        stage("turn", [*lead, *last], taken, Read("rows", place)),
        stage("store", [*lead, *last], target[1], taken)))


def stepped(work: Work) -> Work | None:
    """The work of a copy that takes every n-th element of a row, rows that follow each other made one; None for any other."""
    (s,) = work.statements
    read, to = s.value, s.target.indices
    if not isinstance(read, Read) or not all(isinstance(i, Var) for i in to) or len(set(to)) < len(to):
        return None
    shape, indices, last = work.shapes[read.buffer], read.indices, to[-1]
    if len(indices) > 1 and isinstance(indices[-1], Int) and indices[-2] == last and shape[-1] <= MOST:  # one element of each narrow row
        shape, indices = (*shape[:-2], shape[-2] * shape[-1]), (*indices[:-2], normalise(last * shape[-1] + indices[-1]))
    sizes, extents = work.shapes[s.target.buffer], dict(work.extents)
    assert isinstance(last, Var)
    step, start = taken(indices[-1], last)
    if not 1 < step <= MOST or any(last.name in variables(i) for i in indices[:-1]):
        return None
    while len(to) > 1 and len(indices) > 1 and indices[-2] == to[-2] and shape[-1] == step * extents[last.name] and start < step:
        whole = to[-2]
        assert isinstance(whole, Var)
        extents[whole.name] *= extents.pop(last.name)
        shape, indices = (*shape[:-2], shape[-2] * shape[-1]), (*indices[:-2], normalise(whole * step + start))
        sizes, to, last = (*sizes[:-2], sizes[-2] * sizes[-1]), to[:-1], whole
    if extents[last.name] < LEAST_TAKEN:
        return None
    statement = replace(s, target=Read(s.target.buffer, to), value=Read(read.buffer, indices))
    return Work([statement], extents, work.shapes | {read.buffer: shape, s.target.buffer: sizes}, work.dtypes)


def taken(index: Expr, axis: Expr) -> tuple[int, int]:
    """How far apart and from where on an index takes elements along an axis; zeros where it does not say."""
    assert isinstance(axis, Var)
    parts = affine(index, frozenset((axis.name,)))
    step = parts[0].get(axis.name) if parts else None
    return (step.value, parts[1].value) if parts and isinstance(step, Int) and isinstance(parts[1], Int) else (0, 0)


def every_nth(name: str, work: Work, x: Tensor, y: Tensor) -> Func:
    """The func of a `stepped` work."""
    (s,) = work.statements
    assert isinstance(s.value, Read)
    *outer, last = (i.name for i in s.target.indices)  # type: ignore[attr-defined]
    (step, start), many = taken(s.value.indices[-1], Var(last)), work.extents[last]
    point: tuple[Expr, ...] = tuple(map(Var, outer))
    return through(name, x, [(v, work.extents[v]) for v in outer], [("x", many)], (*point, Var("x") * step), step * (many - 1) + 1,
                   (buffer_of(x, "X", work.shapes[s.value.buffer]), Read("X", (*s.value.indices[:-1], normalise(Var("q") + start)))),
                   (buffer_of(y, "Y", work.shapes[s.target.buffer]), Read("Y", (*point, Var("x")))), Read("columns", (*point, Var("x"))))
