"""Operators of whole numbers: quotients and remainders, bits, shifts, which wrap as two's complement does."""
from __future__ import annotations

import numpy as np

from aoec.ops.declare import elementwise


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cut off toward zero; 0 where the divisor is."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, a.dtype.type(0), (a - np.fmod(a, safe)) // safe)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What `_quotient` leaves: the sign of the dividend."""
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))


OPS = (
    elementwise("whole_div", "idiv($A, $B)", _quotient, sized=False),
    elementwise("whole_rem", "$A - idiv($A, $B) * $B", _remainder, sized=False),
    elementwise("bit_and", "bitand($A, $B)", np.bitwise_and, sized=False),
    elementwise("bit_or", "bitor($A, $B)", np.bitwise_or, sized=False),
    elementwise("bit_xor", "bitxor($A, $B)", np.bitwise_xor, sized=False),
    elementwise("bit_not", "bitnot($A)", np.invert, sized=False),
    elementwise("shift_left", "shl($A, $B)", np.left_shift, sized=False),
    elementwise("shift_right", "shr($A, $B)", np.right_shift, sized=False),
)
