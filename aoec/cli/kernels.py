"""What a command says while the kernels that it needs are compiled, once for an installation."""
from __future__ import annotations

from aoec.base.files.files import note


def ready_kernels() -> None:
    """Wait until the kernels that time programs are compiled, and say so where they are not yet."""
    from aoec.jobs import kernels
    from aoec.jobs.progress import show_progress
    if notice := kernels.start(tuple(kernels.TIMES)):
        note(notice)
        with show_progress("compiling kernels", len(kernels.TIMES)) as line:
            kernels.wait(tuple(kernels.TIMES), line)
