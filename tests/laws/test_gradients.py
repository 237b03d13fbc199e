"""Law: the gradient of a meaning, interpreted, is what finite differences of the meaning give; attention's is NumPy's own formula."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.base.errors import UnsupportedError
from aoec.ir.func.meaning import Meaning
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.ops.declare import Op
from aoec.ops.gradient import derive_gradient
from aoec.ops.interpret import interpret
from aoec.ops.meanings import bind
from aoec.ops.samples import Sample, sample
from tests.laws.operators import REALS, elements_of, samples_of

WINDOW: dict[str, Any] = {"stride": (2, 1), "pad": (1, 0, 1, 2), "dilation": (1, 2)}
MORE: list[tuple[str, Sample]] = [  # beside what declarations say: other ranks, windows and ways to lie
    ("clip", sample((2, 3), lo=-0.5, hi=0.8)), ("shrink", sample((2, 3), lambd=0.2, bias=0.1)),
    ("matmul", sample((2, 3, 4), (1, 4, 5), (6,))), ("matmul", sample((4, 3), (2, 5, 4), trans_a=1, trans_b=1)),
    ("conv2d", sample((1, 4, 5, 6), (6, 2, 3, 2), (6,), group=2, **WINDOW)), ("max_pool", sample((1, 2, 5, 6), kernel=(3, 2), **WINDOW)),
    *((f"reduce_{word}", sample((2, 3, 4), axes=(0, 2))) for word in ("sum", "mean", "max", "min")),
    ("softmax", sample((2, 3, 4), axis=1)), ("log_softmax", sample((2, 3, 4), axis=-1)),
    ("layer_norm", sample((3, 4), (4,), (4,), epsilon=0.1)), ("transpose", sample((2, 3, 4), perm=(2, 0, 1))),
    ("attention", sample((2, 3, 4), (2, 5, 4), (2, 5, 6), scale=0.5)),
    ("attention", sample((2, 3, 4), (2, 5, 4), (2, 6, 5), (1, 3, 5), scale=0.5, trans_v=1))]


def is_real(op: Op) -> bool:
    """Whether an operator gives reals of reals: others have no gradient."""
    return op.dtype in ("", *REALS) and any(a.domain.dtype in REALS for s in samples_of(op) for a in s.arguments)


REAL_ONES = sorted(name for name, op in ops.OPS.items() if is_real(op))


def arrays(call: Sample, seed: int) -> list[np.ndarray]:
    """Numbers for which no two places tie, and no step is near; whole numbers where a domain is of these."""
    random = np.random.default_rng(seed)
    out = []
    for argument in call.arguments:
        shape, domain = argument.shape, argument.domain
        if domain.dtype not in REALS:
            out.append(elements_of(argument, random))
            continue
        x = random.permutation(np.arange(np.prod(shape, dtype=int))) + random.uniform(0.2, 0.8)
        x = (x / max(x.size, 4) * 2 - 1).reshape(shape) * 1.3
        if np.isinf(domain.lo):
            out.append(x)
        else:
            out.append(domain.lo + np.abs(x) + 0.4 if np.isinf(domain.hi) else domain.lo + (domain.hi - domain.lo) * (0.5 + 0.3 * x))
    return out


def agrees(op: str, call: Sample, seed: int = 0) -> None:
    """The law for one operator: along a direction in all arguments the result, weighted, grows as the gradient says; it does not grow where
    there is none."""
    x, step = arrays(call, seed), 1e-6
    m = ops.meaning(op, [a.shape for a in x], call.attributes)
    random = np.random.default_rng(seed + 1)
    weights = [random.standard_normal(y.shape) for y in interpret(m, x)]
    found = gradients(m, x, weights)
    for argument, (at, value) in zip(m.inputs, enumerate(x), strict=True):
        if value.dtype.kind != "f":
            continue
        along = random.standard_normal(value.shape)
        up, down = (interpret(m, [*x[:at], value + sign * step * along, *x[at + 1:]]) for sign in (1, -1))
        grown = sum(float(((a - b) * w).sum()) for a, b, w in zip(up, down, weights)) / (2 * step)
        told = float((found[f"d{argument.name}"] * along).sum())
        assert told == pytest.approx(grown, rel=1e-5, abs=1e-6), argument.name


def gradients(m: Meaning, x: list[np.ndarray], weights: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The gradients of the arguments by name; zeros where a meaning says that it has none, being a step."""
    try:
        grad = derive_gradient(m)
    except UnsupportedError as e:
        assert "no result depends smoothly on an argument" in str(e)
        return {f"d{a.name}": np.zeros(value.shape) for a, value in zip(m.inputs, x)}
    assert parse_meaning(show(grad)) == grad
    return dict(zip((o.name for o in grad.outputs), interpret(grad, [*x, *weights]), strict=True))


