"""Windows of two dimensions, folded in two steps: first over their rows, for every column of the tensor, then over their columns.

The maximum of 5 x 5 elements then takes ten instructions in place of 25. Sums stay as they are. They are in fp32, whose rows are twice
as long. In two steps some sums took longer (17 x 17 pixels of 768 channels, 24.0 -> 28.2 us on 310P3), and others less.
"""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from aoec.ir.func.meaning import Statement
from aoec.ir.index import Int, Read, Var, affine
from aoec.lowering.lower.work import Work, axes_of, variables_of


@dataclass(frozen=True)
class Window:
    """What a reduction reads; of rows and of columns the dimension, the axis that is kept and the one that is reduced."""

    read: Read
    rows: tuple[int, str, str]
    columns: tuple[int, str, str]


def windows_apart(work: Work, result: str) -> Work:
    """Return the work with windows folded in two steps where these are fewer operations; `result` leaves the group."""
    out = replace(work, statements=[], extents=dict(work.extents), shapes=dict(work.shapes), dtypes=dict(work.dtypes))
    for s in work.statements:
        found = window(work, s)
        out.statements += [s] if found is None or not pays(work, found) else in_steps(out, s, found, result)
    return out


def window(work: Work, s: Statement) -> Window | None:
    """Return the window that a statement folds; None where it does something else."""
    read, kept = s.value, variables_of(s.target)
    if s.op in ("=", "+=") or s.init is not None or not isinstance(read, Read) or work.dtypes[read.buffer] != work.dtypes[s.target.buffer]:
        return None
    reduced = [v for v in axes_of(s) if v not in kept]
    slides = [(d, *pair) for d, i in enumerate(read.indices) if (pair := sliding(i, kept, reduced)) is not None]
    plain = sum(isinstance(i, Var) and i.name in kept for i in read.indices)
    if len(reduced) != 2 or [k for _, _, k in slides] != reduced or plain + 2 != len(read.indices) or not isinstance(read.indices[-1], Var):
        return None
    return Window(read, *slides)


def sliding(index: object, kept: Collection[str], reduced: Collection[str]) -> tuple[str, str] | None:
    """Return the kept axis and the reduced one that an index is made of."""
    parts = affine(index, frozenset({*kept, *reduced}))  # type: ignore[arg-type]
    names = list(parts[0]) if parts is not None and parts[1] == Int(0) else []
    own, over = [v for v in names if v in kept], [v for v in names if v in reduced]
    return (own[0], over[0]) if len(own) == len(over) == 1 else None


def pays(work: Work, w: Window) -> bool:
    """Return whether the two steps are fewer operations on a row of results; the first is done for columns that no window begins with,
    too."""
    (_, _, down), (d, across, beside) = w.rows, w.columns
    high, wide, row = (work.extents[v] for v in (down, beside, across))
    return high * work.shapes[w.read.buffer][d] + wide * row < high * wide * row


def in_steps(work: Work, s: Statement, w: Window, result: str) -> list[Statement]:
    """Return the statements of both steps; what leaves the group is copied from a local."""
    (d_row, row, _), (d, _, over) = w.rows, w.columns
    column, folded, dtype = f"{over}_each", f"{s.target.buffer}.folded", work.dtypes[s.target.buffer]
    while column in work.extents:
        column += "_"
    work.extents[column] = work.shapes[w.read.buffer][d]
    every = tuple(Var(column) if at == d else i for at, i in enumerate(w.read.indices))
    there = tuple(Var(row) if at == d_row else i for at, i in enumerate(every))
    work.shapes[folded], work.dtypes[folded] = tuple(work.extents[i.name] for i in there), dtype  # type: ignore[attr-defined]
    first = Statement(Read(folded, there), s.op, Read(w.read.buffer, every), None)
    second = Read(folded, tuple(w.read.indices[d] if at == d else i for at, i in enumerate(there)))
    if s.target.buffer != result:
        return [first, Statement(s.target, s.op, second, None)]
    whole = Read(f"{result}.whole", s.target.indices)
    work.shapes[whole.buffer], work.dtypes[whole.buffer] = work.shapes[result], dtype
    return [first, Statement(whole, s.op, second, None), Statement(s.target, "=", whole, None)]
