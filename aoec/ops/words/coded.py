"""Reals of eight and four bits as a graph holds them: codes, a byte each. `decode` gives their values, `encode` the nearest code.

A code is a sign, the bits of an exponent and those of a mantissa. The lowest exponent is that of the numbers that have no leading one. Each
format says which codes are NaN or infinite. The FP8 formats are of Micikevicius et al., arXiv 2209.05433; those ending in uz are of Noune
et al., arXiv 2206.02915. E2M1 and E8M0 are of OCP Microscaling Formats 1.0. E8M0 has neither sign nor mantissa: its numbers are powers of
two. Multiplications by powers of two are exact. So rounding is one `round` of the number counted in steps of the result.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from aoec.ops.declare import Attributes, Op, Shape, names, tensor
from aoec.ops.samples import Domain, Given, sample


@dataclass(frozen=True)
class Format:
    """A format with a sign. `least`: the exponent of the least number with a leading one; `top`: the code of the greatest number; `beyond`:
    the code of what is greater and not held to it; `nan`: the code of what is no number."""

    bits: int
    mantissa: int
    least: int
    top: int
    beyond: int
    nan: int
    dtype: Any

    @property
    def sign(self) -> int:
        """Return the code of -0, or what stands for no number where there is no -0."""
        return 1 << self.bits - 1

    @property
    def signed_zero(self) -> bool:
        return self.nan != self.sign or self.bits == 4

    def value(self, code: int) -> float:
        """Return the number that a code without a sign stands for, as if all were numbers."""
        exponent, mantissa = divmod(code, 1 << self.mantissa)
        lead = 1 << self.mantissa if exponent else 0
        return float((lead + mantissa) * 2.0 ** (max(exponent, 1) - 1 + self.least - self.mantissa))


FORMATS = {
    "float8e4m3fn": Format(8, 3, -6, 0x7E, 0x7F, 0x7F, ml_dtypes.float8_e4m3fn),
    "float8e4m3fnuz": Format(8, 3, -7, 0x7F, 0x80, 0x80, ml_dtypes.float8_e4m3fnuz),
    "float8e5m2": Format(8, 2, -14, 0x7B, 0x7C, 0x7E, ml_dtypes.float8_e5m2),
    "float8e5m2fnuz": Format(8, 2, -15, 0x7F, 0x80, 0x80, ml_dtypes.float8_e5m2fnuz),
    "float4e2m1": Format(4, 1, 0, 0x7, 0x7, 0x8, ml_dtypes.float4_e2m1fn),  # has only numbers: what is none becomes -0, as ml_dtypes has it
}
POWERS = "float8e8m0"
POWERS_NAN = 0xFF
LEAST_POWER = -127  # the exponent of code 0 of POWERS
LEAST_NORMAL = -126  # of fp32
# how a mantissa between two powers goes: up or down where it is more than the first number, or nearest, of two as near up
ROUNDINGS = {"up": (1.0, ">"), "nearest": (1.5, ">="), "down": (2.0, ">=")}


def _argument_names(shapes: Sequence[Shape]) -> tuple[str, str]:
    """Return (the argument, the result) of an element."""
    loops = names("i", len(shapes[0]))
    return tensor("X", loops), tensor("Y", loops)


def _local(name: str, shapes: Sequence[Shape]) -> str:
    return tensor(name, names("i", len(shapes[0])))


def _text(word: str, shapes: Sequence[Shape], statements: Sequence[tuple[str, str]], result: str) -> str:
    """Return a meaning with a local tensor for each statement but the last."""
    x, y = _argument_names(shapes)
    lines = [f"  {_local(name, shapes)} = {value}" for name, value in statements] + [f"  {y} = {result}"]
    return f"{word}({x}) -> {y} {{\n" + "\n".join(lines) + "\n}"


# ---------------------------------------------------------------- codes to numbers

def _decode_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text that decodes: the mantissa times a power of two for each bit of the exponent that is set. A code that is NaN gives 0
    / 0."""
    x = _argument_names(shapes)[0]
    if attributes["of"] == POWERS:
        start, f = f"select(bitand({x}, 128) != 0, 2.0, {2.0 ** LEAST_POWER!r})", None
        bits, special = [(1 << j, 1 << j) for j in range(6, -1, -1)], f"{x} == {POWERS_NAN}"
    else:
        f = FORMATS[str(attributes["of"])]
        m = f.mantissa
        field = f.sign - (1 << m)
        low = f"bitand({x}, {(1 << m) - 1})"
        start = f"fp32(select(bitand({x}, {field}) != 0, {low} + {1 << m}, {low} * 2)) * {2.0 ** (f.least - 1 - m)!r}"
        bits = [(1 << m + j, 1 << j) for j in range(f.bits - 1 - m)]
        special = _not_a_number(f, x)
    statements = [("V0", start)]
    for at, (bit, power) in enumerate(bits):
        v = _local(f"V{at}", shapes)
        statements.append((f"V{at + 1}", f"select(bitand({x}, {bit}) != 0, {v} * {2.0 ** power!r}, {v})"))
    value = _local(f"V{len(bits)}", shapes)
    if f is not None and f.beyond != f.nan and f.beyond > f.top:
        statements.append(("W", f"select(bitand({x}, {f.sign - 1}) == {f.beyond}, inf, {value})"))
        value = _local("W", shapes)
    if f is not None:
        statements.append(("S", f"select(bitand({x}, {f.sign}) != 0, {value} * -1.0, {value})"))
        value = _local("S", shapes)
    if special:
        statements.append(("F", f"select({special}, 0.0, 1.0)"))
        value = f"{value} * {_local('F', shapes)} / {_local('F', shapes)}"
    return _text("decode", shapes, statements, value)


