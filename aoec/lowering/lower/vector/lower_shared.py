"""Operations that several results of a group share, calculated once: equal single operations have one target.

A result that leaves the group cannot be read again. If others need it too, it is calculated in a local and copied out.
"""
from __future__ import annotations

from collections.abc import Sequence

from aoec.ir.func.meaning import Statement
from aoec.ir.index import Read, rename_reads
from aoec.lowering.lower.work import Work

HELD = ".held"  # ends the name of the local from which a result is copied out


def share_operations(work: Work, results: Sequence[str]) -> Work:
    """Return the work, of single operations, without those that are done already; the last of the `results` is made last."""
    out = Work([], dict(work.extents), dict(work.shapes), dict(work.dtypes), work.truths)
    names: dict[str, str] = {}  # target -> the one that holds the same
    for s in work.statements:
        s = Statement(s.target, s.op, rename_reads(s.value, names), s.init)
        at = next((i for i, known in enumerate(out.statements) if _is_same(out, known, s)), None)
        if at is None:
            out.statements.append(s)
            if s.op != "=" and s.target.buffer in results:  # a sum is made in UB, and what leaves is copied from there
                _hold(out, len(out.statements) - 1)
            continue
        known = out.statements[at]
        if known.target.buffer in results:
            known = _hold(out, at)
        if s.target.buffer in results:
            out.statements.append(Statement(s.target, "=", known.target, None))
        else:
            names[s.target.buffer] = known.target.buffer
            del out.shapes[s.target.buffer]
    last = [s for s in out.statements if s.target.buffer == results[-1]]
    out.statements = [*[s for s in out.statements if s.target.buffer != results[-1]], *last]
    return out


def _is_same(work: Work, known: Statement, s: Statement) -> bool:
    """Return whether two statements do the same to the same operands. Copies from tensor to tensor never count as such."""
    a, b = known.target, s.target
    alike = (known.op, known.init, a.indices, work.dtypes[a.buffer]) == (s.op, s.init, b.indices, work.dtypes[b.buffer])
    return alike and known.value == s.value and not (s.op == "=" and isinstance(s.value, Read))


def _hold(work: Work, at: int) -> Statement:
    """Return the statement that makes in a local what one made in a result, which is copied from there."""
    s = work.statements[at]
    local = Read(f"{s.target.buffer}{HELD}", s.target.indices)
    work.shapes[local.buffer], work.dtypes[local.buffer] = work.shapes[s.target.buffer], work.dtypes[s.target.buffer]
    work.statements[at:at + 1] = [Statement(local, s.op, s.value, s.init), Statement(s.target, "=", local, None)]
    return work.statements[at]
