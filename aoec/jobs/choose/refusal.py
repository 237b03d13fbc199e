"""The reason, in words, why a group has no schedule. Such a group ends no job: fused operators are split, and a single one runs on the
host.

A refusal states its own reason. A fault of aoec itself, in lowering, scheduling or emitting one group, must not lose the rest of the model
either. It is reported as such a fault. An error that does not concern one group goes on to the user: memory, files, a machine file that
lacks something.

Tests need to see each fault. With $AOEC_RAISE_FAULTS set, as in tests/conftest.py, a fault ends the job.
"""
from __future__ import annotations

import os

from aoec.base.errors import AoecError, BackendError, BankError, TargetError, one_line

OF_ALL = (MemoryError, OSError, ImportError, BackendError, BankError, TargetError)
RAISE = "AOEC_RAISE_FAULTS"  # an environment variable, for worker processes have it too
LONGEST = 200  # characters of another exception's text


class IllegalProgram(Exception):
    """What aoec made is no program that its machine takes: a fault of aoec itself."""


def refusal(e: Exception) -> str:
    """Return why a group has no schedule; the exception itself again where it is no matter of a group."""
    if isinstance(e, OF_ALL):
        raise e
    if isinstance(e, AoecError):
        return str(e)
    if os.environ.get(RAISE):
        raise e
    said = one_line((str(e).splitlines() or ["no message"])[0][:LONGEST])
    return f"a fault of aoec itself, {type(e).__name__}: {said}; please report it with the model"
