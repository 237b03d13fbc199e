"""The dictionary of schedule moves; a trace is a list of their uses."""
from __future__ import annotations

from functools import lru_cache

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func
from aoec.ir.schedule import Step, Trace
from aoec.primitives.primitive import Primitive, from_step, primitives

__all__ = ["Primitive", "apply", "check", "primitives"]


def check(trace: Trace) -> None:
    """Raise ScheduleError for the first step that is not a primitive with fields of the right names and types."""
    for number, step in enumerate(trace.steps, 1):
        _at(number, step, None)


def apply(func: Func, trace: Trace) -> Func:
    """Return the scheduled func, with the constraints on holes that the steps add.

    Raises ScheduleError with the number of the first step that cannot be applied; `func` itself never changes.
    """
    for number, step in enumerate(trace.steps, 1):
        done = _at(number, step, func)
        assert done is not None
        func = done
    return func


class _Same:
    """A func as a key that equals itself alone: to compare funcs whole takes longer than many a step."""

    __slots__ = ("func",)

    def __init__(self, func: Func) -> None:
        self.func = func

    def __hash__(self) -> int:
        return id(self.func)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.func is self.func


@lru_cache(maxsize=512)
def _after(same: _Same, step: Step) -> Func:
    """Return the func after a step; sketches of one func begin alike, and what they share is done once."""
    return from_step(step).apply(same.func)


def _at(number: int, step: Step, func: Func | None) -> Func | None:
    """Return the func after the step (None: the step is only checked); its errors say which step it was."""
    try:
        if func is not None:
            return _after(_Same(func), step)
        from_step(step)
        return None
    except ScheduleError as e:
        raise ScheduleError(f"step {number}, {step.primitive}: {e}") from None
