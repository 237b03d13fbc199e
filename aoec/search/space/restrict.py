"""Restrictions of a space: holes pinned to values, values excluded, conditions over holes, sketches picked.

A pin and an exclusion take choices away from a hole. A condition becomes the first constraint of a sketch's program. So whatever reads
choices and constraints (the default, every strategy, a proof) keeps to the restricted space without code of its own. A sketch may lack the
hole of a pin, or some holes of a condition. It is then left as it is, because it cannot break them.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aoec.base.errors import CheckError, ScheduleError
from aoec.base.text import nearest
from aoec.ir.func.tir import Constraint
from aoec.ir.index import INT_CALLS, Binary, Call, Expr, Hole, Int, Var, evaluate, hole_names, rebuild, walk
from aoec.ir.program import Program
from aoec.ir.rewrite import holes, map_exprs, replace_holes
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_expr

Values = tuple[int, ...]
Choices = dict[str, Values]  # hole -> choices


@dataclass(frozen=True)
class Restriction:
    """What a user leaves of a space. `pins`: only these values of a hole; `excluded`: not these; `where`: (text, condition over holes);
    `picked`: only these sketches, by number; none: all."""

    pins: tuple[tuple[str, Values], ...] = ()
    excluded: tuple[tuple[str, Values], ...] = ()
    where: tuple[tuple[str, Expr], ...] = ()
    picked: Values = ()

    def constraints(self, names: Iterable[str]) -> tuple[Constraint, ...]:
        """Return the conditions that a sketch with these holes must keep."""
        known = frozenset(names)
        return tuple(Constraint(e, f"--where {text!r} holds") for text, e in self.where if hole_names(e) <= known)

    def on(self, program: Program) -> Program:
        """Return the program with the conditions in front of its own constraints."""
        return replace(program, constraints=(*self.constraints(holes(program)), *program.constraints)) if self.where else program

    def passes_over(self, names: Iterable[str]) -> list[str]:
        """Return the options that say nothing of a sketch with these holes."""
        known = frozenset(names)
        cuts = [option for option, name, _ in self.cuts() if name not in known]
        return [*dict.fromkeys(cuts), *[f"--where {text!r}" for text, e in self.where if not hole_names(e) <= known]]

    def cuts(self) -> Iterator[tuple[str, str, Callable[[int], bool]]]:
        """Yield (option, hole, which values it keeps) of each pin and exclusion."""
        for name, values in self.pins:
            yield f"--pin {name}={','.join(map(str, values))}", name, values.__contains__
        for name, values in self.excluded:
            yield f"--exclude {name}={','.join(map(str, values))}", name, lambda v, values=values: v not in values  # type: ignore[misc]


NONE = Restriction()


# ---------------------------------------------------------------- what is left

def restrict_sketches(sketches: Sequence[Trace], restriction: Restriction) -> list[Trace | None]:
    """Return each sketch with the choices that pins and exclusions leave, or None where none are left or it is not picked.
    CheckError for a hole or number that is not there. ScheduleError, with the option that did it, where no sketch is left."""
    choices = [holes(s) for s in sketches]
    check_known(choices, restriction)
    left: list[Choices | None] = [c if i in (restriction.picked or (i,)) else None for i, c in enumerate(choices)]
    for option, name, keeps in restriction.cuts():
        before, left = left, [cut_choices(c, name, keeps) for c in left]
        if not any(c is not None for c in left):
            raise ScheduleError(nothing_left(option, name, before))
    return [None if c is None else with_choices(s, c) for s, c in zip(sketches, left)]


def cut_choices(choices: Choices | None, name: str, keeps: Callable[[int], bool]) -> Choices | None:
    """Return the choices with only those values of a hole that an option keeps; None where it keeps none."""
    if choices is None or name not in choices:
        return choices
    kept = tuple(filter(keeps, choices[name]))
    return {**choices, name: kept} if kept else None


def nothing_left(option: str, name: str, before: Sequence[Choices | None]) -> str:
    """Return a sentence on an option that leaves no sketch, with what the hole could have been."""
    values = sorted({v for c in before if c is not None for v in c[name]})
    return f"{option} leaves nothing of the space: ?{name} is one of {', '.join(map(str, values))}; leave some of them"


def with_choices(sketch: Trace, choices: Mapping[str, Values]) -> Trace:
    """Return the sketch with these choices of its holes, where each hole states them."""
    return map_exprs(sketch, lambda e: replace_holes(e, lambda h: Hole(h.name, choices[h.name] if h.choices else ())))


def check_known(choices: Sequence[Mapping[str, Values]], restriction: Restriction) -> None:
    """Raise CheckError for a hole that no sketch has, or a sketch that is not there."""
    known = {name for c in choices for name in c}
    for option, name, _ in restriction.cuts():
        if name not in known:
            raise CheckError(f"{option}: no sketch has a hole ?{name}{nearest(name, known)}")
    for text, condition in restriction.where:
        for name in sorted(hole_names(condition) - known):
            raise fault(f"no sketch has a hole ?{name}{nearest(name, known)}", text, name)
    for number in restriction.picked:
        if number >= len(choices):
            raise CheckError(f"--sketch {number}: sketches are numbered from 0 to {len(choices) - 1}")


# ---------------------------------------------------------------- conditions

def parse_where(text: str) -> tuple[str, Expr]:
    """Return (text, condition): an integer expression over holes, written `tm` or `?tm`. ParseError or CheckError with a caret."""
    e = name_holes(parse_expr(text, "--where"))
    for part in reversed(list(walk(e))):
        if why := not_integer(part):
            raise fault(f"{why}; a condition is of integers and holes, as in tm*tn <= 32768", text, spelt(part))
    if not hole_names(e):
        raise fault("the condition names no hole; for example tm*tn <= 32768", text, "")
    return text, e


def name_holes(e: Expr) -> Expr:
    """Return the expression with plain names as holes, and holes without choices."""
    if isinstance(e, (Var, Hole)):
        return Hole(e.name)
    return rebuild(e, name_holes)


def not_integer(e: Expr) -> str:
    """Return why this part of a condition has no integer value, in words; empty where it has one. Its own parts have one."""
    if isinstance(e, Call) and e.fn not in INT_CALLS:
        return f"{e.fn} is of reals"
    if isinstance(e, Binary) and e.op == "/":
        return "/ is of reals (// divides integers)"
    if not isinstance(e, (Int, Hole, Binary, Call)):
        return "this is no integer"
    by = e.right if isinstance(e, Binary) and e.op in ("//", "%") else e.args[1] if isinstance(e, Call) and e.fn == "ceildiv" else None
    return "this divides by zero" if by is not None and not hole_names(by) and evaluate(by, {}) == 0 else ""


def spelt(e: Expr) -> str:
    """Return how a part of a condition begins in its text, as far as that is known."""
    return e.fn if isinstance(e, Call) else e.op if isinstance(e, Binary) else getattr(e, "buffer", "") or getattr(e, "dtype", "")


def fault(message: str, text: str, word: str) -> CheckError:
    """Return the error with a caret under the first place of a word in a condition, or under its beginning."""
    found = re.search(rf"\??(?<!\w){re.escape(word)}(?!\w)" if word.isidentifier() else re.escape(word), text)
    at = found.start() if found else 0
    return CheckError(message, text, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), "--where")
