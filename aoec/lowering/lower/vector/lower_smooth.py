"""Smooth functions of reals in operations of the vector unit: which form an expression takes, by the dtype of its result.

No form has a selection, so a product's sums can be processed in place. Each form is exact at the ends of its range and beyond, and gives
NaN for NaN. Its error against the true value is stated in steps of fp32 (2^-23 of the result's power of two) or relative to the result.
For a result of 16 bits that is the error before the result is rounded. tests/lowering/test_functions.py checks every form, over all
numbers of 16 bits and a sweep of fp32. Polynomials are least-maximum fits of our own, to values of 40 digits.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aoec.ir.index import Binary, Call, Cast, Expr, Float, Read, call, children, reads, rebuild
from aoec.lowering.lower.vector.lower_functions import Keep, polynomial

ROOT_HALF = 0.7071067811865476
X = Read("?", ())  # stands for the argument in the expression that a form is of

# erf(x) = x * P(x^2) up to 1 (1.3e-9 of it), and beyond, for what is at least 1, it is 1 - exp(P(x)) (1.7e-8), which is 1 from 3.92 on
ERF_END = 4.05
ERF_NEAR = (1.128379165727786, -0.3761262582715724, 0.1128358517152924, -0.02685381270865564, 0.005188328958802627, -0.0008010203709155339,
            7.853892130242623e-05)
ERF_FAR = (-0.0026191628121461745, -1.11762130369054, -0.6542400092962464, -0.08879975391937861, 0.014831855451745257,
           -0.0011572222565177093)
# erf(x) = x * P(x^2) / Q(x^2) up to 3.9 (for results of 16 bits): least largest relative error
ERF_MOST = 3.9
ERF_P = (1.128378850999301, 0.31069977389576797, 0.0669613621379292, 0.008408461358013264, 0.0003006474418867655)
ERF_Q = (1.0, 0.6086754717661169, 0.1622764025869455, 0.02440512506349251, 0.002118784695315919, 1.758848440973103e-05)
# tanh(x) = x * P(x^2) up to 0.55 (3.3e-8)
TANH_NEAR = 0.55
TANH = (0.9999999676617223, -0.333327951307916, 0.1331887818572544, -0.05258937568794166, 0.016315525598528773)
# exp(x) - 1 = x * P(x) from -0.35 to 0 (1.4e-8)
EXPM1_NEAR = -0.35
EXPM1 = (0.9999999866375081, 0.49999813073682986, 0.16662432873598637, 0.04132744584566775, 0.007204961587670259)
# F(-x) * exp(x^2 / 2) = P(x) / Q(x) for x from 0 to 14.5, F being the normal distribution (5.9e-9)
MILLS_P = (0.5000000029508506, 0.43829396702108675, 0.18323440648814493, 0.04063297923123825, 0.0041162720256027975)
MILLS_Q = (1.0, 1.6744729151840099, 1.2025001099736687, 0.4694686984505925, 0.10185822200741347, 0.010317844094186025)
# ln F(-x) for x from 0 to 5.75, where x * F(-x) is the last that fp16 holds: least largest error, in steps of x * F(-x) in fp16. Beyond, it
# falls on to -200 at TAIL_MOST
NORMAL_TAIL = (-0.693215654866532, -0.796721766097187, -0.3213835459886272, -0.03366253636449946, 0.0041064254305736595,
               -0.00022913791392017345)
TAIL_MOST = 16.0  # x * F(-x) is nothing in fp32 there
MISH_MOST = 20.0  # from here on a mish is its argument


def erf_in_full(keep: Keep, x: Expr) -> Expr:
    """Return erf(x) to 2 steps of fp32, and +-1 from 3.92 on. It is x * P(x^2), cut off where that passes 1 - exp(P(|x|)). It passes
    that only from 1 on."""
    size = keep(call("min", call("abs", x), Float(ERF_END)))
    far = keep(call("exp", polynomial(keep(call("max", size, Float(1.0))), ERF_FAR)) * Float(-1.0) + Float(1.0))
    return _cut_off(keep, polynomial(keep(size * size), ERF_NEAR) * x, far)


def erf_in_short(keep: Keep, x: Expr) -> Expr:
    """Return erf(x) with a relative error of at most 6e-7, which is less than a hundredth of a step of fp16."""
    x = keep(call("min", call("max", x, Float(-ERF_MOST)), Float(ERF_MOST)))
    square = keep(x * x)
    return polynomial(square, ERF_P) * x / polynomial(square, ERF_Q)


def tanh_in_full(keep: Keep, x: Expr) -> Expr:
    """Return tanh(x) to 2 steps of fp32. It is x * P(x^2), cut off where that passes 1 - 2 / (exp(2 |x|) + 1). It passes that only from
    TANH_NEAR on."""
    size = keep(call("max", call("abs", x), Float(TANH_NEAR)))
    far = keep(call("reciprocal", call("exp", size * Float(2.0)) + Float(1.0)) * Float(-2.0) + Float(1.0))
    return _cut_off(keep, polynomial(keep(x * x), TANH) * x, far)


def _cut_off(keep: Keep, near: Expr, far: Expr) -> Expr:
    """Return an odd function from two: `near` is right near 0 and too far from 0 beyond, and `far` is right beyond."""
    return call("max", call("min", near, far), keep(far * Float(-1.0)))


def gelu_in_full(keep: Keep, x: Expr) -> Expr:
    """Return max(x, 0) - a * F(-a) with a = min(|x|, TAIL_MOST), where F(-a) is P(a) / Q(a) * exp(-a^2 / 2). Above 0 the error is 2
    steps of fp32. Below 0 it is that of the exponential's argument, 6e-8 * (6 + a^2) of the value; from -14.5 on the result is 0. A form
    that made 1 + erf first would leave no bits of the tail."""
    size = keep(call("min", call("abs", x), Float(TAIL_MOST)))
    tail = call("exp", size * size * Float(-0.5)) * keep(polynomial(size, MILLS_P) / polynomial(size, MILLS_Q)) * size
    return call("max", x, Float(0.0)) - tail


def gelu_in_short(keep: Keep, x: Expr) -> Expr:
    """Return max(x, 0) - a * exp(P(a)) with a = min(|x|, TAIL_MOST). The error is 0.14 steps of fp16, also where the result is small. It
    takes 18 operations instead of 28, with no quotient among them. For bf16, whose range goes further down, the error is 1e-8 more.
    Either infinity gives the right result."""
    size = keep(call("min", call("abs", x), Float(TAIL_MOST)))
    return call("max", x, Float(0.0)) - call("exp", polynomial(size, NORMAL_TAIL)) * size


def mish(keep: Keep, x: Expr) -> Expr:
    """Return x * tanh(log(1 + e)) with e = exp(x), as x * n / (n + 2) with n = e * (e + 2). The error is 4 steps of fp32."""
    e = keep(call("exp", call("min", x, Float(MISH_MOST))))
    n = keep(keep(e + Float(2.0)) * e)
    return keep(n / keep(n + Float(2.0))) * x


def softplus(keep: Keep, x: Expr) -> Expr:
    """Return max(x, 0) + log(1 + e) with e = exp(-|x|), to 2 steps of fp32. What 1 + e loses of e is added to the logarithm; from -17 on
    that is all of e. (Its share of 1 + e would be the same to 6e-8 of e.)"""
    e = keep(call("exp", keep(call("abs", x) * Float(-1.0))))
    total = keep(e + Float(1.0))
    lost = keep(e - keep(total + Float(-1.0)))
    return call("max", x, Float(0.0)) + keep(keep(call("log", total)) + lost)


def exponential_less_1(keep: Keep, x: Expr) -> Expr:
    """Return exp(x) - 1 for x of at most 0, to 2 steps of fp32. It is the larger of two forms, as x * P(x) is below exp(x) - 1 only from
    EXPM1_NEAR down."""
    far = keep(call("exp", call("min", x, Float(EXPM1_NEAR))) + Float(-1.0))
    return call("max", polynomial(x, EXPM1) * x, far)


def _any(x: Expr) -> bool: return True


def _not_above_0(x: Expr) -> bool:
    """Return whether an expression is 0 or less, by how it is written: what of something is below 0, perhaps over a positive number."""
    if isinstance(x, Binary) and x.op in ("*", "/") and isinstance(x.right, Float) and x.right.value > 0:
        return _not_above_0(x.left)
    return isinstance(x, Call) and x.fn == "min" and isinstance(x.args[1], Float) and x.args[1].value <= 0


@dataclass(frozen=True)
class Form:
    """What an expression of an argument X becomes where its result has one of a few dtypes of 16 bits (`short`), and else (`full`), always
    worked out in fp32; None: what its parts become. `of_x`: whether an argument has the form."""

    expression: Expr
    full: Callable[[Keep, Expr], Expr]
    short: Callable[[Keep, Expr], Expr] | None
    dtypes: tuple[str, ...] = ("fp16",)
    of_x: Callable[[Expr], bool] = _any


SHORT = ("fp16", "bf16")  # dtypes for whose bits a form relative to its result is enough
SOFTPLUS = call("max", X, Float(0.0)) + call("log", call("exp", call("abs", X) * Float(-1.0)) + Float(1.0))
FORMS = (
    Form(X * Float(0.5) * (Float(1.0) + call("erf", X * Float(ROOT_HALF))), gelu_in_full, gelu_in_short, SHORT),
    Form(X * call("tanh", SOFTPLUS), mish, mish),
    Form(SOFTPLUS, softplus, softplus),
    Form(call("exp", X) - Float(1.0), exponential_less_1, None, of_x=_not_above_0),
    Form(call("erf", X), erf_in_full, erf_in_short, SHORT),
    Form(call("tanh", X), tanh_in_full, None),
)


def smooth(keep: Keep, e: Expr, dtype: str) -> Expr:
    """Return the expression, for a result of a dtype, with the forms of what has one; `keep` gives a read of an expression worked out in
    fp32."""
    if isinstance(e, Read) or not reads(e):
        return e
    for form in FORMS:
        made = form.short if dtype in form.dtypes else form.full
        if (x := _argument(form, e)) is not None:
            return made(keep, keep(smooth(keep, x, dtype))) if made else rebuild(e, lambda c: smooth(keep, c, dtype))
    return rebuild(e, lambda c: smooth(keep, c, dtype))


def in_fp32(e: Expr) -> bool:
    """Return whether something of an expression has a form, and so is worked out in fp32 whatever its operands are. A tanh as a difference
    from 1, for one, has no bits near 0 in fp16. (The vendor's library takes 0.20 cycles an element of fp16 and 0.16 of fp32 on 910B3, so it
    casts too: auto-fuse's table of costs.)"""
    return any(_argument(form, e) is not None for form in FORMS) or any(map(in_fp32, children(e)))


def _argument(form: Form, e: Expr) -> Expr | None:
    """Return what stands for X where an expression is a form's; None where it is not."""
    found: list[Expr] = []
    return found[0] if _alike(form.expression, e, found) and len(set(found)) == 1 and reads(found[0]) and form.of_x(found[0]) else None


def _alike(pattern: Expr, e: Expr, found: list[Expr]) -> bool:
    """Return whether an expression is a pattern, but for what stands for X, which is added to `found`."""
    if pattern == X:
        found.append(e)
        return True
    if isinstance(pattern, Float) or type(pattern) is not type(e):
        return pattern == e
    names = [getattr(pattern, "op", getattr(pattern, "fn", "")), getattr(e, "op", getattr(e, "fn", ""))]
    parts = children(pattern), children(e)
    return names[0] == names[1] and not isinstance(e, Cast) and len(parts[0]) == len(parts[1]) and all(
        _alike(p, q, found) for p, q in zip(*parts))
