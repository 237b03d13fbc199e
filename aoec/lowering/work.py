"""What lowering of vector groups works on: statements over named tensors with the extent of each axis."""
from __future__ import annotations

from dataclasses import dataclass, field

from aoec.ir.index import Read, reads, variables
from aoec.ir.meaning import Statement


@dataclass
class Work:
    """Statements over named tensors, with the extent of each axis; tensors of the group by the name they have here."""

    statements: list[Statement] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)


def accesses(work: Work) -> list[Read]:
    return [r for s in work.statements for r in [s.target, *reads(s.value)]]


def axes_of(s: Statement) -> list[str]:
    """Axes of a statement, in the order of its largest read (lanes innermost), then of its target; what a reduction keeps and does
    not read (the one row of a sum over everything) comes first."""
    read = frozenset().union(*[variables_of(r) for r in reads(s.value)])
    found = [v for i in s.target.indices for v in sorted(variables(i)) if v not in read] if s.op != "=" else []
    for r in sorted([*reads(s.value), s.target], key=lambda r: -len(variables_of(r))):
        found += [v for i in r.indices for v in sorted(variables(i)) if v not in found]
    return found


def variables_of(r: Read) -> frozenset[str]:
    return frozenset().union(*[variables(i) for i in r.indices])
