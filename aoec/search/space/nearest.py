"""A filled schedule found again in a space: the candidate of the sketch of its structure whose numbers are nearest."""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from aoec.base.errors import CheckError
from aoec.ir.index import Expr, Int, evaluate, hole_names
from aoec.ir.rewrite import fill, holes
from aoec.ir.schedule import Step, Trace
from aoec.search.space.grid import Candidate, Grid

Equation = tuple[Expr, int]  # an expression with holes, and the number that the schedule has in its place


def nearest_candidates(sketches: Sequence[Trace], grids: Sequence[Grid], trace: Trace) -> list[Candidate]:
    """Return the candidates nearest to a schedule, at most one of each sketch that has its structure. Whether they are legal is not
    asked.
    For the same func this is the schedule itself, where the space still has it. For another shape it has the nearest tiles."""
    out = []
    for number, (sketch, grid) in enumerate(zip(sketches, grids)):
        equations = match_structure(sketch, trace)
        if equations is not None:
            known = nearest_choices(equations, dict(zip(grid.names, grid.choices)))
            out.append((number, tuple(known.get(n, choices[0]) for n, choices in zip(grid.names, grid.choices))))
    return out


def match_structure(sketch: Trace, trace: Trace) -> list[Equation] | None:
    """Return the equations between a sketch's holes and the schedule's numbers; None where their structures differ."""
    if len(sketch.steps) != len(trace.steps):
        return None
    out: list[Equation] = []
    for step, filled in zip(sketch.steps, trace.steps):
        found = equations(step, filled)
        if found is None:
            return None
        out += found
    return out


def equations(step: Step, filled: Step) -> list[Equation] | None:
    """Return the same of one step. Numbers that a sketch has already are its func's: another shape has others."""
    if step.primitive != filled.primitive or [n for n, _ in step.fields] != [n for n, _ in filled.fields]:
        return None
    out = []
    for (_, here), (_, there) in zip(step.fields, filled.fields):
        if isinstance(here, Expr) != isinstance(there, Expr) or not isinstance(here, Expr) and here != there:
            return None
        if isinstance(here, Expr) and isinstance(there, Int) and hole_names(here):
            out.append((here, there.value))
    return out


def solve_holes(sketch: Trace, trace: Trace) -> dict[str, int] | None:
    """Return the values of a sketch's holes that make it the schedule, whether they are choices or not; None where there are none."""
    equations, choices = match_structure(sketch, trace), holes(sketch)
    known: dict[str, int] = {}
    for e, number in sorted(equations or (), key=lambda equation: len(hole_names(equation[0]))):
        left = [*hole_names(e) - {*known}]
        value = solution(e, left[0], known, number, choices[left[0]]) if len(left) == 1 else None
        if value is None and left:
            return None
        known |= {name: value for name in left if value is not None}
    return known if equations is not None and known.keys() == choices.keys() and fill(sketch, known) == trace else None


def solution(e: Expr, name: str, known: dict[str, int], number: int, choices: tuple[int, ...]) -> int | None:
    """Return the value of a hole with which an expression is a number: one of its choices, or what is left of the number."""
    unit = evaluate(e, known | {name: 1})
    tried = dict.fromkeys([*choices, number, number // unit if unit else 0])
    return next((v for v in tried if evaluate(e, known | {name: v}) == number), None)


def nearest_choices(equations: Iterable[Equation], choices: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """Return, for each hole, the choice that brings its expression nearest to its number.
    Expressions of one hole come first, then those in which the solved holes leave one open: a chunk is a tile times a count."""
    known: dict[str, int] = {}
    for e, number in sorted(equations, key=lambda equation: len(hole_names(equation[0]))):
        names = [*hole_names(e) - {*known}]
        if len(names) == 1:
            known[names[0]] = min(choices[names[0]], key=distance_from(e, names[0], known, number))
    return known


def distance_from(e: Expr, name: str, known: dict[str, int], number: int) -> Callable[[int], float]:
    """Return a function of a choice of one hole: how far an expression is from a number, as the logarithm of the ratio."""
    def far(choice: int) -> float:
        try:
            return abs(math.log((evaluate(e, known | {name: choice}) + 1) / (number + 1)))
        except (CheckError, ValueError, ZeroDivisionError):
            return math.inf

    return far
