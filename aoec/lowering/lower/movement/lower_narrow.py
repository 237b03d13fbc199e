"""Funcs of copies that take every n-th element of a row, which in bursts would be one each.

Rows come into UB as the runs that they are, are turned there (emit_narrow.py), and leave it as rows of what is taken.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.func.narrow import MOST
from aoec.ir.func.tir import Buffer, Func
from aoec.ir.graph.graph import Tensor
from aoec.ir.index import Expr, Int, Read, Var, affine, normalise, variables
from aoec.lowering.lower.physical import buffer_of, stage
from aoec.lowering.lower.work import Work

LEAST_TAKEN = 16  # elements of a row of which every n-th is taken


def strided_work(work: Work) -> Work | None:
    """Return the work of a copy that takes every n-th element of a row, with rows that follow each other joined; None for any other."""
    (s,) = work.statements
    read, to = s.value, s.target.indices
    if not isinstance(read, Read) or not all(isinstance(i, Var) for i in to) or len(set(to)) < len(to):
        return None
    shape, indices, last = work.shapes[read.buffer], read.indices, to[-1]
    if len(indices) > 1 and isinstance(indices[-1], Int) and indices[-2] == last and shape[-1] <= MOST:  # one element of each narrow row
        shape, indices = (*shape[:-2], shape[-2] * shape[-1]), (*indices[:-2], normalise(last * shape[-1] + indices[-1]))
    sizes, extents = work.shapes[s.target.buffer], dict(work.extents)
    assert isinstance(last, Var)
    step, start = stride_and_start(indices[-1], last)
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


def stride_and_start(index: Expr, axis: Expr) -> tuple[int, int]:
    """Return the distance and the first of the elements that an index takes along an axis; zeros where it does not say."""
    assert isinstance(axis, Var)
    parts = affine(index, frozenset((axis.name,)))
    step = parts[0].get(axis.name) if parts else None
    return (step.value, parts[1].value) if parts and isinstance(step, Int) and isinstance(parts[1], Int) else (0, 0)


def every_nth(name: str, work: Work, x: Tensor, y: Tensor) -> Func:
    """Return the func of a work that `strided_work` gives."""
    (s,) = work.statements
    assert isinstance(s.value, Read)
    *outer, last = (i.name for i in s.target.indices)  # type: ignore[attr-defined]
    (step, start), many = stride_and_start(s.value.indices[-1], Var(last)), work.extents[last]
    lead, point = [(v, work.extents[v]) for v in outer], tuple(map(Var, outer))
    run, all_of = [*lead, ("q", step * (many - 1) + 1)], [*lead, ("x", many)]
    rows, column = (Buffer(b, x.dtype, tuple(Int(n) for _, n in loops)) for b, loops in (("rows", run), ("columns", all_of)))
    X, Y = buffer_of(x, "X", work.shapes[s.value.buffer]), buffer_of(y, "Y", work.shapes[s.target.buffer])
    there = Read("columns", (*point, Var("x")))
    return Func(name, (X,), (Y,), (rows, column), (
        stage("load", run, Read("rows", (*point, Var("q"))), Read("X", (*s.value.indices[:-1], normalise(Var("q") + start)))),
        stage("turn", all_of, there, Read("rows", (*point, Var("x") * step))),
        stage("store", all_of, Read("Y", (*point, Var("x"))), there)))
