"""The plain evaluator does what the pages say: rounding at stores, lazy guards, lifetimes, poison, clear errors."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.base.errors import CheckError
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.text.parse import parse_func


def run(text: str, **inputs: object) -> np.ndarray:
    return evaluate_func(parse_func(text), {k: np.array(v) for k, v in inputs.items()})["Y"]


def test_elements_are_rounded_once_when_stored() -> None:
    """Above 2048 fp16 counts in twos: what is rounded on the way loses more than what is rounded at the end."""
    text = "func f(X: fp16[1]) -> (Y: fp16[1]) { for i in 1 { b: Y[i] = X[i] + 0.5 + 0.5 + 1.0 } }"
    assert run(text, X=[2048.0])[0] == 2050.0
    text = "func f(X: fp16[1]) -> (Y: fp16[1]) { for i in 1 { b: Y[i] = fp16(X[i] + 0.5 + 0.5) + 1.0 } }"
    assert run(text, X=[2048.0])[0] == 2048.0
    assert run("func f(X: fp32[1]) -> (Y: bf16[1]) { for i in 1 { b: Y[i] = X[i] } }", X=[1.00390625])[0] == 1.0


def test_integers_are_exact_and_casts_truncate() -> None:
    text = "func f(X: int64[1]) -> (Y: int64[1]) { for i in 1 { b: Y[i] = X[i]*3 + 1 } }"
    assert run(text, X=[2**53])[0] == 3 * 2**53 + 1
    text = "func f(X: fp32[2]) -> (Y: int32[2]) { for i in 2 { b: Y[i] = int32(X[i]) } }"
    assert run(text, X=[-1.9, 1.9]).tolist() == [-1, 1]


def test_a_guard_is_lazy_and_a_read_out_of_range_is_an_error() -> None:
    text = "func f(X: fp32[2]) -> (Y: fp32[4]) {{ for i in 4 {{ b: Y[i] = {} }} }}"
    assert run(text.format("select(1 <= i and i < 3, X[i - 1], 9.0)"), X=[1, 2]).tolist() == [9, 1, 2, 9]
    with pytest.raises(CheckError, match=r"reads X\[-1\], outside its shape \[2\]"):
        run(text.format("X[i - 1]"), X=[1, 2])


def test_a_local_buffer_lives_for_one_iteration_of_the_loop_around_its_uses() -> None:
    text = """func f(X: fp32[2, 3]) -> (Y: fp32[2]) { local S: fp32[1]
      for i in 2 { for j in 3 { sum: S[0] += X[i, j] init 10.0 } out: Y[i] = S[0] } }"""
    assert run(text, X=[[1, 2, 3], [4, 5, 6]]).tolist() == [16, 25]


def test_what_was_never_written_shows_as_nan() -> None:
    text = """func f(X: fp32[2]) -> (Y: fp32[2]) { local T: fp32[2]
      for i in 2 { a: T[0] = X[i] b: Y[i] = T[i] } }"""
    assert np.isnan(run(text, X=[1, 2])[1])
    stale = """func f(X: fp32[2]) -> (Y: fp32[2]) { local T: fp32[2]
      for i in 2 { a: T[i] = X[i] b: Y[i] = T[0] } }"""
    assert np.isnan(run(stale, X=[1, 2])[1]), "T[0] was written in another iteration"
    assert np.isnan(run("func f(X: fp32[2]) -> (Y: fp32[2]) { for i in 1 { a: Y[i] = X[i] } }", X=[1, 2])[1])


@pytest.mark.parametrize("op, want", [("+=", [6.0]), ("max=", [3.0]), ("min=", [1.0])])
def test_reducers_start_from_their_identity(op: str, want: list[float]) -> None:
    assert run(f"func f(X: fp32[3]) -> (Y: fp32[1]) {{ for i in 3 {{ a: Y[0] {op} X[i] }} }}", X=[1, 3, 2]).tolist() == want


def test_reducers_start_from_init_once_per_element() -> None:
    text = "func f(X: fp32[2, 3], B: fp32[2]) -> (Y: fp32[2]) { for j in 3 { for i in 2 { a: Y[i] += X[i, j] init B[i] } } }"
    assert run(text, X=[[1, 2, 3], [4, 5, 6]], B=[100, 200]).tolist() == [106, 215]


def test_core_loops_may_run_in_any_order() -> None:
    func = parse_func("func f(X: fp32[3]) -> (Y: fp32[3]) { for i in 3 core { a: Y[i] = X[i] } }")
    seen: list[int] = []

    def order(r: range) -> list[int]:
        seen.extend(reversed(r))
        return list(reversed(r))
    assert evaluate_func(func, {"X": np.arange(3)}, core_order=order)["Y"].tolist() == [0, 1, 2] and seen == [2, 1, 0]


def test_errors_say_where() -> None:
    with pytest.raises(CheckError, match="buffer T has a shape that depends on t, which is not filled"):
        run("func f(X: fp32[1]) -> (Y: fp32[1]) { local T: fp32[?t] for i in 1 { a: T[i] = X[i] b: Y[i] = T[i] } }", X=[1])
    with pytest.raises(CheckError, match=r"hole \?t is not filled"):
        run("func f(X: fp32[1]) -> (Y: fp32[1]) { for i in ?t { b: Y[i] = X[i] } }", X=[1])
    with pytest.raises(CheckError, match=r"input X has shape \(2,\) where the func says \(1,\)"):
        run("func f(X: fp32[1]) -> (Y: fp32[1]) { for i in 1 { b: Y[i] = X[i] } }", X=[1, 2])


@pytest.mark.parametrize("name, oracle", [
    ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("rsqrt", lambda x: 1 / np.sqrt(x)), ("tanh", np.tanh),
    ("reciprocal", lambda x: 1 / x),
    ("sigmoid", lambda x: 1 / (1 + np.exp(-x))), ("floor", np.floor), ("ceil", np.ceil), ("round", np.round), ("abs", np.abs),
])
def test_functions(name: str, oracle: object) -> None:
    x = np.array([0.25, 0.5, 1.5, 2.5], np.float32)
    got = run(f"func f(X: fp32[4]) -> (Y: fp32[4]) {{ for i in 4 {{ b: Y[i] = {name}(X[i]) }} }}", X=x)
    np.testing.assert_allclose(got, oracle(x), rtol=1e-6)  # type: ignore[operator]


def test_erf_and_pow() -> None:
    text = "func f(X: fp32[2]) -> (Y: fp32[2]) { for i in 2 { b: Y[i] = erf(X[i]) + pow(X[i], 2.0) } }"
    np.testing.assert_allclose(run(text, X=[0.0, 1.0]), [0.0, 0.8427008 + 1.0], rtol=1e-6)
