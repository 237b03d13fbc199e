"""What leaves a group without a schedule, in words. It ends no job: fused operators go apart, and a single one to the host.

A refusal says itself why. A fault of aoec itself in what lowers, schedules or emits one group is no reason either to lose the rest of the
model; it is said as what it is. What is no matter of one group (memory, files, a machine file that lacks something) goes on to the user.

Tests want to see each fault: with $AOEC_RAISE_FAULTS set, as tests/conftest.py does, one ends the job after all.
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
