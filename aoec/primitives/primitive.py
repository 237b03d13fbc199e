"""What a primitive is, and the words of the dictionary: one file of this folder each, found by looking at the folder."""
from __future__ import annotations

import difflib
import importlib
import types
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from random import Random
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from aoec.base.errors import ScheduleError
from aoec.base.modules import module_names
from aoec.ir.func.regions import plain
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr
from aoec.ir.schedule import Step, Value
from aoec.primitives.samples import Names

NAMES = tuple[str, ...]


@dataclass(frozen=True)
class Primitive:
    """A schedule move. Fields are names (`str`), lists of names or expressions; those with a default may be left out."""

    word: ClassVar[str]

    def apply(self, func: Func) -> Func:
        """Return a func with the same meaning. Raise ScheduleError where there is none, and nothing is changed."""
        raise NotImplementedError

    @classmethod
    def sample(cls, func: Func, random: Random) -> Self:
        """Return a call with names of a func, legal most often: what laws try. By the names of the fields that must be given; a primitive
        whose fields belong together in another way has its own."""
        names, kinds = Names(func, random), field_types(cls)  # type: ignore[arg-type]  # mypy takes the hash of its instances
        return cls(**{f.name: names.value(f.name, kinds[f.name]) for f in fields(cls) if f.default is MISSING})

    def step(self) -> Step:
        """Return the step of a trace that says this."""
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return Step(self.word, tuple(given))


@lru_cache(maxsize=1)
def primitives() -> dict[str, type[Primitive]]:
    """Word -> primitive, for every file of this folder that defines one of its own name."""
    out = {}
    package = __name__.rpartition(".")[0]
    for name in module_names(package):
        for item in vars(importlib.import_module(f"{package}.{name}")).values():
            if isinstance(item, type) and issubclass(item, Primitive) and getattr(item, "word", None) == name:
                out[name] = item
    return out


def near(name: str, known: Any) -> str:
    """Return a hint at what was meant: ` (did you mean x?)`, or what there is."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f"; there is {', '.join(known[:12])}{', ...' if len(known) > 12 else ''}" if known else ""


@cache
def field_types(primitive: type[Primitive]) -> dict[str, Any]:
    """Return field -> its type without `| None`."""
    hints = get_type_hints(primitive)
    return {f.name: _without_none(hints[f.name]) for f in fields(primitive)}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return next(a for a in get_args(hint) if a is not type(None))
    return hint


def from_step(step: Step) -> Primitive:
    """Return the primitive that a step says. Raise ScheduleError where it is no word, or a field is wrong, missing or unknown."""
    words = primitives()
    if step.primitive not in words:
        raise ScheduleError(f"unknown primitive {step.primitive}{near(step.primitive, words)}")
    word = words[step.primitive]
    kinds = field_types(word)  # type: ignore[arg-type]  # mypy takes the hash of its instances for that of the class
    given: dict[str, Any] = {}
    for name, value in step.fields:
        if name not in kinds:
            raise ScheduleError(f"{step.primitive} has no field {name}{near(name, kinds)}")
        if name in given:
            raise ScheduleError(f"{step.primitive} is given {name} twice")
        given[name] = _convert_field(f"{step.primitive}'s {name}", kinds[name], value)
    missing = [f.name for f in fields(word) if f.default is MISSING and f.name not in given]
    if missing:
        raise ScheduleError(f"{step.primitive} needs {' and '.join(missing)}")
    return word(**given)


def _convert_field(what: str, kind: Any, value: Value) -> Any:
    if kind is Expr and isinstance(value, Expr):
        return plain(value)
    if kind is str and isinstance(value, str):
        return value
    if kind == NAMES and isinstance(value, (tuple, str)):
        return (value,) if isinstance(value, str) else value
    wanted = {Expr: "a number or a hole", str: "a name"}.get(kind, "a list of names")
    got = "a list" if isinstance(value, tuple) else f"the name {value}" if isinstance(value, str) else "an expression"
    raise ScheduleError(f"{what} is {wanted}, not {got}")
