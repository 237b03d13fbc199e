"""What lowering of vector groups works on: statements over named tensors with the extent of each axis."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aoec.ir.func.meaning import Statement
from aoec.ir.index import Expr, Int, Read, Var, reads, rebuild, variables

LOCAL = "t."  # begins the names of locals that hold what an expression is taken apart into
SINGLE = "single"  # the axis of what has one element


@dataclass
class Work:
    """Statements over named tensors, with the extent of each axis; tensors of the group by the name they have here. `truths`: what holds
    as 1 and 0 the bytes of a tensor of truths that a statement makes."""

    statements: list[Statement] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    truths: dict[str, tuple[Read, Read]] = field(default_factory=dict)  # tensor -> (as it is written, what holds it)


def accesses(work: Work) -> list[Read]:
    return [r for s in work.statements for r in [s.target, *reads(s.value)]]


def axes_of(s: Statement) -> list[str]:
    """Return the axes of a statement, in the order of its largest read (lanes innermost), then of its target. Axes that a reduction
    keeps and does not read come first, such as the one row of a sum over everything."""
    read = frozenset().union(*[variables_of(r) for r in reads(s.value)])
    found = [v for i in s.target.indices for v in sorted(variables(i)) if v not in read] if s.op != "=" else []
    for r in sorted([*reads(s.value), s.target], key=lambda r: -len(variables_of(r))):
        found += [v for i in r.indices for v in sorted(variables(i)) if v not in found]
    return found


def own_axes(work: Work, name: str, shape: tuple[int, ...]) -> list[str]:
    """Return axes for a copy of a shape, which the work knows from now on: `name` with a number, and what tells it from an axis of another
    extent."""
    out = []
    for d, extent in enumerate(shape):
        axis, number = f"{name}{d}", 0
        while work.extents.setdefault(axis, extent) != extent or axis in out:
            number += 1
            axis = f"{name}{d}_{number}"
        out.append(axis)
    return out


def variables_of(r: Read) -> frozenset[str]:
    return frozenset().union(*[variables(i) for i in r.indices])


def along_single(e: Expr) -> Expr:
    """Return `e` with each read at element 0 replaced by a read along the axis SINGLE."""
    return Read(e.buffer, (Var(SINGLE),)) if isinstance(e, Read) and e.indices == (Int(0),) else rebuild(e, along_single)


def hold(work: Work, e: Expr, axes: list[str], dtype: str, operation: Callable[[Expr, Read], Expr] = lambda e, _: e) -> Read:
    """Return the local tensor that holds an expression over some axes: the existing one, or a new one, which `operation` fills by one
    operation. One number for all, such as a scalar that was cast, has an axis of its own."""
    if not axes:
        work.extents[SINGLE] = 1
        return Read(hold(work, along_single(e), [SINGLE], dtype, operation).buffer, (Int(0),))
    if (known := holding(work, e, axes, dtype)) is not None:
        return known
    target = new_local(work, axes, dtype)
    work.statements.append(Statement(target, "=", operation(e, target), None))
    return target


def holding(work: Work, e: Expr, axes: list[str], dtype: str) -> Read | None:
    """Return the local tensor that holds an expression over some axes already; None where none does."""
    own = tuple(Var(v) for v in axes)
    for s in work.statements:
        b = s.target.buffer
        if (s.op, s.value, s.target.indices, work.dtypes[b]) == ("=", e, own, dtype) and b.startswith(LOCAL):
            return s.target
    return None


def new_local(work: Work, axes: list[str], dtype: str) -> Read:
    """Return a local tensor over some axes, which no statement fills yet."""
    target = Read(f"{LOCAL}{sum(1 for n in work.shapes if n.startswith(LOCAL))}", tuple(Var(v) for v in axes))
    work.shapes[target.buffer], work.dtypes[target.buffer] = tuple(work.extents[v] for v in axes), dtype
    return target
