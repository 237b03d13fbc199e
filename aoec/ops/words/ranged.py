"""Quantisation by the range of a tensor: its scale and zero point are known once its greatest and least elements are.

`range_high` and `range_low` find these for each row, so that cores can do it in parallel. The readers of the scale take the greatest and
least of the few that are left. A step is 1/255 of the range with 0 in it. Elements and zero point are numbers of uint8 less 128, so that
they are int8. What is known of a range is fp32, whatever reals a graph has. For a tensor of zeros the step is 1.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from aoec.ops.declare import Attributes, Op, Shape, Template, names, tensor
from aoec.ops.samples import Domain, Given, sample
from aoec.ops.words.quantised import MIDDLE

SUMS, HIGH, LOW, SCALES = Domain("int32", -2**20, 2**20), Domain(lo=1.0, hi=50.0), Domain(lo=-31.0, hi=-1.0), Domain(lo=0.1, hi=2.0)
SHARE = 1.0 / 255  # of a range, a step

# what is known of the range: its greatest and least element, the step, the zero point
RANGE = """  G[] {greatest} {high}
  L[] {least} {low}
  B[] = min(L[], 0.0)
  W[] = (max(G[], 0.0) - B[]) * {share}
  T[] = select(W[] > 0.0, W[], 1.0)
  Z[] = min(max(round(0.0 - B[] / T[]), 0.0), 255.0) - 128.0
"""


def _range(shapes: Sequence[Shape]) -> dict[str, str]:
    """Return the text about the range, and how parts are read."""
    high, low = (tensor(name, names(letter, len(shape))) for name, letter, shape in (("H", "h", shapes[0]), ("M", "l", shapes[1])))
    one = prod(shapes[0]) == 1
    parts = [tensor(name, ["0"] * len(shape)) if one else read for name, shape, read in (("H", shapes[0], high), ("M", shapes[1], low))]
    words = {"greatest": "=" if one else "max=", "least": "=" if one else "min="}
    return {"high": high, "low": low, "range": RANGE.format(high=parts[0], low=parts[1], share=SHARE, **words)}


def scale_and_zero(high: np.ndarray, low: np.ndarray) -> tuple[np.float32, np.float32]:
    """Return (the step, the zero point less 128) of a range."""
    bottom = np.minimum(np.float32(low.min()), np.float32(0))
    step = (np.maximum(np.float32(high.max()), np.float32(0)) - bottom) * np.float32(SHARE)
    step = step if step > 0 else np.float32(1)
    return step, np.clip(np.rint(-bottom / step), np.float32(0), np.float32(255)) - np.float32(MIDDLE)


def _extreme(name: str, op: str) -> Template:
    def text(shapes: Sequence[Shape], attributes: Attributes) -> str:
        loops = names("i", len(shapes[0]))
        x, y, m = tensor("X", loops), *(tensor(letter, loops[:-1]) for letter in "YM")
        return f"{name}({x}) -> {y} {{\n  {m} {op} {x}\n  {y} = {m}\n}}"
    return text


def _quantise(x: np.ndarray, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    step, zero = scale_and_zero(high, low)
    return np.clip(np.rint(x.astype(np.float32) / step) + zero, -MIDDLE, MIDDLE - 1)


def _quantise_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    loops, given = names("i", len(shapes[0])), _range(shapes[1:])
    x, y = tensor("X", loops), tensor("Y", loops)
    return (f"quantise_range({x}, {given['high']}, {given['low']}) -> {y} {{\n{given['range']}"
            f"  {y} = min(max(round(fp32({x}) / T[]) + Z[], -128.0), 127.0)\n}}")


def _step_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    given = _range(shapes)
    return f"range_step({given['high']}, {given['low']}) -> Y[o: 1] {{\n{given['range']}  Y[o] = T[]\n}}"


def _zero_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    given = _range(shapes)
    return f"range_zero({given['high']}, {given['low']}) -> Y[o: 1] {{\n{given['range']}  Y[o] = Z[]\n}}"


def _dequantise(x: np.ndarray, high: np.ndarray, low: np.ndarray, column: np.ndarray, scale: np.ndarray) -> np.ndarray:
    step, zero = scale_and_zero(high, low)
    taken = np.int32(zero) * column
    return (x - taken).astype(np.float32) * (scale * step)


def _dequantise_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    loops, given = names("i", len(shapes[0])), _range(shapes[1:])
    x, y, last = tensor("X", loops), tensor("Y", loops), loops[-1]
    return (f"dequantise_range({x}, {given['high']}, {given['low']}, C[{last}], S[{last}]) -> {y} {{\n{given['range']}"
            f"  K[] = int32(round(Z[]))\n  D[{last}] = C[{last}] * K[]\n  F[{last}] = S[{last}] * T[]\n"
            f"  {y} = fp32({x} - D[{last}]) * F[{last}]\n}}")


PARTS = Given((5,), HIGH), Given((5,), LOW)
OPS = (
    Op("range_high", _extreme("range_high", "max="), lambda x: x.max(axis=-1), "extreme", dtype="fp32", samples=(sample((5, 12)),)),
    Op("range_low", _extreme("range_low", "min="), lambda x: x.min(axis=-1), "extreme", dtype="fp32", samples=(sample((5, 12)),)),
    Op("range_step", _step_text, lambda high, low: scale_and_zero(high, low)[0].reshape(1), "ranged", dtype="fp32",
       samples=(sample(*PARTS),)),
    Op("range_zero", _zero_text, lambda high, low: scale_and_zero(high, low)[1].reshape(1), "ranged", dtype="int8",
       samples=(sample(*PARTS),)),
    Op("quantise_range", _quantise_text, _quantise, "ranged", dtype="int8", cann=("DynamicQuantize",),
       samples=(sample((5, 12), *PARTS),)),
    Op("dequantise_range", _dequantise_text, _dequantise, "ranged", dtype="fp32", cann=("AscendDequant",),
       samples=(sample(Given((5, 12), SUMS), *PARTS, Given((12,), SUMS), Given((12,), SCALES)),)),
)
