"""Funcs of rows that are made of other rows through their columns in UB.

Whole runs of rows are moved into UB and out of it. Between the two, each element of a row is a column. In a concat, columns of several
tensors lie one after the other, so that rows made of them are rows of all the tensors. In a transposition that moves pairs, some of the
columns make rows of their own. Where padding begins within a block, columns of padding come before the others and behind them.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

from aoec.ir.func.meaning import Statement
from aoec.ir.func.narrow import MOST
from aoec.ir.func.tir import Block, Buffer, Func, Node
from aoec.ir.graph.graph import Tensor
from aoec.ir.index import DTYPES, Call, Expr, Int, Read, Var, affine, normalise
from aoec.lowering.lower.physical import buffer_of, nest, stage
from aoec.ops.words.layout import BLOCK_BYTES

LEAST_ROWS = 256  # that are turned at once: for fewer, bursts of a row each take no longer
LEAST_PADDED = 64  # rows that are padded at once
MOST_PADDED = 2048  # bytes of a padded row, at most: sixteen of them are in UB as rows and as columns, before and behind
TURNED_BYTES = (2, 4)  # of elements that are
COLUMNS = Read("columns", (Var("w"), Var("n")))


def joins_narrow(ins: Sequence[Tensor], out: Tensor, axis: int) -> bool:
    """Return True for a concat of many rows that are narrow, all together."""
    return len(ins) > 1 and is_narrow(out, prod(out.shape[:axis]), prod(out.shape[axis:]))


def is_narrow(t: Tensor, rows: int, width: int) -> bool:
    """Return True for many rows of a few elements that the vector unit turns."""
    size = DTYPES[t.dtype]
    return size in TURNED_BYTES and width < MOST and width * size % BLOCK_BYTES != 0 and rows >= LEAST_ROWS


def join_narrow(name: str, ins: Sequence[Tensor], order: Sequence[int], out: Tensor, axis: int) -> Func:
    """Return the func of a concat of narrow rows, of the tensors by their numbers in `order`."""
    many, width = prod(out.shape[:axis]), prod(out.shape[axis:])
    parts: list[list[Node]] = []
    local, first = [], 0
    for at, number in enumerate(order):
        own = prod(ins[number].shape[axis:])
        lead, point = ([("n", many)], (Var("n"),)) if own == 1 else ([("n", many), ("w", own)], (Var("n"), Var("w")))
        there = Read(f"rows{at}", point)
        local.append(Buffer(there.buffer, out.dtype, tuple(Int(n) for _, n in lead)))
        parts.append([stage(f"load{at}", lead, there, Read(f"X{number}", point)),
                      stage(f"turn{at}", [*lead[1:], ("n", many)],
                            Read("columns", (normalise(Var("w") + first) if own > 1 else Int(first), Var("n"))), there)])
        first += own
    if any(prod(ins[number].shape[axis:]) * DTYPES[out.dtype] % BLOCK_BYTES == 0 for number in order):
        parts.reverse()  # whole blocks are turned with what lies behind them, and a sketch has the last of these first
    body = [n for part in parts for n in part]
    whole, rows = [("n", many), ("w", width)], Read("joined", (Var("n"), Var("w")))
    body += [stage("back", whole, rows, COLUMNS), stage("store", whole, Read("Y", rows.indices), rows)]
    local += [Buffer("columns", out.dtype, (Int(width), Int(many))), Buffer("joined", out.dtype, (Int(many), Int(width)))]
    inputs = [buffer_of(t, f"X{at}", (many,) if (own := prod(t.shape[axis:])) == 1 else (many, own)) for at, t in enumerate(ins)]
    return Func(name, tuple(inputs), (buffer_of(out, "Y", (many, width)),), tuple(local), tuple(body))


Pairs = tuple[int, int, int, int]  # axes of which the middle two change places


def pairs_of(x: Tensor, shape: tuple[int, ...], perm: tuple[int, ...]) -> Pairs | None:
    """Return the axes of a transposition (joined ones) that takes narrow rows apart into rows of their own, of whole blocks together."""
    if perm not in ((1, 0, 2), (0, 2, 1, 3)):
        return None
    lead, far, near, last = (1, *shape) if len(shape) == 3 else shape
    blocks = lead == 1 or far * last * DTYPES[x.dtype] % BLOCK_BYTES == 0
    return (lead, far, near, last) if blocks and is_narrow(x, lead * far, near * last) else None


def move_pairs(name: str, x: Tensor, y: Tensor, axes: Pairs) -> Func:
    """Return the func of a transposition of `pairs_of`."""
    lead, far, near, last = axes
    many, width = lead * far, near * last
    rows = Read("rows", (Var("n"), Var("w")))
    made, here = Read("made", (Var("near"), Var("n"), Var("d"))), Read("columns", (normalise(Var("near") * last + Var("d")), Var("n")))
    out = [("near", near), ("n", many), ("d", last)] if lead == 1 else [("n", lead), ("near", near), ("far", far), ("d", last)]
    place = Var("n") if lead == 1 else normalise(Var("n") * far + Var("far"))
    body = (stage("load", [("n", many), ("w", width)], rows, Read("X", rows.indices)),
            stage("turn", [("w", width), ("n", many)], COLUMNS, rows),
            stage("back", [("near", near), ("n", many), ("d", last)], made, here),
            stage("store", out, Read("Y", tuple(Var(v) for v, _ in out)), Read("made", (Var("near"), place, Var("d")))))
    local = [Buffer(b, x.dtype, tuple(map(Int, shape))) for b, shape in (
        ("rows", (many, width)), ("columns", (width, many)), ("made", (near, many, last)))]
    return Func(name, (buffer_of(x, "X", (many, width)),), (buffer_of(y, "Y", tuple(n for _, n in out)),), tuple(local), body)


def pads_columns(x: Tensor, rows: int, before: int, width: int) -> bool:
    """Return True for many rows that begin within a block behind their padding, up to `width` elements: UB holds sixteen more than once."""
    size = DTYPES[x.dtype]
    within = before * size % BLOCK_BYTES != 0
    return within and size in TURNED_BYTES and rows >= LEAST_PADDED and width * size <= MOST_PADDED


def padding_of(s: Statement, shape: tuple[int, ...], made: tuple[int, ...]) -> tuple[int, Expr] | None:
    """Return (elements before a row, what they are) of a copy that pads just the rows of a matrix; None for any other."""
    if not isinstance(s.value, Call) or len(shape) != 2 or len(made) != 2:
        return None
    read, value = s.value.args
    row, lane = s.target.indices
    if not isinstance(read, Read) or not isinstance(lane, Var) or read.indices[0] != row or shape[0] != made[0]:
        return None
    parts = affine(read.indices[1], frozenset((lane.name,)))
    if parts is None or parts[0].get(lane.name) != Int(1) or not isinstance(parts[1], Int):
        return None
    before = -parts[1].value
    return (before, value) if before > 0 and before + shape[1] <= made[1] else None


def pad_columns(name: str, x: Buffer, y: Buffer, before: int, value: Expr) -> Func:
    """Return the func of a matrix whose rows are padded. The block that transposes stands behind the blocks of the ends. A sketch moves
    blocks from the last one on, so there it comes before them. That is needed because it writes whole blocks of columns, and so some
    behind its own."""
    (many, own), (_, width) = ([n.value for n in b.shape if isinstance(n, Int)] for b in (x, y))
    here, there = Read("columns", (Var("j"), Var("r"))), Read("rows", (Var("r"), Var("j")))
    rows, made = [("r", many), ("j", own)], [("r", many), ("j", width)]
    padded = Read("padded", there.indices)
    ends = [(first, count) for first, count in ((0, before), (before + own, width - before - own)) if count]
    body: list[Node] = [stage("load", rows, there, Read("X", there.indices))]
    for at, (first, count) in enumerate(ends):
        body.append(nest([(f"end{at}_j", count), (f"end{at}_r", many)],
                         Block(f"end{at}", Read("columns", (normalise(Var(f"end{at}_j") + first), Var(f"end{at}_r"))), "=", value)))
    body += [stage("turn", rows[::-1], Read("columns", (Var("j") + before, Var("r"))), there),
             stage("back", made, padded, here), stage("store", made, Read("Y", there.indices), padded)]
    local = [Buffer(b, x.dtype, tuple(map(Int, shape))) for b, shape in (
        ("rows", (many, own)), ("columns", (width, many)), ("padded", (many, width)))]
    return Func(name, (x,), (y,), tuple(local), tuple(body))
