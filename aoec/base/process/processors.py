"""How many processors this process has to itself: all, or a worker process its share of them."""
from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

# what the libraries under NumPy and SciPy ask, each when it is loaded, for how many threads to start; whoever set one meant it
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_share = 0  # of a worker process; 0: nobody shares


def threads() -> int:
    """Return how many threads may work at once in this process."""
    return _share or os.cpu_count() or 1


def keep_to(share: int) -> None:
    """Set the number of processors that this process uses from now on."""
    global _share
    _share = share


def share_of(processes: int) -> int:
    """Return how many processors each of so many processes has."""
    return max(1, (os.cpu_count() or 1) // processes)


@contextmanager
def few_threads(share: int) -> Iterator[None]:
    """Limit processes that are started inside to `share` threads each for matrix products. Otherwise the threads of several processes
    spin while they wait for each other, and so take processor time from each other."""
    set_here = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(set_here, str(share)))
    try:
        yield
    finally:
        for name in set_here:
            os.environ.pop(name, None)
