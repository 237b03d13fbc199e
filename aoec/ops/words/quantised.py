"""Operators between reals and whole numbers of eight bits: real = (number - zero point) * scale.

Scales stay in fp32 and zero points in the dtype of the numbers, whatever reals a graph has. `requantise` converts a product's sums when
they are written, with a scale for each column or channel. `add_quantised` adds the reals that two tensors of int8 stand for. uint8 that
only moves on to a product is int8, with 128 subtracted (`signed`), and so is its zero point.
"""
from __future__ import annotations

import numpy as np

from aoec.ops.declare import Attributes, Op, elementwise
from aoec.ops.samples import POSITIVE, REAL, Domain

BYTES, SUMS = Domain("int8", -128, 127), Domain("int32", -2**20, 2**20)
MIDDLE = 128.0  # what uint8 has more than int8


def _dequantise(a: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    return (a.astype(np.float32) - zero.astype(np.float32)) * scale


def _quantise(a: np.ndarray, scale: np.ndarray, zero: np.ndarray, lo: float, hi: float) -> np.ndarray:
    return np.clip(np.rint(a / scale) + zero.astype(np.float32), lo, hi)


def _requantise(a: np.ndarray, scale: np.ndarray, zero: float) -> np.ndarray:
    return np.clip(np.rint(a.astype(np.float32) * scale) + np.float32(zero), -128, 127)


def _add_quantised(a: np.ndarray, b: np.ndarray, scale_a: float, scale_b: float, offset: float, more_a: float, more_b: float,
                   more: float) -> np.ndarray:
    first, second = ((x.astype(np.float32) + np.float32(m)) * np.float32(s) for x, m, s in ((a, more_a, scale_a), (b, more_b, scale_b)))
    return np.clip(np.rint(first + np.float32(offset) + second) - np.float32(more), -128, 127)


def _sum(attributes: Attributes) -> str:
    """Return the expression of `add_quantised`: what uint8 has more than int8 is added where there is any."""
    a, b = (f"(fp32(${x}) + more_{x.lower()})" if attributes[f"more_{x.lower()}"] else f"fp32(${x})" for x in "AB")
    whole = f"round({a} * scale_a + offset + {b} * scale_b)"
    return f"min(max({whole} - more, -128.0), 127.0)" if attributes["more"] else f"min(max({whole}, -128.0), 127.0)"


OPS: tuple[Op, ...] = (
    elementwise("dequantise", "(fp32($A) - fp32($C)) * $B", _dequantise, sized=False, dtype="fp32", cann=("AscendDequant",),
                of=(BYTES, POSITIVE, BYTES)),
    elementwise("quantise", "min(max(round($A / $B) + fp32($C), lo), hi)", _quantise, "lo, hi", sized=False, dtype="int8",
                cann=("AscendQuant",), of=(REAL, POSITIVE, BYTES)),
    elementwise("requantise", "min(max(round(fp32($A) * $B) + zero, -128.0), 127.0)", _requantise, "zero", sized=False, dtype="int8",
                cann=("AscendRequant",), of=(SUMS, POSITIVE)),
    # scales are those of the operands over the result's; `offset` has what zero points make; a step of half a number falls as it does in
    # onnxruntime's addition of bytes, which has these terms in this order (uint8 as it is: `more`)
    elementwise("add_quantised", _sum, _add_quantised, "scale_a, scale_b, offset, more_a, more_b, more", sized=False, dtype="int8",
                of=BYTES),
    elementwise("signed", f"fp16($A) - {MIDDLE}", lambda a: a.astype(np.float32) - np.float32(MIDDLE), sized=False, dtype="int8",
                of=Domain("uint8", 0, 255)),
    elementwise("unsigned", f"fp16($A) + {MIDDLE}", lambda a: a.astype(np.float32) + np.float32(MIDDLE), sized=False, dtype="uint8",
                of=BYTES),
)
