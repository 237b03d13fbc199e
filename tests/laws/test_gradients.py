"""Law: the gradient of a meaning, interpreted, is what finite differences of the meaning give; attention's is NumPy's own formula."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.base.errors import UnsupportedError
from aoec.ir.text.parse import parse_meaning
from aoec.ir.text.show import show
from aoec.ops.gradient import derived
from aoec.ops.interpret import interpret
from aoec.ops.meanings import bind

WINDOW = {"stride": (2, 1), "pad": (1, 0, 1, 2), "dilation": (1, 2)}
SIZES: dict[str, dict[str, Any]] = {  # attributes of single numbers
    "adds": {"scalar": 0.3}, "muls": {"scalar": 0.3}, "leaky_relu": {"alpha": 0.1}, "clip": {"lo": -0.5, "hi": 0.8},
    "selu": {"alpha": 1.6, "gamma": 1.05}, "elu": {"alpha": 0.7}, "celu": {"alpha": 0.7}, "hard_sigmoid": {"alpha": 0.3, "beta": 0.5},
    "thresholded_relu": {"alpha": 0.2}, "shrink": {"lambd": 0.2, "bias": 0.1}}
ONE = ["relu", "abs", "exp", "tanh", "erf", "gelu", "gelu_tanh", "mish", "silu", "sigmoid", "softplus", "softsign", "sin", "cos", "tan",
       "sinh", "cosh", "asinh", "atan", "cast", "to_nc1hwc0", "from_nc1hwc0",
       "to_nz", "from_nz", *SIZES]
POSITIVE = ["log", "sqrt", "rsqrt", "reciprocal"]
INNER = ["asin", "acos", "atanh"]  # of what lies between -1 and 1
TWO = ["add", "sub", "mul", "div", "maximum", "minimum", "prelu", "power", "mod", "fmod"]
# operator -> (shapes, attributes); an index is drawn where the shape stands in a list
OTHERS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("acosh", [(2, 3)], {}), ("swiglu", [(2, 6)], {}), ("where", [[2, (2, 3)], (2, 3), (3,)], {}),
    ("matmul", [(2, 3, 4), (1, 4, 5), (6,)], {}), ("matmul", [(4, 3), (2, 5, 4)], {"trans_a": 1, "trans_b": 1}),
    ("interpolate", [(2, 3, 4), (5, 3)], {"axis": 1}), ("interpolate", [(2, 3, 4), (5, 4)], {"axis": 2}),
    ("conv2d", [(1, 4, 5, 6), (6, 2, 3, 2), (6,)], {**WINDOW, "group": 2}),
    ("conv2d_packed", [(1, 4, 4, 5), (24, 3), (4,)], {**WINDOW, "kernel": (3, 2), "c0": 4}),
    ("max_pool", [(1, 2, 5, 6)], {**WINDOW, "kernel": (3, 2)}), ("avg_pool", [(1, 2, 5, 6)], {**WINDOW, "kernel": (3, 2)}),
    ("global_avg_pool", [(2, 2, 3, 3)], {}), ("lrn", [(1, 5, 2, 2)], {"size": 3, "alpha": 0.1, "beta": 0.75, "bias": 1.0}),
    *((f"reduce_{word}", [(2, 3, 4)], {"axes": (0, 2)}) for word in ("sum", "mean", "max", "min")),
    ("softmax", [(2, 3, 4)], {"axis": 1}), ("log_softmax", [(2, 3, 4)], {"axis": -1}),
    ("layer_norm", [(3, 4), (4,), (4,)], {"epsilon": 0.1}), ("rms_norm", [(3, 4), (4,)], {"epsilon": 0.1}),
    ("batch_norm", [(2, 3, 4), (3,), (3,), (3,), (3,)], {"epsilon": 0.1}),
    ("reshape", [(2, 6)], {"shape": (3, 4)}), ("transpose", [(2, 3, 4)], {"perm": (2, 0, 1)}),
    ("concat", [(2, 3), (2, 1), (2, 2)], {"axis": 1}), ("slice", [(7, 5)], {"starts": (5, 1), "sizes": (3, 2), "steps": (-2, 3)}),
    ("expand", [(3, 1)], {"shape": (2, 3, 4)}), ("pad", [(2, 3)], {"before": (1, 0), "after": (0, 2), "value": 3.0}),
    ("upsample", [(1, 2, 2, 3)], {"scale": (2, 3)}), ("depth_to_space", [(1, 12, 2, 2)], {"scale": (2, 3)}),
    ("gather", [(3, 4), [4, (2, 2)]], {"axis": 1}),
    ("dequantise", [[9, (2, 3)], (3,), [4, (1,)]], {}), ("gather_elements", [(3, 4), [4, (3, 5)]], {"axis": 1}),
    ("attention", [(2, 3, 4), (2, 5, 4), (2, 5, 6)], {"scale": 0.5}),
    ("attention", [(2, 3, 4), (2, 5, 4), (2, 6, 5), (1, 3, 5)], {"scale": 0.5, "trans_v": 1})]
STEPS = "its result is a step, level everywhere but where it jumps"
WHOLE = "it is of whole numbers, or gives them"
WITHOUT = {
    **dict.fromkeys(("sign", "floor", "ceil", "round"), STEPS),
    **dict.fromkeys(("equal", "less", "less_equal", "greater", "greater_equal", "both", "either", "unlike", "invert", "is_nan", "is_inf",
                     "is_positive_inf", "is_negative_inf"), "its result is a truth"),
    **dict.fromkeys(("whole_div", "whole_rem", "bit_and", "bit_or", "bit_xor", "bit_not", "shift_left", "shift_right"), WHOLE),
    **dict.fromkeys(("quantise", "requantise", "add_quantised", "signed", "unsigned"), WHOLE + " of eight bits"),
    **dict.fromkeys(("encode", "decode"), "it is of codes of few bits")}


def arrays(op: str, shapes: list[Any], seed: int) -> list[np.ndarray]:
    """Numbers for which no two places tie, and no step is near; indices where a shape stands with how many there are."""
    random = np.random.default_rng(seed)
    out = []
    for at, shape in enumerate(shapes):
        if isinstance(shape, list):
            out.append(random.integers(0, shape[0], shape[1]))
            continue
        x = random.permutation(np.arange(np.prod(shape, dtype=int))) + random.uniform(0.2, 0.8)
        x = (x / max(x.size, 4) * 2 - 1).reshape(shape) * 1.3
        positive = op in (*POSITIVE, "acosh", "power", "mod", "fmod") or (op, at) in (("div", 1), ("batch_norm", 4))
        out.append(np.abs(x) + (1.1 if op == "acosh" else 0.4) if positive else np.clip(x, -0.9, 0.9) if op in INNER else x)
    return out


def agrees(op: str, shapes: list[Any], attributes: dict[str, Any], seed: int = 0) -> None:
    """The law for one operator: along a direction in all arguments the result, weighted, grows as the gradient says."""
    x, step = arrays(op, shapes, seed), 1e-6
    m = ops.meaning(op, [a.shape for a in x], attributes)
    grad, random = derived(m), np.random.default_rng(seed + 1)
    assert parse_meaning(show(grad)) == grad
    weights = [random.standard_normal(y.shape) for y in interpret(m, x)]
    found = dict(zip((o.name for o in grad.outputs), interpret(grad, [*x, *weights]), strict=True))
    for argument, (at, value) in zip(m.inputs, enumerate(x), strict=True):
        if value.dtype.kind != "f":
            continue
        along = random.standard_normal(value.shape)
        up, down = (interpret(m, [*x[:at], value + sign * step * along, *x[at + 1:]]) for sign in (1, -1))
        grown = sum(float(((a - b) * w).sum()) for a, b, w in zip(up, down, weights)) / (2 * step)
        told = float((found[f"d{argument.name}"] * along).sum())
        assert told == pytest.approx(grown, rel=1e-5, abs=1e-6), argument.name


@pytest.mark.parametrize("op", ONE + POSITIVE + INNER)
def test_of_one_argument(op: str) -> None:
    agrees(op, [(2, 3)], SIZES.get(op, {}))


@pytest.mark.parametrize("op", TWO)
@pytest.mark.parametrize("shapes", [[(2, 3), (2, 3)], [(2, 1), (3,)]])
def test_of_two_arguments(op: str, shapes: list[tuple[int, ...]]) -> None:
    agrees(op, shapes, {})


@pytest.mark.parametrize("op, shapes, attributes", OTHERS, ids=lambda x: x if isinstance(x, str) else "")
def test_of_others(op: str, shapes: list[Any], attributes: dict[str, Any]) -> None:
    agrees(op, shapes, attributes)


@pytest.mark.parametrize("op", [op for op, reason in WITHOUT.items() if reason == STEPS])
def test_steps_have_none(op: str) -> None:
    with pytest.raises(UnsupportedError, match="has no gradient"):
        ops.gradient(op, [(2, 3)])


def test_every_operator_has_a_gradient_or_a_reason() -> None:
    assert {*ONE, *POSITIVE, *INNER, *TWO, *(op for op, _, _ in OTHERS)} | WITHOUT.keys() == ops.OPS.keys()


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
        derived(bind(parse_meaning(text), [(3,)]))


def test_what_is_read_again_and_again_counts_as_often() -> None:
    m = bind(parse_meaning("f(X[i], W[j]) -> Y[i] { Y[i] += X[i] + W[j] }"), [(2,), (3,)])
    dx, dw = interpret(derived(m), [np.zeros(2), np.zeros(3), np.array([1.0, 10.0])])
    assert dx.tolist() == [3.0, 30.0] and dw.tolist() == [11.0] * 3


def test_several_results_and_one_that_is_read_again() -> None:
    m = bind(parse_meaning("f(X[i], W[i]) -> Y[i], Z[] { Y[i] = exp(X[i]) Z[] += Y[i] * W[i] init 2.0 }"), [(3,), (3,)])
    x, w, dy, dz = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0]), np.array(7.0)
    dx, dw = interpret(derived(m), [x, w, dy, dz])
    np.testing.assert_allclose(dx, np.exp(x) * (dy + 7.0 * w))
    np.testing.assert_allclose(dw, 7.0 * np.exp(x))
