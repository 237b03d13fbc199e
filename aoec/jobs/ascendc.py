"""A program, or the program of a scheduled func, as a kernel in Ascend C: text in, source and manifest out."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aoec.base.errors import CheckError
from aoec.ir.program import Program
from aoec.ir.rewrite import holes as holes_of
from aoec.jobs.stages.nouns import FIRST
from aoec.jobs.stages.stages import Holes, check_program, emit_text, program_text
from aoec.target.machine import load

if TYPE_CHECKING:
    from aoec.ascendc.kernel import Kernel


def kernel_of(text: str, source: str, target: str | None, values: Holes, release: str, default: str,
              change: Callable[[Program], Program]) -> Kernel:
    """The kernel of a program's text, or of a scheduled func's; CheckError where holes are open. `change`: how the program is shown."""
    from aoec.ascendc.kernel import write_kernel
    found = FIRST.match(text)
    if found and found[1] == "program":
        program, machine = program_text(text, source, target, values)
    else:
        program, machine = emit_text(text, source, target or default, values), load(target or default)
        if holes_of(program):
            raise CheckError(f"program {program.name} has open holes {', '.join(f'?{h}' for h in holes_of(program))}: a kernel has none; "
                             "fill them with --set", source=source)
        check_program(program, machine)
    return write_kernel(change(program), machine, release)
