"""Funcs of one copy that reorders, selects, repeats or pads elements: transpose, slice, expand, pad.

Axes that both sides walk together are merged, so that runs are as long as possible. Where the last axis is moved, elements of up to four
bytes are transposed in UB, sixteen rows by a block at a time. Elements are moved one by one in two cases. In the first, no run is longer
than an element: the last axis is moved in elements of other sizes, taken in steps or backwards, or repeated. In the second, a run would
not start on a block in UB behind its padding. Each such element has a block of 32 bytes in UB, for a burst can start only at a block.
"""
from __future__ import annotations

from dataclasses import replace

from aoec.ir.func.meaning import Meaning, Statement
from aoec.ir.func.tir import Block, Buffer, Func, Node
from aoec.ir.graph.graph import Tensor
from aoec.ir.index import (
    DTYPES,
    Call,
    Expr,
    Int,
    Read,
    Var,
    affine,
    normalise,
    reads,
    rebuild,
    rename_reads,
    substitute,
    variables,
)
from aoec.lowering.lower.lower_axes import drop_ones, merge_axes, with_rows
from aoec.lowering.lower.movement.lower_columns import pad_columns, padding_of, pads_columns
from aoec.lowering.lower.movement.lower_narrow import every_nth, strided_work
from aoec.lowering.lower.physical import buffer_of, extents, guard_read, nest, stage
from aoec.lowering.lower.work import Work
from aoec.ops.words.layout import BLOCK_BYTES

TURNED = (1, 2, 4)  # bytes of elements that the vector unit turns
TURNED_BYTES = (2, 4)  # of those that it copies, too
LANE = "e"  # the axis of one element


