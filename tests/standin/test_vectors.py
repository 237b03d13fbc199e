"""Vector instructions on the stand-in, held to NumPy."""
from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aoec.standin.launch import Kernel, LaunchFault
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
SOURCE = (Path(__file__).parent / "kernels/vectors.cpp").read_text("utf-8")
F16, F32 = np.float16, np.float32


@cache
def kernel(name: str) -> Kernel:
    return Kernel.compile(SOURCE, name)


@pytest.mark.parametrize("lanes", [64, 40, 1])
def test_reductions_of_rows(lanes: int) -> None:
    x = np.random.default_rng(lanes).standard_normal((8, 64)).astype(F32)
    for seed in range(4):
        empty = np.zeros(8, F32), np.zeros(8, F32), np.zeros((8, 2), F32), np.zeros((8, 8), F32)
        _, sums, greatest, pairs, blocks = kernel("reductions").launch([x, *empty, lanes], seed=seed)
        part = x[:, :lanes]
        assert np.array_equal(sums, np.add.accumulate(part, 1)[:, -1])  # from the first lane to the last
        assert np.array_equal(greatest, part.max(1))
        assert np.array_equal(blocks, np.add.accumulate(x.reshape(8, 8, 8), 2)[:, :, -1])
        assert np.array_equal(pairs[:, 0], part.min(1)) and np.array_equal(pairs.view(np.uint32)[:, 1], part.argmin(1))


NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)
FIVE = (RINT, FLOOR, CEIL, ROUND, TRUNC)
NAMES = {"float": F32, "half": F16, "bfloat16_t": ml_dtypes.bfloat16,
         **{f"{n}_t": np.dtype(n).type for n in ("int8", "uint8", "int16", "int32", "int64")}}
PAIRS = {"half_to_float": (NONE,), "bfloat16_t_to_float": (NONE,), "int8_t_to_half": (NONE,), "uint8_t_to_half": (NONE,),
         "int16_t_to_float": (NONE,),
         "int64_t_to_int32_t": (NONE,), "int32_t_to_int64_t": (NONE,), "int32_t_to_int16_t": (NONE,), "float_to_half": (NONE, *FIVE, ODD),
         "float_to_bfloat16_t": FIVE, "float_to_int32_t": FIVE, "float_to_int16_t": FIVE, "float_to_int64_t": FIVE, "float_to_float": FIVE,
         "half_to_int32_t": FIVE, "half_to_int16_t": FIVE, "half_to_int8_t": FIVE, "half_to_uint8_t": FIVE, "int32_t_to_float": FIVE,
         "int64_t_to_float": FIVE, "int32_t_to_half": range(7)}  # of the last the mode does not count


def whole(x: np.ndarray, mode: int) -> np.ndarray:
    """Reals of 64 bits as whole ones."""
    away = np.sign(x) * np.floor(np.abs(x) + 0.5)
    return {FLOOR: np.floor(x), CEIL: np.ceil(x), TRUNC: np.trunc(x), ROUND: np.where(np.abs(x) < 2**52, away, x)}.get(mode, np.rint(x))


def narrow(x: int | float, dtype: type, mode: int) -> float:
    """A number as the nearest of `dtype` that the mode allows, by looking at its two neighbours in exact arithmetic."""
    from fractions import Fraction
    exact, near = Fraction(x), dtype(x)
    if not np.isfinite(np.float64(near)):
        near = dtype(np.copysign(np.float64(ml_dtypes.finfo(dtype).max), x))
    found = Fraction(float(near))
    if found == exact:
        return float(near)
    other = np.nextafter(near, dtype(np.inf) if found < exact else dtype(-np.inf))
    low, high = sorted((float(near), float(other)))
    if mode in (NONE, RINT):
        return float(dtype(x))
    if mode == ODD:
        bits = np.array([low, high], dtype).view(f"u{np.dtype(dtype).itemsize}")
        return low if bits[0] & 1 else high
    if mode == ROUND:
        down, up = exact - Fraction(low), Fraction(high) - exact
        return low if down < up or (down == up and x < 0) else high
    return {FLOOR: low, CEIL: high, TRUNC: low if x > 0 else high}[mode]