@pytest.mark.parametrize("op", REAL_ONES)
def test_every_operator_of_reals(op: str) -> None:
    for one in samples_of(ops.OPS[op]):
        agrees(op, one)


@pytest.mark.parametrize("op, call", MORE, ids=lambda x: x if isinstance(x, str) else "")
def test_of_other_shapes(op: str, call: Sample) -> None:
    agrees(op, call)


@pytest.mark.parametrize("op", ["sign", "floor", "ceil", "round"])
def test_steps_have_none(op: str) -> None:
    with pytest.raises(UnsupportedError, match="has no gradient"):
        ops.gradient(op, [(2, 3)])


def test_few_operators_are_of_no_reals() -> None:
    """Truths, whole numbers and codes: most are under the law."""
    others = ops.OPS.keys() - set(REAL_ONES)
    assert {"equal", "whole_div", "decode", "quantise", "is_nan"} <= others and len(others) < len(REAL_ONES) / 2


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(0, 999))
@settings(max_examples=10, deadline=None)
def test_attention_by_its_formula(b: int, m: int, n: int, d: int, e: int, masked: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    q, k, v, dy = (random.standard_normal((b, *s)) for s in ((m, d), (n, d), (n, e), (m, e)))
    bias = random.standard_normal((m, n)) if masked else None
    scores = q @ k.swapaxes(1, 2) * 0.7 + (0 if bias is None else bias)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    dp = dy @ v.swapaxes(1, 2)
    ds = p * (dp - (dp * p).sum(-1, keepdims=True))
    wanted = [ds @ k * 0.7, ds.swapaxes(1, 2) @ q * 0.7, p.swapaxes(1, 2) @ dy, *([ds.sum(0)] if masked else [])]
    x = [q, k, v, *([bias] if bias is not None else [])]
    found = interpret(ops.gradient("attention", [a.shape for a in x], {"scale": 0.7}), [*x, dy])
    for a, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("text, reason", [
    ("f(X[i]) -> Y[i] { A[i] = X[i] * X[i] A[i] = A[i] + X[i] Y[i] = A[i] }", "written over"),
    ("f(X[i]) -> Y[i] { Y[i] = shl(X[i], 2) }", "shl has no slope")])
def test_what_has_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        derive_gradient(bind(parse_meaning(text), [(3,)]))


def test_what_is_read_again_and_again_counts_as_often() -> None:
    m = bind(parse_meaning("f(X[i], W[j]) -> Y[i] { Y[i] += X[i] + W[j] }"), [(2,), (3,)])
    dx, dw = interpret(derive_gradient(m), [np.zeros(2), np.zeros(3), np.array([1.0, 10.0])])
    assert dx.tolist() == [3.0, 30.0] and dw.tolist() == [11.0] * 3


def test_several_results_and_one_that_is_read_again() -> None:
    m = bind(parse_meaning("f(X[i], W[i]) -> Y[i], Z[] { Y[i] = exp(X[i]) Z[] += Y[i] * W[i] init 2.0 }"), [(3,), (3,)])
    x, w, dy, dz = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array(7.0)
    dx, dw = interpret(derive_gradient(m), [x, w, dy, dz])
    np.testing.assert_allclose(dx, np.exp(x) * (dy + 7.0 * w))
    np.testing.assert_allclose(dw, 7.0 * np.exp(x))
