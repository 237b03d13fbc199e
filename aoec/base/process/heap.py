"""Memory that was freed, and the system."""
from __future__ import annotations

import contextlib
import ctypes


def give_back() -> None:
    """Nothing; what was freed is the system's again, where the C library does so when it is asked.

    glibc keeps what was freed for what comes next, in a heap a thread, and the more the larger the arrays were (mallopt(3),
    M_MMAP_THRESHOLD): a process that goes from task to task grows to the sum of what its threads once held. It takes some milliseconds.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library, or none that can be asked
        ctypes.CDLL(None).malloc_trim(0)
