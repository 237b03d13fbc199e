"""`aoec search --space`: the space of a func, shown and not searched: sketches, holes, and what each constraint leaves."""
from __future__ import annotations

from collections.abc import Sequence
from math import hypot

from aoec.ir.func.tir import Constraint
from aoec.ir.index import hole_names
from aoec.jobs.tune.tuning import Problem, Sketch
from aoec.search.space.count import Cut, cuts
from aoec.search.space.grid import Grid
from aoec.search.space.name import structure
from aoec.search.space.restrict import Restriction

Facts = dict[str, object]


def space_facts(p: Problem, restriction: Restriction) -> Facts:
    """Return the space as plain values. Counts are exact, or estimates whose standard error stands beside them."""
    found = all_cuts(p)
    shown = [sketch_facts(s, g, c, restriction) for s, g, c in zip(p.sketches, p.space.grids, found)]
    last = [legal(g, c) for g, c in zip(p.space.grids, found)]
    return {"kind": "space", "func": p.func.name, "target": p.machine.name, "size": p.space.size, "legal": sum(left for left, _ in last),
            "error": hypot(*[error for _, error in last]), "refused": p.refused, "sketches": shown}


def all_cuts(p: Problem) -> list[list[Cut]]:
    """Return what each constraint leaves of each sketch's grid; sketches that differ in the order of loops alone are counted once."""
    known: dict[tuple[Grid, tuple[Constraint, ...]], list[Cut]] = {}
    asked = [(g, tuple(s.program.constraints)) for g, s in zip(p.space.grids, p.sketches)]
    return [known[one] if one in known else known.setdefault(one, cuts(*one)) for one in asked]


def sketch_facts(sketch: Sketch, grid: Grid, found: Sequence[Cut], restriction: Restriction) -> Facts:
    """Return one sketch: its structure, its holes, and its constraints in the order in which they are looked at."""
    left, error = legal(grid, found)
    return {"sketch": sketch.number, "structure": structure(sketch.trace), "size": grid.size, "legal": left, "error": error,
            "holes": dict(zip(grid.names, map(list, grid.choices))), "not_restricted_by": restriction.passes_over(grid.names),
            "constraints": [{"reason": c.constraint.reason, "holes": sorted(hole_names(c.constraint.condition)), "left": c.left,
                             "error": c.error} for c in found]}


def legal(grid: Grid, found: Sequence[Cut]) -> tuple[int, float]:
    """Return (candidates that keep all constraints, standard error)."""
    return (found[-1].left, found[-1].error) if found else (grid.size, 0.0)


def why_empty(p: Problem) -> str:
    """Return a sentence on why a space is empty: what excluded the last candidates of the sketch that had most. Return "" where some are
    left, or may be."""
    ends = [end for g, found in zip(p.space.grids, all_cuts(p)) for end in last_cut(g, found)]
    if len(ends) < len(p.sketches):
        return ""
    before, reason = max(ends, key=lambda end: (not end[1].startswith("--where"), end[0]))
    if reason.startswith("--where"):
        return f"nothing is left of the space: none of {before:,} candidates keeps {reason.removesuffix(' holds')}; ask for less"
    return f"none of {before:,} candidates is legal: {reason}"


def last_cut(grid: Grid, found: Sequence[Cut]) -> list[tuple[int, str]]:
    """Return [(candidates before the constraint that left none, its reason)]. Return [] where some are left, or where the count is an
    estimate."""
    left = [grid.size, *[c.left for c in found]]
    return [(left[i], c.constraint.reason) for i, c in enumerate(found) if not c.left and not c.error][:1]
