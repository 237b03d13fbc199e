"""Memory that was freed, and the system."""
from __future__ import annotations

import contextlib
import ctypes


def give_back() -> None:
    """Return freed memory to the system, where the C library can do so.

    glibc keeps freed memory for later use, in one heap a thread. It keeps more, the larger the arrays were (mallopt(3),
    M_MMAP_THRESHOLD). So a process that runs task after task grows to the sum of what its threads once held. The call takes some
    milliseconds.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library, or none that can be asked
        ctypes.CDLL(None).malloc_trim(0)
