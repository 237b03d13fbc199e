"""Operators of whole numbers: quotients and remainders, bits, shifts, which wrap as two's complement does."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from aoec.ops.declare import Onnx, Op, elementwise
from aoec.ops.samples import Domain

WIDE, DIVISOR = Domain("int64", -2**50, 2**50), Domain("int64", 1, 12)
SHIFTED, BITS = Domain("uint64", 0, 2**50), Domain("uint64", 0, 12)


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cut off toward zero; 0 where the divisor is."""
    a, b = np.broadcast_arrays(a, b)
    safe = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, a.dtype.type(0), (a - np.fmod(a, safe)) // safe)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return what `_quotient` leaves: the sign of the dividend."""
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))


def _bits(name: str, expression: str, reference: Callable[..., np.ndarray], bitwise: str, cann: tuple[str, ...] = ()) -> Op:
    """Return the operator on bits that ONNX and CANN call so."""
    return elementwise(name, expression, reference, sized=False, cann=cann, onnx=Onnx(bitwise, whole=True, since=18), of=WIDE)


def _shift(name: str, expression: str, reference: Callable[..., np.ndarray], direction: str) -> Op:
    return elementwise(name, expression, reference, sized=False, onnx=Onnx("BitShift", fixed={"direction": (direction, "")}, whole=True),
                       of=(SHIFTED, BITS))


OPS = (
    elementwise("whole_div", "idiv($A, $B)", _quotient, sized=False, onnx=Onnx("Div", whole=True), of=(WIDE, DIVISOR)),
    elementwise("whole_rem", "$A - idiv($A, $B) * $B", _remainder, sized=False, onnx=Onnx("Mod", fixed={"fmod": (1, 0)}, whole=True),
                of=(WIDE, DIVISOR)),
    _bits("bit_and", "bitand($A, $B)", np.bitwise_and, "BitwiseAnd", ("BitwiseAnd",)),
    _bits("bit_or", "bitor($A, $B)", np.bitwise_or, "BitwiseOr", ("BitwiseOr",)),
    _bits("bit_xor", "bitxor($A, $B)", np.bitwise_xor, "BitwiseXor", ("BitwiseXor",)),
    _bits("bit_not", "bitnot($A)", np.invert, "BitwiseNot"),
    _shift("shift_left", "shl($A, $B)", np.left_shift, "LEFT"),
    _shift("shift_right", "shr($A, $B)", np.right_shift, "RIGHT"),
)
