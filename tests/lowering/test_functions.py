"""Functions of reals over their whole range: every number of 16 bits, a sweep of fp32, against double precision; what is made of
polynomials reaches its ends, and does not fall where the function rises."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from aoec.ops.run import NUMPY
from aoec.target.machine import load
from tests.lowering.test_typed import MACHINE, ran

COUPLED = load("Ascend310P3")  # whose vector unit belongs to the cube's core
FINE = 1 << 16  # every so manieth number of fp32, with its neighbours
# dtype -> (bits of a fraction, exponent of the smallest normal number)
FORMAT = {"fp32": (23, -126), "fp16": (10, -14), "bf16": (7, -126)}
Reals = Callable[[np.ndarray], np.ndarray]

TRUE: dict[str, Reals] = {
    "erf": special.erf, "gelu": lambda x: x * special.ndtr(x), "tanh": np.tanh, "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "softplus": lambda x: np.logaddexp(0, x), "sigmoid": special.expit, "silu": lambda x: x * special.expit(x),
    "gelu_tanh": lambda x: x * special.expit(np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)),
    "elu": lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.where(x > 0, x, 2.0 * np.expm1(np.minimum(x, 0) / 2.0)),
    "selu": lambda x: np.where(x > 0, 1.25 * x, 1.25 * 1.5 * np.expm1(np.minimum(x, 0))),
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh}
ATTRIBUTES: dict[str, dict[str, float]] = {"elu": {"alpha": 0.5}, "celu": {"alpha": 2.0}, "selu": {"alpha": 1.5, "gamma": 1.25}}
DOMAIN = {"asin": (-1, 1), "acos": (-1, 1), "acosh": (1, np.inf), "atanh": (-1, 1)}
# steps of fp32 that a result may be off by: what the docstrings of lowering/lower/vector/lower_smooth.py and lower_functions.py say
STEPS = {"erf": 2.2, "tanh": 2, "mish": 4, "softplus": 2, "elu": 2, "celu": 2.5, "selu": 3.5, "asin": 2.5, "acos": 2, "atan": 2, "sinh": 4,
         "cosh": 3, "asinh": 2, "acosh": 2, "atanh": 2, "sigmoid": 2.5, "silu": 3}
SMALLEST = 2.0**-118  # exponentials below 2^-126 may be 0, and a sigmoid is times its argument here and there
RISING = ("erf", "tanh", "softplus", "sigmoid", "elu", "celu", "selu", "asin", "atan", "sinh", "asinh", "acosh", "atanh")


def every(dtype: str) -> np.ndarray:
    """All finite numbers of a dtype of 16 bits; of fp32 a sweep over all exponents and both signs, with neighbours."""
    if dtype == "fp32":
        at = np.arange(0, 1 << 32, FINE, dtype=np.uint64)
        x = np.unique(np.concatenate([at, at + 1, at + (FINE - 1)])).astype(np.uint32).view(np.float32)
    else:
        x = np.arange(1 << 16, dtype=np.uint16).view(NUMPY[dtype])
    x = x[np.isfinite(x.astype(np.float32))]
    return x[np.argsort(x.astype(np.float64), kind="stable")]


def steps(x: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of neighbouring numbers of a dtype around each value."""
    bits, least = FORMAT[dtype]
    exponents = np.frexp(x)[1] - 1
    return np.ldexp(1.0, np.maximum(exponents, least) - bits)