def expected(x: np.ndarray, to: type, mode: int) -> np.ndarray:
    """What a cast of that mode makes of x."""
    real = np.dtype(to).kind == "f" or to is ml_dtypes.bfloat16
    if x.dtype.kind == "i" and not real:
        limits = np.iinfo(to)
        return np.array([min(max(int(v), limits.min), limits.max) for v in x], to)
    if x.dtype == F32 and to is F32:
        return whole(x.astype(np.float64), mode).astype(F32)
    if real:
        return np.array([narrow(v.item() if x.dtype.kind in "iu" else float(v), to, mode) for v in x], to)
    limits = np.iinfo(to)
    return np.array([min(max(int(v), limits.min), limits.max) for v in whole(x.astype(np.float64), mode)], to)


def numbers(dtype: type, name: str) -> np.ndarray:
    """128 numbers of a type, halves between whole ones, large and small ones among them."""
    random = np.random.default_rng(sum(map(ord, name)))
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        top = 60000 if name == "int32_t_to_half" else limits.max
        out = random.integers(max(limits.min, -top), top, 128, endpoint=True).astype(dtype)
        out[:40] = random.integers(0, 100, 40)
        return out
    out = random.standard_normal(128) * 2.0 ** random.integers(-16, 14, 128)
    out[:40] = random.integers(-300, 300, 40) / 2
    if name == "float_to_int64_t":
        out[40:80] *= 2.0 ** 48
    return out.astype(dtype)


@pytest.mark.parametrize("name", PAIRS)
def test_casts_of_every_pair_and_mode(name: str) -> None:
    source, target = (NAMES[n] for n in name.split("_to_"))
    x = numbers(source, name)
    for mode in range(7):
        if mode not in PAIRS[name]:
            with pytest.raises(LaunchFault, match=f"has no round mode {mode} on product 2201"):
                kernel(f"cast_{name}").launch([x, np.zeros(128, target), mode])
            continue
        _, got = kernel(f"cast_{name}").launch([x, np.zeros(128, target), mode], seed=mode)
        want = expected(x, target, NONE if name == "int32_t_to_half" else mode)
        assert got.tobytes() == want.tobytes(), (mode, [(a, b, c) for a, b, c in zip(x, got, want) if b != c][:5])


def test_comparisons_and_selections() -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(-3, 4, 512).astype(F16), random.integers(-3, 4, 512).astype(F16)
    for seed, count in enumerate((512, 300, 128, 1)):
        *_, least, cut = kernel("selections").launch([x, y, np.zeros(512, F16), np.zeros(512, F16), count], seed=seed)
        assert np.array_equal(least, np.where(np.arange(512) < count, np.where(x < y, x, y), 7))
        assert np.array_equal(cut, np.where(np.arange(512) < count, np.where(x > 0.5, x, -1), 7))
    said = r"Select at line \d+: product 2201 does not list this call beside tensors made by address: take them from a TBuf"
    with pytest.raises(LaunchFault, match=said):
        kernel("selections").launch([x, y, np.zeros(512, F16), np.zeros(512, F16), 513])


def test_rearrangements() -> None:
    random = np.random.default_rng(2)
    x = random.integers(-999, 999, 128).astype(F32)
    offsets = (random.integers(0, 128, 64) * 4).astype(np.uint32)
    for seed in range(4):
        empty = np.zeros((16, 16), F16), np.zeros((8, 8), F32), np.zeros(80, F32)
        _, turned, filled, packed, _, gathered, turned32 = kernel("rearranged").launch(
            [x, *empty, offsets, np.zeros(64, F32), np.zeros((8, 16), F32)], seed=seed)
        assert np.array_equal(turned.view(np.uint16), x.view(np.uint16).reshape(16, 16).T)
        assert np.array_equal(turned32, x.reshape(16, 8).T)
        assert np.array_equal(filled, np.repeat(x[:8, None], 8, 1))
        assert np.array_equal(packed, x.reshape(4, 32)[:, :20].ravel())
        assert np.array_equal(gathered, x[offsets // 4])


def test_bytes_bits_and_an_index_of_the_scalar_unit() -> None:
    random = np.random.default_rng(3)
    x, w = random.integers(-128, 128, 120).astype(np.int8), random.integers(0, 2**32, 64, dtype=np.uint64).astype(np.uint32)
    w[3] = 7
    for seed in range(4):
        given = x, np.zeros((3, 37), np.int8), w, np.zeros(64, np.uint32), np.zeros(8, F32)
        _, z, _, bits, one = kernel("pieces").launch(given, seed=seed)
        assert np.array_equal(z, x.reshape(3, 40)[:, :37])
        assert np.array_equal(bits, ~(((w << np.uint32(3)) >> np.uint32(1)) & w))
        assert np.array_equal(one, [1, 2] * 4)
