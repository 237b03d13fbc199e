"""Reals of few bits: every code has its value, and every real its code, by meaning and by program, as ml_dtypes and ONNX have them."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import ops
from aoec.ops.interpret import interpret
from aoec.ops.typed import NUMPY
from aoec.ops.words.coded import FORMATS, POWERS, ROUNDINGS

from .test_typed import ran

HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
FAST = ("float8e5m2", "float8e4m3fnuz", POWERS)  # those whose programs differ most; of the others they are made in slow tests
OF = [pytest.param(of, marks=[] if of in FAST else pytest.mark.slow) for of in (*FORMATS, POWERS)]


def codes(of: str) -> np.ndarray:
    return np.arange(16 if of.startswith("float4") else 256, dtype=np.uint8)


def reals(step: int) -> np.ndarray:
    """Reals of every exponent in even steps of the bits, and those next to them: halves of all formats, what is none, infinities and -0."""
    at = np.arange(0, 1 << 32, step)
    return np.concatenate([at, at + 1, at[1:] - 1]).astype(np.uint32).view(np.float32)


def same(of: str, x: np.ndarray, got: np.ndarray, wanted: np.ndarray) -> None:
    """Nothing where the codes are equal, or both are no number. E2M1 has no code for that: any will do."""
    values = [c.astype(np.uint8).view(NUMPY[of]).astype(np.float32) for c in (got, wanted)]
    free = np.isnan(x) if of.startswith("float4") else np.isnan(values[0]) & np.isnan(values[1])
    wrong = (got != wanted) & ~free
    assert not wrong.any(), list(zip(x[wrong][:4], got[wrong][:4], wanted[wrong][:4]))


@pytest.mark.parametrize("of", [*FORMATS, POWERS])
def test_meanings_are_the_formats(of: str) -> None:
    x = codes(of)
    m = ops.meaning("decode", [x.shape], {"of": of})
    assert np.array_equal(interpret(m, [x])[0], x.view(NUMPY[of]).astype(np.float64), equal_nan=True)
    with np.errstate(all="ignore"):
        x = reals(1 << 17)
        for saturate in (0, 1):
            for rounding in ROUNDINGS if of == POWERS else ("up",):
                given = {"of": of, "saturate": saturate, "round_mode": rounding}
                got = interpret(ops.meaning("encode", [x.shape], given), [x])[0]
                same(of, x, got, ops.get("encode").reference(x, **given))


@pytest.mark.parametrize("of", OF)
def test_programs_decode_every_code(of: str) -> None:
    got, wanted = ran("decode", [("uint8", codes(of))], "fp16" if of == "float8e5m2" else "fp32", of=of)  # type: ignore[arg-type]
    assert np.array_equal(got, wanted, equal_nan=True)


@pytest.mark.parametrize("of", OF)
def test_programs_encode_what_there_is(of: str) -> None:
    """All of fp16, or reals of fp32 beyond what a format has."""
    saturate = int(of == "float8e4m3fnuz")
    dtype, x = ("fp16", HALVES) if of == "float8e5m2" else ("fp32", reals(1 << 19))
    with np.errstate(all="ignore"):
        got, wanted = ran("encode", [(dtype, x)], "uint8", of=of, saturate=saturate)  # type: ignore[arg-type]
    same(of, x.astype(np.float32), got, wanted)
