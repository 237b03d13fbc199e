"""A program, or the program of a scheduled func, as HIVM text; and what the vendor's verifier says of such a text."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aoec.ir.program import Program
from aoec.jobs.closed import closed_program
from aoec.jobs.stages.stages import Holes

if TYPE_CHECKING:
    from aoec.hivm.verifier import Verdict


def module_of(text: str, source: str, target: str | None, values: Holes, default: str, change: Callable[[Program], Program]) -> str:
    """Return the HIVM text of a program's text, or of a scheduled func's. `change`: how the program is shown."""
    from aoec.hivm.kernel import write_module
    program, machine = closed_program(text, source, target, values, default)
    return write_module(change(program), machine)


def verdict_on(text: str, python: str, seconds: float) -> tuple[Verdict, str]:
    """Return the verdict on an HIVM text by the wheel in the environment of an interpreter, and what the verifier is called."""
    from aoec.hivm.verifier import verify
    from aoec.hivm.wheel import find_wheel
    wheel = find_wheel(python)
    return verify(text, wheel, seconds), wheel.name
