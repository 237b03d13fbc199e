"""Whether a program is legal on a machine, looked for once: this user's runs remember which are."""
from __future__ import annotations

from aoec.base.errors import AoecError
from aoec.ir.func.tir import Func
from aoec.ir.program import Program
from aoec.ir.text.show import show
from aoec.jobs.choose.refusal import IllegalProgram
from aoec.jobs.known import recall
from aoec.jobs.tune.made import emit_trace
from aoec.target.legality.check import check
from aoec.target.machine import Machine


def legal(program: Program, machine: Machine) -> None:
    """Raise what `check` raises where the program is not legal."""
    recall(("check", show(program), machine.name, machine.hash), lambda: check(program, machine), lambda _: True, lambda _: None)


def schedule_legal(func: Func, trace: str, machine: Machine) -> None:
    """Raise IllegalProgram where the program of a schedule that aoec chose is not legal."""
    try:
        legal(emit_trace(func, trace, machine)[1], machine)
    except AoecError as e:
        raise IllegalProgram(f"its program is not legal: {e}") from e