def found(op: str, dtype: str, x: np.ndarray, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """What a program gives, as double, and what is true."""
    got, _ = ran(op, [(dtype, x)], dtype, **options, **ATTRIBUTES.get(op, {}))
    with np.errstate(all="ignore"):
        return got.astype(np.float64), TRUE[op](x.astype(np.float64))


def within_domain(op: str, x: np.ndarray) -> np.ndarray:
    low, high = DOMAIN.get(op, (-np.inf, np.inf))
    return x[(x >= low) & (x <= high)]


def off(got: np.ndarray, true: np.ndarray, dtype: str) -> np.ndarray:
    """The error of each result; of what is beyond a dtype 0 where the result is infinite."""
    with np.errstate(all="ignore"):
        beyond = np.isinf(true.astype(NUMPY[dtype]).astype(np.float64))
        same = beyond & (np.sign(got) == np.sign(true)) & (np.abs(got) >= (2 - 2.0**-20) * 2.0**(15 if dtype == "fp16" else 127))
        return np.where(same, 0.0, np.abs(got - true))


def rises(got: np.ndarray) -> np.ndarray:
    """What each result is above the one before it; infinities are the largest number of double."""
    return np.diff(np.nan_to_num(got, posinf=1e300, neginf=-1e300))


@pytest.mark.parametrize("op", [*STEPS])
def test_in_fp32_errors_are_a_few_steps(op: str) -> None:
    x = within_domain(op, every("fp32"))
    got, true = found(op, "fp32", x)
    error = off(got, true, "fp32") / steps(true, "fp32")
    error[(np.abs(true) < SMALLEST) & (np.abs(got) <= SMALLEST)] = 0
    assert error.max() <= STEPS[op], (x[error.argmax()], got[error.argmax()], true[error.argmax()], error.max())
    if op in RISING:
        rise = rises(got) / steps(got[1:], "fp32")
        assert rise.min() >= -1, x[rise.argmin()]


@pytest.mark.parametrize("op", ["gelu", "gelu_tanh"])
def test_in_fp32_a_gelu_keeps_its_tail(op: str) -> None:
    """Errors below 0 are those of an exponential's argument, which is rounded; far below there is nothing, and above 0 a few steps."""
    x = every("fp32")
    got, true = found(op, "fp32", x)
    wide = x.astype(np.float64)
    argument = wide**2 if op == "gelu" else np.abs(4.8 * (wide + 0.044715 * wide**3))  # of four roundings
    error = off(got, true, "fp32")
    assert np.all(error <= 2.0**-24 * (6 + np.minimum(argument, 300)) * np.abs(true) + SMALLEST)
    assert np.all(error[x > 0] <= 3 * steps(true, "fp32")[x > 0])
    assert not got[x < -14.5].any()


@pytest.mark.parametrize("op", ["erf", "gelu", "tanh", "mish", "softplus", "elu", "celu", "selu", "asin", "acos", "atan", "sinh", "cosh",
                                "asinh", "acosh", "atanh"])
def test_in_fp16_all_numbers_are_rounded_once(op: str) -> None:
    """Half a step and what the form in fp32 is off by; no result is below one of a smaller number."""
    x = within_domain(op, every("fp16"))
    got, true = found(op, "fp16", x)
    most = {"gelu": 0.64, "tanh": 1.5, "elu": 1, "celu": 1.5, "selu": 1.5}.get(op, 0.51)  # a difference from 1 has 6e-8 of 1
    error = off(got, true, "fp16") / steps(true, "fp16")
    assert error.max() <= most, (x[error.argmax()], got[error.argmax()], true[error.argmax()])
    if op in RISING:
        assert rises(got).min() >= 0


@pytest.mark.parametrize("op", ["sigmoid", "silu", "gelu_tanh"])
def test_what_is_worked_out_in_fp16_has_its_errors(op: str) -> None:
    """Three steps; an exponential that is no number of fp16 leaves nothing of the last 2e-5 of a sigmoid. The argument of the sigmoid in
    gelu_tanh is rounded to fp16, which is a hundredth of the result at most."""
    x = every("fp16")
    got, true = found(op, "fp16", x)
    tail = 1.6e-5 * (1 if op == "sigmoid" else np.maximum(np.abs(x.astype(np.float64)), 1))
    assert np.all(off(got, true, "fp16") <= 3 * steps(true, "fp16") + tail + (1e-2 * np.abs(true) if op == "gelu_tanh" else 0))


@pytest.mark.parametrize("op", ["erf", "gelu", "tanh", "mish", "softplus", "elu", "sigmoid", "silu", "atan", "asinh"])
def test_in_bf16_all_numbers_are_rounded_once(op: str) -> None:
    x = every("bf16")
    got, true = found(op, "bf16", x)
    tail = 1e-8 if op == "gelu" else SMALLEST  # what a fit for fp16 leaves of a tail
    assert np.all(off(got, true, "bf16") <= 0.52 * steps(true, "bf16") + tail)


@pytest.mark.parametrize("machine", [MACHINE, COUPLED], ids=lambda m: m.name)
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_ends_are_reached(dtype: str, machine: Any) -> None:
    """At the ends of a range and beyond, the infinities among them, results are exactly what they tend to; NaN stays NaN."""
    if dtype == "bf16" and machine is COUPLED:
        pytest.skip("no bf16 there")
    most = float({"fp32": np.float32(3.4e38), "fp16": np.float32(65504.0), "bf16": np.float32(3.38e38)}[dtype])
    up = np.array([20.0, 40.0, 104.5, 300.0, 30000.0, most, np.inf])
    x = np.concatenate([-up[::-1], up, [np.nan]]).astype(NUMPY[dtype])
    wide = x.astype(np.float64)
    ends = {"erf": np.sign(wide), "tanh": np.sign(wide), "gelu": np.maximum(wide, 0), "softplus": np.maximum(wide, 0),
            "elu": np.where(wide < 0, -0.5, wide)}
    for op, due in ends.items():
        got, _ = found(op, dtype, x, machine=machine)
        near = 2.1e-9 if op == "softplus" else 0.0  # exp(-20), and what is left of it at 104.5
        assert np.array_equal(np.isnan(got), np.isnan(due)), op
        apart = (due != got) & ~np.isnan(due)
        assert np.all(np.abs(got[apart] - due[apart]) <= near), (op, got, due)


@pytest.mark.parametrize("op", ["erf", "tanh", "gelu"])
def test_nothing_falls_on_its_way_to_an_end(op: str) -> None:
    """Every fourth number of fp32 from where a result is within 1e-5 of its end."""
    low = {"erf": 3.1, "tanh": 6.1, "gelu": 5.0}[op]
    first, last = (int(np.float32(v).view(np.uint32)) for v in (low, 1.5 * low))
    x = np.arange(first, last, 16, dtype=np.uint32).view(np.float32)
    got, true = found(op, "fp32", x)
    assert np.all(np.diff(got) >= 0)
    assert np.abs(got - true).max() <= steps(true, "fp32").max()


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_keep_their_errors(name: str) -> None:
    """Up to 1e5 either way, a tangent where it is no pole; beyond that a sine is still between -1 and 1."""
    x = np.concatenate([np.linspace(-1e5, 1e5, 20001), np.linspace(-8, 8, 5000), np.geomspace(1e-30, 1e5, 5000)]).astype(np.float32)
    got, _ = ran(name, [("fp32", x)], "fp32")
    true = getattr(np, name)(x.astype(np.float64))
    error = np.abs(got - true)
    assert np.all(error <= (2e-7 if name != "tan" else 5e-7 * np.maximum(np.abs(true), 1) ** 2))
    sweep, halves = every("fp32"), every("fp16")
    far, _ = ran(name, [("fp32", sweep[np.abs(sweep) > 1e5][::5])], "fp32")
    assert np.all(np.isfinite(far)) and (name == "tan" or np.abs(far).max() <= 1)
    got, _ = ran(name, [("fp16", halves)], "fp16")
    true = getattr(np, name)(halves.astype(np.float64))
    assert np.all(off(got.astype(np.float64), true, "fp16") <= 0.51 * steps(true, "fp16") + 2e-7)
