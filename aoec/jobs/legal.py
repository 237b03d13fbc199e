"""Whether a program is legal on a machine, looked for once: this user's runs remember which are."""
from __future__ import annotations

from aoec.ir.program import Program
from aoec.ir.show import show
from aoec.jobs.known import known
from aoec.target.check import check
from aoec.target.machine import Machine


def legal(program: Program, machine: Machine) -> None:
    """Nothing where it is; else what `check` says."""
    known(("check", show(program), machine.name, machine.hash), lambda: check(program, machine), lambda _: True, lambda _: None)
