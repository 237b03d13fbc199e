"""Funcs of operators that read where an index says.

The elements behind the indexed axis are a run. Each run is a burst of its own, from an address that the scalar unit finds, into a local
that is stored as it is. Where elements of whole rows are taken (`rows`), the rows are loaded first, and the vector unit takes the
elements in UB.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod

from aoec.ir.func.tir import Block, Buffer, Func
from aoec.ir.graph.graph import OpNode, Tensor
from aoec.ir.index import Expr, Int, Read, Var
from aoec.lowering.lower.physical import buffer_of, nest

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Places:
    """Shapes of tensor, index and result, and by which axes of the result (numbers) the first two are read; None: by the index."""

    x: Shape
    index: Shape
    y: Shape
    reads: tuple[int | None, ...]
    index_reads: tuple[int, ...]


def slices(x: Shape, index: Shape, axis: int) -> Places:
    """Return the places of `gather`: the axes before the indexed one are merged to one, and so are those of the index and those behind."""
    before, count, behind = prod(x[:axis]), prod(index), prod(x[axis + 1:])
    if before == 1:
        return Places((x[axis], behind), (count,), (count, behind), (None, 1), (0,))
    return Places((before, x[axis], behind), (count,), (before, count, behind), (0, None, 2), (1,))


def elements(x: Shape, index: Shape, axis: int) -> Places:
    """Return the places of `gather_elements`: every axis by itself, and an axis of one element behind them."""
    own = tuple(range(len(x)))
    return Places((*x, 1), index, (*index, 1), (*[None if at == axis else at for at in own], len(x)), own)


def lower_gather(name: str, node: OpNode, tensors: dict[str, Tensor]) -> Func:
    """Return the func of `gather` or `gather_elements`."""
    x, index, y = (tensors[t] for t in (*node.inputs, *node.outputs))
    axis = node.attribute("axis")
    assert isinstance(axis, int)
    if node.attribute("rows"):
        return lower_rows(name, x, index, y, node.op == "gather")
    places = (slices if node.op == "gather" else elements)(x.shape, index.shape or (1,), axis)
    loops = [(f"i{at}", n) for at, n in enumerate(places.y)]
    out = tuple(Var(v) for v, _ in loops)
    own = tuple(Var(f"load_{v}") for v, _ in loops)
    found = Read("X1", tuple(own[at] for at in places.index_reads))
    source: tuple[Expr, ...] = tuple(found if at is None else own[at] for at in places.reads)
    load = nest([(f"load_{v}", n) for v, n in loops], Block("load", Read("T", own), "=", Read("X0", source)))
    store = nest(loops, Block("out", Read("Y", out), "=", Read("T", out)))
    inputs = (buffer_of(x, "X0", places.x), buffer_of(index, "X1", places.index))
    local = Buffer("T", x.dtype, tuple(Int(n) for n in places.y))
    return Func(name, inputs, (buffer_of(y, "Y", places.y),), (local,), (load, store))


def lower_rows(name: str, x: Tensor, index: Tensor, y: Tensor, alike: bool) -> Func:
    """Return the func of elements taken of whole rows in UB; `alike`: by one index for all rows, else each row has its own."""
    *lead, width = x.shape
    shared = tuple(lead) if alike else index.shape[:-1]
    taken = prod(index.shape) if alike else index.shape[-1]
    if tuple(lead) == shared:  # one axis of rows
        lead = [prod(lead)] if prod(lead) > 1 else []
        shared = tuple(lead)
    loops = [*[(f"i{at}", n) for at, n in enumerate(shared)], ("i", taken)]
    every = [*loops[:-1], ("k", width)]

    def walk(stem: str, axes: list[tuple[str, int]]) -> tuple[list[tuple[str, int]], tuple[Expr, ...]]:
        named = [(f"{stem}{v}", n) for v, n in axes]
        return named, tuple(Var(v) for v, _ in named)
    loads, there = walk("load_", every)
    takes, here = walk("take_", loops)
    _, out = walk("", loops)
    found = Read("X1", here[-1:] if alike else here)
    body = (nest(loads, Block("load", Read("rows", there), "=", Read("X0", there))),
            nest(takes, Block("take", Read("T", here), "=", Read("rows", (*here[:-1], found)))),
            nest(loops, Block("out", Read("Y", out), "=", Read("T", out))))
    local = tuple(Buffer(b, x.dtype, tuple(Int(n) for _, n in axes)) for b, axes in (("rows", every), ("T", loops)))
    inputs = buffer_of(x, "X0", (*lead, width)), buffer_of(index, "X1", (taken,) if alike else (*shared, taken))
    return Func(name, inputs, (buffer_of(y, "Y", (*shared, taken)),), local, body)