def lower_copy(name: str, x: Tensor, y: Tensor, said: Meaning) -> Func:
    """Return the func of a meaning that is one statement, of ND tensors; what is padded goes through a local that holds the padding too."""
    (s,) = said.statements
    (read,) = reads(s.value)
    source, target = read.buffer, s.target.buffer
    work = Work([_plain(s)], extents(said), {source: x.shape, target: y.shape}, {source: x.dtype, target: y.dtype})
    work = forwards(merge_axes(drop_ones(with_rows(work))))
    if (padding := padding_of(work.statements[0], work.shapes[source], work.shapes[target])) is not None:
        matrices = buffer_of(x, "X", work.shapes[source]), buffer_of(y, "Y", work.shapes[target])
        if pads_columns(x, work.shapes[source][0], padding[0], work.shapes[target][1]):
            return pad_columns(name, *matrices, *padding)
    turned = DTYPES[x.dtype] in TURNED and is_turned(work.statements[0])
    if not turned and not runs(work.statements[0], BLOCK_BYTES // DTYPES[x.dtype]):
        if DTYPES[x.dtype] in TURNED_BYTES and (steps := strided_work(work)) is not None:
            return every_nth(name, number_axes(steps), x, y)
        work = by_element(work)
    work = number_axes(work)
    (s,) = work.statements
    own = {source: "X", target: "Y"}
    if turned:
        return turn(name, work, buffer_of(x, "X", work.shapes[source]), buffer_of(y, "Y", work.shapes[target]))
    to, value = Read("Y", s.target.indices), rename_reads(s.value, own)
    loops = [(v, work.extents[v]) for i in s.target.indices for v in sorted(variables(i))]
    body: tuple[Node, ...] = (nest(loops, Block("c0", to, "=", value)),)
    local: tuple[Buffer, ...] = ()
    if not isinstance(value, Read):
        local = (Buffer("W", x.dtype, tuple(Int(n) for _, n in loops)),)
        body = padded_body(loops, to, value, work.shapes[source])
    return Func(name, (buffer_of(x, "X", work.shapes[source]),), (buffer_of(y, "Y", work.shapes[target]),), local, body)


def _plain(s: Statement) -> Statement:
    """Return the statement with indices in normal form."""
    def plain(e: Expr) -> Expr:
        return Read(e.buffer, tuple(normalise(i) for i in e.indices)) if isinstance(e, Read) else rebuild(e, plain)
    return replace(s, target=plain(s.target), value=plain(s.value))  # type: ignore[arg-type]


def is_turned(s: Statement) -> bool:
    """Return True where all of a tensor changes its order, and elements that follow each other do so on neither side."""
    if not isinstance(s.value, Read) or not all(isinstance(i, Var) for r in (s.target, s.value) for i in r.indices):
        return False
    return len(s.value.indices) > 1 and set(s.value.indices) == set(s.target.indices) and s.value.indices[-1] != s.target.indices[-1]


def turn(name: str, work: Work, X: Buffer, Y: Buffer) -> Func:
    """Return the func of a transposition that moves the last axis: rows of the source are brought, turned in UB, stored as rows of the
    target."""
    (s,) = work.statements
    assert isinstance(s.value, Read)
    across, along = (r.indices[-1].name for r in (s.value, s.target))  # type: ignore[attr-defined]
    if len(s.value.indices) > 2 and work.extents[across] * DTYPES[X.dtype] < BLOCK_BYTES and s.value.indices[-2] != Var(along):
        return turn_whole_rows(name, work, X, Y)
    outer = [i.name for i in s.target.indices if i.name not in (across, along)]  # type: ignore[attr-defined]
    held = [*outer, along, across]
    rows, turned = (Buffer(b, X.dtype, tuple(Int(work.extents[v]) for v in axes))
                    for b, axes in (("rows", held), ("turned", [*outer, across, along])))

    def block(stem: str, axes: list[str], to: Read, value: Read) -> Node:
        return stage(stem, [(v, work.extents[v]) for v in axes], to, value)

    there, here = (Read(b.name, tuple(Var(v) for v in axes)) for b, axes in ((rows, held), (turned, [*outer, across, along])))
    return Func(name, (X,), (Y,), (rows, turned), (
        block("load", held, there, Read("X", s.value.indices)), block("turn", [*outer, across, along], here, there),
        block("store", [*outer, across, along], Read("Y", s.target.indices), here)))


def turn_whole_rows(name: str, work: Work, X: Buffer, Y: Buffer) -> Func:
    """Return the func of a transposition that moves a last axis of less than a block: rows of the last two axes are brought as runs, and
    turned together."""
    (s,) = work.statements
    assert isinstance(s.value, Read)
    (far, across), along = (i.name for i in s.value.indices[-2:]), s.target.indices[-1].name  # type: ignore[attr-defined]
    outer = [i.name for i in s.target.indices if i.name not in (far, across, along)]  # type: ignore[attr-defined]
    sizes = {**work.extents, "w": work.extents[far] * work.extents[across]}
    held, made = [*outer, along, "w"], [*outer, "w", along]
    rows, turned = (Buffer(b, X.dtype, tuple(Int(sizes[v]) for v in axes)) for b, axes in (("rows", held), ("turned", made)))

    def block(stem: str, axes: list[str], to: Read, value: Read) -> Node:
        return stage(stem, [(v, sizes[v]) for v in axes], to, value)

    there, here = (Read(b.name, tuple(map(Var, axes))) for b, axes in ((rows, held), (turned, made)))
    place = normalise(Var(far) * work.extents[across] + Var(across))
    joined = replace(X, shape=(*X.shape[:-2], Int(1), Int(sizes["w"])))  # as many dimensions as Y: no image is brought into blocks
    return Func(name, (joined,), (Y,), (rows, turned), (
        block("load", held, there, Read("X", (*s.value.indices[:-2], Int(0), Var("w")))), block("turn", made, here, there),
        block("store", [*outer, far, across, along], Read("Y", s.target.indices),
              Read(turned.name, (*map(Var, outer), place, Var(along))))))


def number_axes(work: Work) -> Work:
    """Name the axes of the work by their order. Equal copies then have equal names, and one schedule fits all of them."""
    (s,) = work.statements
    order = [v for i in s.target.indices for v in sorted(variables(i))]
    names: dict[str, Expr] = {v: Var(v if v == LANE else f"i{at}") for at, v in enumerate(order)}
    target, value = (substitute(e, names) for e in (s.target, s.value))
    assert isinstance(target, Read)
    extents = {names[v].name: n for v, n in work.extents.items() if v in names}  # type: ignore[attr-defined]
    return Work([replace(s, target=target, value=value)], extents, work.shapes, work.dtypes)


def padded_body(loops: list[tuple[str, int]], to: Read, value: Expr, shape: tuple[int, ...]) -> tuple[Node, ...]:
    """Return the body of a copy whose reads may leave their tensor of that shape, through a local W."""
    assert isinstance(value, Call) and isinstance(value.args[0], Read)
    read, otherwise = value.args
    own: dict[str, Expr] = {v: Var(f"load_{v}") for v, _ in loops}
    inside = guard_read(substitute(read, own), shape, {f"load_{v}": n for v, n in loops}, otherwise)  # type: ignore[arg-type]
    point = Read("W", tuple(substitute(i, own) for i in to.indices))
    load = nest([(f"load_{v}", n) for v, n in loops], Block("load", point, "=", inside))
    store = nest(loops, Block("out", to, "=", Read("W", to.indices)))
    return load, store


def forwards(work: Work) -> Work:
    """Return the work where every axis reads forwards, and what was read backwards is written so: what is loaded is a box."""
    (s,) = work.statements
    (read,) = reads(s.value)
    steps = {v: affine(i, frozenset((v,))) for i in read.indices for v in variables(i)}
    turned: dict[str, Expr] = {v: Int(work.extents[v] - 1) - Var(v) for v, parts in steps.items() if parts and falls(parts[0][v])}
    if not turned:
        return work
    target, value = (Read(r.buffer, tuple(normalise(substitute(i, turned)) for i in r.indices)) for r in (s.target, read))
    return Work([replace(s, target=target, value=value)], work.extents, work.shapes, work.dtypes)


def falls(step: Expr) -> bool:
    return isinstance(step, Int) and step.value < 0


def runs(s: Statement, unit: int) -> bool:
    """Return True where elements that follow each other in the target do so in the source, and padding before them is whole blocks of
    `unit` elements."""
    (read,) = reads(s.value)
    last = s.target.indices[-1]
    if not isinstance(last, Var) or not read.indices:
        return False
    parts = affine(read.indices[-1], frozenset((last.name,)))
    if parts is None or parts[0].get(last.name) != Int(1):
        return False
    return isinstance(s.value, Read) or isinstance(parts[1], Int) and parts[1].value % unit == 0


def by_element(work: Work) -> Work:
    """Return the work with an axis of one element behind all others, on both sides."""
    def widen(e: Expr) -> Expr:
        return Read(e.buffer, (*e.indices, Var(LANE))) if isinstance(e, Read) else rebuild(e, widen)

    statements = [Statement(widen(s.target), s.op, widen(s.value), s.init) for s in work.statements]  # type: ignore[arg-type]
    return Work(statements, {**work.extents, LANE: 1}, {n: (*d, 1) for n, d in work.shapes.items()}, work.dtypes)