def _not_a_number(f: Format, x: str) -> str:
    """Return the condition that a code is no number. Return "" where all are."""
    if f.bits == 4:
        return ""
    return f"{x} == {f.nan}" if f.nan == f.sign else f"bitand({x}, {f.sign - 1}) > {max(f.top, f.beyond if f.beyond != f.nan else 0)}"


def _decode(x: np.ndarray, *, of: str) -> np.ndarray:
    return x.view(ml_dtypes.float8_e8m0fnu if of == POWERS else FORMATS[of].dtype).astype(np.float32)


# ---------------------------------------------------------------- numbers to codes

def _encode_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the magnitude in steps of the lowest exponent, halved as often as the exponent is higher, rounded, ties to even: a code counts
    those steps and, for each halving, as many as a mantissa has."""
    if attributes["of"] == POWERS:
        return _encode_power_text(shapes, attributes)
    f, x, saturate = FORMATS[str(attributes["of"])], _argument_names(shapes)[0], bool(attributes.get("saturate", 1))
    m, limit = f.mantissa, f.value(f.top) if saturate else 2 * f.value(f.top)
    bits = [1 << j for j in range(f.bits - 2 - m, -1, -1)]
    statements = [("A", f"select({x} == {x}, min(abs(fp32({x})), {limit!r}), 0.0)"),
                  ("R0", f"{_local('A', shapes)} * {2.0 ** (m - f.least)!r}")]
    for at, halvings in enumerate(bits):
        r, c = _local(f"R{at}", shapes), _local(f"C{at}", shapes)
        high = f"{r} >= {2.0 ** (m + halvings)!r}"
        statements.append((f"C{at + 1}", f"select({high}, {float(halvings << m)!r}, 0.0)" + (f" + {c}" if at else "")))
        statements.append((f"R{at + 1}", f"select({high}, {r} * {2.0 ** -halvings!r}, {r})"))
    r, c, magnitude = (_local(name, shapes) for name in (f"R{len(bits)}", f"C{len(bits)}", "M"))
    statements.append(("M", f"round({r}) + {c}"))
    below = f"{x} < 0.0 or reciprocal({x}) < 0.0" if f.signed_zero else f"{x} < 0.0 and {magnitude} > 0.0"
    over = "" if saturate else f"{magnitude} > {float(f.top)!r}"
    if over and f.signed_zero:
        statements.append(("O", f"select({over}, {float(f.beyond)!r}, {magnitude})"))
        magnitude = _local("O", shapes)
    statements.append(("S", f"select({below}, {magnitude} + {float(f.sign)!r}, {magnitude})"))
    code = f"select({x} == {x}, {_local('S', shapes)}, {float(f.nan)!r})"
    if over and not f.signed_zero:
        statements.append(("N", code))
        code = f"select({over}, {float(f.beyond)!r}, {_local('N', shapes)})"
    return _text("encode", shapes, statements, code)


def _encode_power_text(shapes: Sequence[Shape], attributes: Attributes) -> str:
    """Return the text that gives the exponent of the magnitude, found by halvings, plus one where the rest rounds up."""
    x = _argument_names(shapes)[0]
    share, more = ROUNDINGS[str(attributes.get("round_mode", "up"))]
    least, a = 2.0 ** LEAST_NORMAL, _local("A", shapes)
    statements = [("R0", f"select(abs(fp32({x})) < inf, abs(fp32({x})), 0.0)")]
    for at, halvings in enumerate(1 << j for j in range(7, -1, -1)):
        r, c = _local(f"R{at}", shapes), _local(f"C{at}", shapes)
        high, half = f"{r} >= {2.0 ** (halvings + LEAST_NORMAL)!r}", repr(2.0 ** (-halvings / 2)) if halvings > 1 else "0.5"
        statements.append((f"C{at + 1}", f"select({high}, {float(halvings)!r}, 0.0)" + (f" + {c}" if at else "")))
        statements.append((f"R{at + 1}", f"select({high}, {r} * {half}{f' * {half}' * (halvings > 1)}, {r})"))
    r, c = _local("R8", shapes), _local("C8", shapes)
    # what has no leading one in fp32 is less than twice the number of code 0, which stands for zero too
    low = {"up": "0.0", "nearest": repr(2.0 ** LEAST_POWER), "down": "inf"}[str(attributes.get("round_mode", "up"))]
    statements.append(("U", f"select({r} {more} {share * least!r}, 2.0, 1.0)"))
    statements.append(("A", f"select({r} < {least!r}, select({r} > {low}, 1.0, 0.0), {c} + {_local('U', shapes)})"))
    top = f"min({a}, {float(POWERS_NAN - 1)!r})" if attributes.get("saturate", 1) else a
    return _text("encode", shapes, statements, f"select(abs({x}) < inf, {top}, {float(POWERS_NAN)!r})")


def _encode(x: np.ndarray, *, of: str, saturate: int = 1, round_mode: str = "up") -> np.ndarray:
    """Return ONNX's own conversion to powers of two; ml_dtypes' of values that are limited to the format's, or not."""
    if of == POWERS:
        from onnx.numpy_helper import to_float8e8m0

        return to_float8e8m0(np.atleast_1d(x), bool(saturate), round_mode).view(np.uint8).reshape(x.shape)  # which takes no single number
    limits = ml_dtypes.finfo(FORMATS[of].dtype)
    with np.errstate(all="ignore"):
        return (np.clip(x, float(limits.min), float(limits.max)) if saturate else x).astype(FORMATS[of].dtype).view(np.uint8)


OPS = (
    Op("decode", _decode_text, _decode, "elementwise", samples=(sample(Given((2, 3), Domain("uint8", 0, 7)), of="float8e4m3fn"),
                                                                   sample(Given((2, 3), Domain("uint8", 0, 255)), of=POWERS))),
    Op("encode", _encode_text, _encode, "elementwise", dtype="uint8", samples=tuple(sample((2, 3), of=of) for of in (*FORMATS, POWERS))),
)
