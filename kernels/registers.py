"""Registers of a tape given on to others, and equal rows of a matrix. Imports nothing of aoec."""
from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, _nrt=False)
def distinct(values, which, first, slots):
    """Return how many different rows `values` has, in the order in which they first occur. Fill `which` with the number of each row,
    and `first` with the place where each first occurs.

    `slots` is for the search. Its size is a power of two and greater than the number of rows.
    """
    count, mask = 0, slots.shape[0] - 1
    for k in range(slots.shape[0]):
        slots[k] = -1
    for r in range(values.shape[0]):
        h = np.uint64(1469598103934665603)
        for c in range(values.shape[1]):
            h = (h ^ np.uint64(values[r, c])) * np.uint64(1099511628211)
            h ^= h >> np.uint64(29)
        at = np.int64(h & np.uint64(mask))
        while True:
            k = slots[at]
            if k < 0:
                slots[at] = count
                first[count], which[r] = r, count
                count += 1
                break
            same = True
            for c in range(values.shape[1]):
                if values[first[k], c] != values[r, c]:
                    same = False
                    break
            if same:
                which[r] = k
                break
            at = (at + 1) & mask
    return count


@njit(cache=True, nogil=True)
def settle(operands, kept, wanted, place):
    """Return how many places are taken by the registers of a tape that the `wanted` ones need. Fill the place of each, or -1 for a
    register that nothing needs.

    A register is made of its operands [3, register], which all come before it. A place is reused when nothing reads its register any
    more. Places of `kept` registers and wanted ones are not reused.
    """
    count = operands.shape[1]
    last = np.full(count, -1)  # what reads it last
    for r in wanted:
        last[r] = count
    for r in range(count - 1, -1, -1):
        if last[r] >= 0:
            for k in range(3):
                x = operands[k, r]
                if x >= 0 and last[x] < 0:
                    last[x] = r
    free, spare, top = np.empty(count + 1, np.int64), 0, 0
    for r in kept:
        if last[r] >= 0:
            last[r] = count
            place[r] = top
            top += 1
    for r in range(count):
        if last[r] >= 0 and place[r] < 0:
            if spare > 0:
                spare -= 1
                place[r] = free[spare]
            else:
                place[r] = top
                top += 1
            for k in range(3):
                x = operands[k, r]
                if x >= 0 and last[x] == r:
                    last[x] = count
                    free[spare] = place[x]
                    spare += 1
    return top
