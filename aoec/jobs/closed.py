"""The program of a text with all holes filled. The text is a program or a scheduled func, and a kernel is written from the program."""
from __future__ import annotations

from aoec.base.errors import CheckError
from aoec.ir.program import Program
from aoec.ir.rewrite import holes as holes_of
from aoec.jobs.stages.nouns import FIRST
from aoec.jobs.stages.stages import Holes, check_program, emit_text, program_text
from aoec.target.machine import Machine, load


def closed_program(text: str, source: str, target: str | None, values: Holes, default: str) -> tuple[Program, Machine]:
    """Return the program and its machine (`default`: of a func, where no target is given). Raise CheckError where holes are open."""
    found = FIRST.match(text)
    if found and found[1] == "program":
        return program_text(text, source, target, values)
    program, machine = emit_text(text, source, target or default, values), load(target or default)
    if holes_of(program):
        raise CheckError(f"program {program.name} has open holes {', '.join(f'?{h}' for h in holes_of(program))}: a kernel has none; "
                         "fill them with --set", source=source)
    check_program(program, machine)
    return program, machine
