"""A program, or the program of a scheduled func, as a kernel in Ascend C: text in, source and manifest out."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aoec.ir.program import Program
from aoec.jobs.closed import closed_program
from aoec.jobs.stages.stages import Holes

if TYPE_CHECKING:
    from aoec.ascendc.kernel import Kernel


def kernel_of(text: str, source: str, target: str | None, values: Holes, release: str, default: str,
              change: Callable[[Program], Program]) -> Kernel:
    """Return the kernel of a program's text, or of a scheduled func's. Raise CheckError where holes are open. `change`: how the program is
    shown."""
    from aoec.ascendc.kernel import write_kernel
    program, machine = closed_program(text, source, target, values, default)
    return write_kernel(change(program), machine, release)
