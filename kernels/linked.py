"""Says how each kernel is compiled: as an entry that Python calls, or as a part of kernels. Imports nothing of aoec.

Where the version of Numba is one of `TRIED`, parts are compiled with their entries (`linker.py`), which is faster. Others compile in
the way that is Numba's own: values and times are the same. After a change here or there delete `__pycache__`: Numba looks for changes in
the file that defines a kernel only.
"""
from __future__ import annotations

import numba
from numba import njit

# versions of Numba with which kernels were linked and compared with those that were not
TRIED = ("0.68",)

# no kernel makes an array, so that none is counted (_nrt): each call and each look into a struct would count the references of what it
# holds, atomically. `inner` and `inline` have no way in from Python, and no check of divisors, none of which is zero
_entry = {"cache": True, "nogil": True}
_part = {"nogil": True, "error_model": "numpy", "no_cpython_wrapper": True}
if numba.__version__.rpartition(".")[0] in TRIED:
    from .linker import Entry, Part, compiler
    _entry |= {"_nrt": False, "pipeline_class": compiler(Entry)}
    _part |= {"_nrt": False, "no_cfunc_wrapper": True, "pipeline_class": compiler(Part)}


def entry(function, **options):
    """Return a kernel that Python calls, kept on disk."""
    return njit(**_entry, **options)(function)


def inner(function):
    """Return a function that only kernels call."""
    return njit(**_part)(function)


def inline(function):
    """Return a function that only kernels call, and that becomes part of each that does."""
    return njit(**_part, forceinline=True)(function)


def by_address(function):
    """Return a function that kernels call by its address, kept on disk: it is not compiled with those that call it."""
    return njit(**_entry, error_model="numpy", no_cpython_wrapper=True)(function)
