"""A func evaluated a block at a time is the func evaluated point by point."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import CheckError
from aoec.ir.func import evaluate_whole as whole
from aoec.ir.func.evaluate import evaluate_func, numpy_dtype
from aoec.ir.func.tir import Func
from aoec.ir.index import Int
from aoec.ir.text.parse import parse_func
from aoec.jobs.stages.stages import lower_operator

FUNCS = Path(__file__).parents[1] / "funcs"
OPERATORS = ["matmul(m=5, k=7, n=6, bias, relu)", "conv2d(n=1, c=5, h=4, w=5, co=6, kh=3, kw=2, pad=1, stride=2)", "softmax(m=3, n=9)",
             "layer_norm(m=3, n=8, bias)", "gelu(m=2, n=9)", "swiglu(m=2, n=5)", "max_pool(n=1, c=3, h=5, w=5, kh=2, kw=2)"]


def feeds(func: Func, seed: int, limit: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shapes = {b.name: tuple(e.value for e in b.shape if isinstance(e, Int)) for b in func.inputs}
    return {b.name: random.integers(-limit, limit + 1, shapes[b.name]).astype(numpy_dtype(b.dtype)) for b in func.inputs}


@pytest.mark.parametrize("name", sorted(p.stem for p in FUNCS.glob("*.tir")))
def test_files(name: str) -> None:
    func = parse_func((FUNCS / f"{name}.tir").read_text())
    same(func, feeds(func, 0, 2))


@settings(max_examples=14)
@given(st.sampled_from(OPERATORS), st.integers(0, 99), st.integers(1, 60))
def test_operators_in_parts_of_any_size(call: str, seed: int, points: int) -> None:
    func = lower_operator(call)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "POINTS", points)
        same(func, feeds(func, seed, 3))


def same(func: Func, arrays: dict[str, np.ndarray]) -> None:
    """Both evaluations agree: to the bit where only whole numbers are added and compared, else to rounding."""
    assert whole.takes(func)
    got, wanted = whole.evaluate_whole(func, arrays), evaluate_func(func, arrays)
    for name, x in wanted.items():
        assert got[name].dtype == x.dtype
        np.testing.assert_allclose(got[name].astype(np.float64), x.astype(np.float64), rtol=2e-3, atol=1e-4)
        if not any(word in repr(func) for word in ("exp", "erf", "sqrt", "reciprocal", "'/'")):
            np.testing.assert_array_equal(got[name], x)


def test_what_it_does_not_take() -> None:
    shared = parse_func("func f(A: fp16[4]) -> (Y: fp16[4]) { local T: fp16[4] for i in 4 { t: T[i] = A[i] y: Y[i] = T[i] } }")
    open_extent = parse_func("func f(A: fp16[?n]) -> (Y: fp16[?n]) { for i in ?n { y: Y[i] = A[i] } }")
    assert not whole.takes(shared) and not whole.takes(open_extent)
    with pytest.raises(CheckError, match="loops around several blocks"):
        whole.evaluate_whole(shared, {"A": np.zeros(4, np.float16)})
