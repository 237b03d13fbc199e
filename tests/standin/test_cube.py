"""Matrix products and a convolution on the stand-in's cube core, held to NumPy."""
from __future__ import annotations

from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from aoec.standin.launch import Kernel, LaunchFault
from tests.standin.need import needs_compiler

pytestmark = needs_compiler
SOURCE = (Path(__file__).parent / "kernels/cube.cpp").read_text("utf-8")
M, K, N = 32, 64, 48


@cache
def kernel(name: str) -> Kernel:
    return Kernel.compile(SOURCE, name)


@pytest.mark.parametrize("unit", [0, 3])
@pytest.mark.parametrize("name,dtype", [("product_half", np.float16), ("product_bfloat", ml_dtypes.bfloat16)])
def test_product_by_rows_to_fractals_loads_mmad_and_fixpipe(name: str, dtype: type, unit: int) -> None:
    random = np.random.default_rng(unit)
    a, b = random.integers(-8, 9, (M, K)).astype(dtype), random.integers(-8, 9, (K, N)).astype(dtype)
    bias = np.zeros(64, np.float32)
    bias[:N] = random.integers(-50, 50, N)
    want = a.astype(np.float32) @ b.astype(np.float32) + bias[:N]
    half = name == "product_half"
    for seed in range(8):
        *_, got = kernel(name).launch([a, b, bias, np.zeros((M, N), np.float16 if half else np.float32), unit], seed=seed)
        assert np.array_equal(got, np.maximum(want, 0).astype(np.float16) if half else want)


@pytest.mark.parametrize("h,w,c1,pad,stride,dilation", [(8, 10, 2, 1, 1, 1), (9, 7, 1, 2, 2, 2), (6, 6, 2, 0, 1, 1)])
def test_convolution_by_images_to_columns(h: int, w: int, c1: int, pad: int, stride: int, dilation: int) -> None:
    random = np.random.default_rng(h)
    x, weights = random.integers(-4, 5, (c1, h, w, 16)), random.integers(-4, 5, (c1, 3, 3, 16, 16))  # [c1][kh][kw][c0][out]
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    oh, ow = ((n + 2 * pad - 2 * dilation - 1) // stride + 1 for n in (h, w))
    want = np.zeros((oh, ow, 16))
    for i, j in np.ndindex(3, 3):
        part = padded[:, i * dilation:, j * dilation:][:, :(oh - 1) * stride + 1:stride, :(ow - 1) * stride + 1:stride]
        want += np.einsum("chwe,ceo->hwo", part, weights[:, i, j])
    fractals = weights.reshape(c1 * 9, 16, 16).transpose(0, 2, 1)  # ZN: of each 16 rows of K the columns one behind the other
    given = x.astype(np.float16), np.ascontiguousarray(fractals.astype(np.float16)), np.zeros((oh * ow, 16), np.float16)
    arguments = [*given, h, w, c1, pad, stride, dilation, oh * ow]
    for seed in range(4):
        *_, got = kernel("convolution").launch(arguments, seed=seed)
        assert np.array_equal(got.reshape(oh, ow, 16), want)


def scale_word(scale: float, zero: int) -> int:
    """A column's word for VREQ8: a float, a zero point of nine bits, and the mark of a signed result."""
    return int(np.float32(scale).view(np.uint32)) | (zero & 0x1FF) << 37 | 1 << 46


def test_requantisation_by_words_of_scales() -> None:
    random = np.random.default_rng(5)
    a, b = random.integers(-128, 128, (32, 64)).astype(np.int8), random.integers(-128, 128, (64, 32)).astype(np.int8)
    zz = a.reshape(2, 16, 2, 32).transpose(0, 2, 1, 3).copy()
    zn = b.reshape(2, 32, 2, 16).transpose(0, 2, 3, 1).copy()
    scales, zeros = random.uniform(0.0005, 0.01, 32).astype(np.float32), random.integers(-100, 100, 32)
    scales[:16] = np.float32(2.0) ** random.integers(-10, -5, 16)
    words = np.array([scale_word(s, int(z)) for s, z in zip(scales, zeros)], np.uint64)
    kept = (scales.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)  # ten bits of a scale's fraction count
    positive = np.maximum(a.astype(np.int32) @ b.astype(np.int32), 0)
    want = np.clip(np.rint(positive.astype(np.float32) * kept) + zeros.astype(np.float32), -128, 127).astype(np.int8)
    for seed in range(4):
        *_, got, planes = kernel("requantized").launch([zz, zn, words, np.zeros((32, 32), np.int8), np.zeros((32, 32), np.int8)], seed=seed)
        assert np.array_equal(got, want)
        assert np.array_equal(planes, want)  # one plane of 32 columns


def test_sums_of_blocks_meet_in_global_memory_and_few_fractals_need_a_barrier() -> None:
    random = np.random.default_rng(1)
    a, b = random.integers(-5, 6, (2, 16, 16)).astype(np.float32), random.integers(-5, 6, (2, 16, 16)).astype(np.float32)
    zz = a.reshape(2, 16, 2, 8).transpose(0, 2, 1, 3).copy()
    zn = b.reshape(2, 2, 8, 16).transpose(0, 1, 3, 2).copy()
    for seed in range(4):
        *_, got = kernel("summed").launch([zz, zn, np.ones((16, 16), np.float32), 1], 2, seed)
        assert np.array_equal(got, 1 + (a @ b).sum(0))
    said = r"Mmad at line \d+ \(M\): (reads|writes) byte 0 of L0C, which M at line \d+ writes, without PipeBarrier"
    with pytest.raises(LaunchFault, match=said):
        kernel("summed").launch([zz, zn, np.ones((16, 16), np.float32), 0], 2)
