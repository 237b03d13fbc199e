"""Functions that the vector unit lacks, in operations that it has, of fp32: each with its error against the true value.

A function takes `keep`, which gives a read of what an expression makes, and its arguments as reads; it gives an expression. Polynomials are
least-maximum fits of our own. Errors are of results computed in fp32, found over the arguments that are named (tests/lowering).
"""
from __future__ import annotations

from collections.abc import Callable
from math import inf, pi

from aoec.ir.index import DTYPES, Binary, Call, Expr, Float, Int, Read, call, rebuild, select

Keep = Callable[[Expr], Expr]

# pi in parts of eight bits, and what is left: products with whole numbers of up to sixteen bits are exact
PI_PARTS = (3.140625, 0.00096893310546875, -1.2814998626708984e-06, 1.984187258941006e-09)
LOG_2 = 0.6931471805599453
# odd functions: x * P(x^2); the sine up to pi / 2, the tangent up to pi / 4, the arcsine up to 1/2, the others up to 1
SIN = (0.9999999999775083, -0.16666666605800756, 0.008333330612416664, -0.0001984081940136044, 2.7523296063231006e-06,
       -2.385654143677307e-08)
TAN = (1.0000000191861478, 0.3333303707338891, 0.13340732148910844, 0.053283805373020916, 0.02482699028766406, 0.0025389987048191932,
       0.00970745108643888)
ATAN = (0.9999999847671519, -0.33333073341727076, 0.19992619228822717, -0.1420364282066232, 0.1064092674198471, -0.07504277777826593,
        0.04269131008151264, -0.016068494648012147, 0.002849854852770728)
ASIN = (0.9999999955849784, 0.166667901041167, 0.07494434892695578, 0.045550172913963245, 0.02385821845483454, 0.04263557334900656)
SINH = (0.9999999797019877, 0.16666733826233127, 0.008329911928466202, 0.00020393989663618217)
# the sine and the tangent are asked of a little more than their parts of a turn, as a rounded angle may have the multiple beside its own
SIN_MOST, TAN_MOST = 1.6, 0.8
LARGE = 4096.0  # from here on 1 is nothing beside the square
POWERS = 5  # whole exponents of fewer bits than this are multiplied out
FMOD_ROUNDS = 4  # of 12 bits of the quotient
EVEN = 2.0**25  # from 2^24 on all numbers of fp32 are even
LARGEST = 3.4028234663852886e+38  # of fp32


def rewrite(e: Expr) -> Expr:
    """Return the expression in operations that the vector unit has."""
    e = rebuild(e, rewrite) if not isinstance(e, Read) else e
    if isinstance(e, Call) and e.fn == "sigmoid":
        return call("reciprocal", call("exp", e.args[0] * Float(-1.0)) + Float(1.0))
    if isinstance(e, Call) and e.fn == "tanh":
        return call("reciprocal", call("exp", e.args[0] * Float(-2.0)) + Float(1.0)) * Float(2.0) + Float(-1.0)
    if isinstance(e, Binary) and e.op == "-" and isinstance(e.right, (Float, Int)):
        return e.left + Float(-float(e.right.value))
    if isinstance(e, Binary) and e.op == "-" and isinstance(e.left, (Float, Int)):
        return e.right * Float(-1.0) + e.left
    if isinstance(e, Binary) and e.op == "/" and isinstance(e.right, (Float, Int)):
        return e.left * Float(1.0 / float(e.right.value))
    if isinstance(e, Binary) and e.op == "/" and e.left in (Float(1.0), Int(1)):
        return call("reciprocal", e.right)
    if isinstance(e, Binary) and e.op == "/" and isinstance(e.left, Float):
        return call("reciprocal", e.right) * e.left
    return e


def polynomial(x: Expr, factors: tuple[float, ...]) -> Expr:
    """Return factors[0] + factors[1] * x + ..., evaluated from the highest power on."""
    out: Expr = x * Float(factors[-1]) + Float(factors[-2])
    for f in reversed(factors[:-2]):
        out = out * x + Float(f)
    return out


def _odd(keep: Keep, x: Expr, factors: tuple[float, ...]) -> Expr:
    """Return x * P(x^2)."""
    return polynomial(keep(x * x), factors) * x


def _less(a: Expr, b: float) -> Expr: return Binary("<", a, Float(b))
def _negative(x: Expr) -> Expr: return x * Float(-1.0)
def _copy_sign(x: Expr, size: Expr) -> Expr: return select(_less(x, 0.0), _negative(size), size)  # of an odd function


def _parity(keep: Keep, k: Expr) -> Expr:
    """Return 1 where the whole number k is odd, else 0."""
    return keep(k - keep(call("floor", k * Float(0.5))) * Float(2.0))


def _less_multiples(keep: Keep, x: Expr, k: Expr, part: float) -> Expr:
    """Return x - k * pi * part, subtracted part by part."""
    for p in PI_PARTS:
        x = keep(x - keep(k * Float(p * part)))
    return x


def _clamp(keep: Keep, x: Expr, most: float) -> Expr:
    """Clamp x between -most and most, where a polynomial fits. Angles that are too large may give anything."""
    return keep(call("min", call("max", x, Float(-most)), Float(most)))


def sine(keep: Keep, x: Expr) -> Expr:
    """Return the sine of x, with an error of at most 2e-7 for x between -1e5 and 1e5. Beyond, multiples of pi have more than sixteen
    bits and the error grows with them; results stay between -1 and 1."""
    k = keep(call("round", x * Float(1 / pi)))
    r = _clamp(keep, _less_multiples(keep, x, k, 1.0), SIN_MOST)
    return _odd(keep, r, SIN) * (_parity(keep, k) * Float(-2.0) + Float(1.0))


def cosine(keep: Keep, x: Expr) -> Expr:
    """Return the cosine of x, as the sine of a quarter turn more: with an error of at most 2e-7 for x between -1e5 and 1e5."""
    k = keep(call("round", x * Float(1 / pi) + Float(0.5)))
    r = _clamp(keep, _less_multiples(keep, x, keep(k + Float(-0.5)), 1.0), SIN_MOST)
    return _odd(keep, r, SIN) * (_parity(keep, k) * Float(-2.0) + Float(1.0))


def tangent(keep: Keep, x: Expr) -> Expr:
    """Return the tangent of x, with a relative error of at most 5e-7 for x between -1e4 and 1e4. Within 1e-3 of a pole it is larger, as
    the argument is no nearer to the pole than its own rounding."""
    k = keep(call("round", x * Float(2 / pi)))
    t = keep(_odd(keep, _clamp(keep, _less_multiples(keep, x, k, 0.5), TAN_MOST), TAN))
    return select(_parity(keep, k), _negative(keep(call("reciprocal", t))), t)


def arctangent(keep: Keep, x: Expr) -> Expr:
    """Return the arctangent of x, with a relative error of at most 3e-7. Above 1 it is calculated from the reciprocal."""
    size = keep(call("abs", x))
    far = keep(Binary(">", size, Float(1.0)))
    p = keep(_odd(keep, keep(select(far, call("reciprocal", size), size)), ATAN))
    return _copy_sign(x, keep(select(far, _negative(p) + Float(pi / 2), p)))


def _half_arcsine(keep: Keep, x: Expr) -> tuple[Expr, Expr]:
    """Return (1 where |x| > 1/2, else 0; an arcsine). The arcsine is that of |x| up to 1/2, and above it that of the root of (1 - |x|) /
    2."""
    size = keep(call("abs", x))
    far = keep(Binary(">", size, Float(0.5)))
    square = keep(select(far, size * Float(-0.5) + Float(0.5), size * size))
    return far, keep(polynomial(square, ASIN) * keep(select(far, call("sqrt", square), size)))


def arcsine(keep: Keep, x: Expr) -> Expr:
    """Return the arcsine of x, with a relative error of at most 4e-7. Above 1/2 it is calculated from the half angle."""
    far, p = _half_arcsine(keep, x)
    return _copy_sign(x, keep(select(far, p * Float(-2.0) + Float(pi / 2), p)))


def arccosine(keep: Keep, x: Expr) -> Expr:
    """Return the arccosine of x. Its error is at most 6e-7 of the value where that is not near 0, and 6e-7 of half the angle where it
    is."""
    far, p = _half_arcsine(keep, x)
    near = _negative(keep(_copy_sign(x, p))) + Float(pi / 2)
    return select(far, keep(select(_less(x, 0.0), p * Float(-2.0) + Float(pi), p * Float(2.0))), near)


def _half_exponential(keep: Keep, size: Expr) -> Expr:
    """Return exp(size) / 2, without overflow where the result fits."""
    e = keep(call("exp", size * Float(0.5)))
    return keep(e * Float(0.5) * e)


def hyperbolic_sine(keep: Keep, x: Expr) -> Expr:
    """Return the hyperbolic sine of x, with a relative error of at most 1e-6, since the exponential's argument is rounded. Below 1 it is
    a polynomial."""
    size = keep(call("abs", x))
    e = _half_exponential(keep, size)
    far = keep(_copy_sign(x, keep(e - keep(call("reciprocal", e) * Float(0.25)))))
    return select(_less(size, 1.0), keep(_odd(keep, keep(call("min", call("max", x, Float(-1.0)), Float(1.0))), SINH)), far)


def hyperbolic_cosine(keep: Keep, x: Expr) -> Expr:
    """Return the hyperbolic cosine of x, with a relative error of at most 1e-6."""
    e = _half_exponential(keep, keep(call("abs", x)))
    return e + keep(call("reciprocal", e) * Float(0.25))


def _log_of_1_and(keep: Keep, x: Expr) -> Expr:
    """Return log(1 + x), to 2 steps of fp32 for small x too. What 1 + x loses of x is divided by the sum and added to the logarithm."""
    total = keep(x + Float(1.0))
    lost = keep(x - keep(total + Float(-1.0)))
    return keep(keep(call("log", total)) + keep(lost / total))


def area_sine(keep: Keep, x: Expr) -> Expr:
    """Return the inverse hyperbolic sine of x, with a relative error of at most 4e-7."""
    size = keep(call("abs", x))
    square = keep(size * size)
    root = keep(call("sqrt", square + Float(1.0)) + Float(1.0))
    near = _log_of_1_and(keep, keep(size + keep(square / root)))
    return _copy_sign(x, keep(select(_less(size, LARGE), near, keep(call("log", size) + Float(LOG_2)))))


def area_cosine(keep: Keep, x: Expr) -> Expr:
    """Return the inverse hyperbolic cosine of x, with a relative error of at most 4e-7."""
    more = keep(x + Float(-1.0))
    root = keep(keep(call("sqrt", more)) * keep(call("sqrt", x + Float(1.0))))  # NaN below 1, where there is none
    near = _log_of_1_and(keep, keep(more + root))
    return select(_less(x, LARGE), near, keep(call("log", x) + Float(LOG_2)))


def area_tangent(keep: Keep, x: Expr) -> Expr:
    """Return the inverse hyperbolic tangent of x, with a relative error of at most 4e-7. It is infinite at 1."""
    size = keep(call("abs", x))
    ratio = keep(size * Float(2.0) / keep(_negative(size) + Float(1.0)))
    return _copy_sign(x, keep(select(Binary("==", size, Float(1.0)), ratio, _log_of_1_and(keep, ratio) * Float(0.5))))


def sign(keep: Keep, x: Expr) -> Expr:
    """Return the sign of x, exactly, and NaN for NaN. Two multiplications make the least subnormal larger than 1."""
    large = keep(keep(x * Float(2.0**127)) * Float(2.0**127))
    return call("min", call("max", large, Float(-1.0)), Float(1.0))


def _high(keep: Keep, x: Expr) -> Expr:
    """Return the upper half of the bits of x, rounded: Veltkamp's splitting. A product of two such halves is exact."""
    t = keep(x * Float(4097.0))
    return keep(t - keep(t - x))


def exact_remainder(keep: Keep, a: Expr, b: Expr) -> Expr:
    """Return C's fmod: what is left of a after whole multiples of b, with the sign of a. It is exact where |a / b| is below 2^48, which
    holds for all of fp16. Beyond it is NaN, as it is where a is infinite or b is 0.

    Each round subtracts the quotient's upper 12 bits times b, in two products that are exact. The differences are exact too (Sterbenz).
    The last of them may be below 0 by the rounding of the quotient. Magnitudes are scaled, so that halves neither overflow nor vanish.
    """
    size_a, size_b = keep(call("abs", a)), keep(call("abs", b))
    small = keep(_less(size_a, 1.0))
    scale = keep(select(small, Float(2.0**60), Float(2.0**-30)))
    rest, by = keep(size_a * scale), keep(size_b * scale)
    high = _high(keep, by)
    low = keep(by - high)
    for _ in range(FMOD_ROUNDS):
        upper = _high(keep, keep(call("trunc", rest / by)))
        rest = keep(keep(rest - keep(upper * high)) - keep(upper * low))
    rest = keep(select(_less(rest, 0.0), rest + by, rest))
    rest = keep(select(Binary("<", rest, by), rest, call("log", _negative(by) + Float(-1.0))))  # NaN
    found = keep(rest * keep(select(small, Float(2.0**-60), Float(2.0**30))))
    return select(Binary("<", size_a, size_b), a, keep(_copy_sign(a, found)))


def real_remainder(keep: Keep, a: Expr, b: Expr) -> Expr:
    """Return what is left of a after whole multiples of b, with the sign of b. It is fmod, plus b where fmod has the other sign."""
    return _of_sign(keep, keep(exact_remainder(keep, a, b)), b, Float(0.0))


def _of_sign(keep: Keep, rest: Expr, b: Expr, zero: Expr) -> Expr:
    """Return a remainder with the sign of the divisor, from one with the dividend's."""
    apart = Binary("and", Binary("!=", rest, zero), Binary("!=", Binary("<", rest, zero), Binary("<", b, zero)))
    return select(apart, rest + b, rest)


_ONE = Float(1.0)


def power(keep: Keep, a: Expr, b: Expr) -> Expr:
    """Return a to the power b. Whole exponents below 2^POWERS are multiplied out, with a few roundings. Others are exp(b log a), whose
    error is that of its argument: 6e-8 of b log a, so 6e-6 of the value at most. Finite negative bases have powers for whole exponents
    alone. Infinities and NaN are as in C. Every power of 1 is 1, and so is -1 to an infinite exponent. Large exponents are even."""
    size = keep(call("abs", b))
    is_whole = keep(Binary("==", keep(call("floor", b)), b))
    few = keep(is_whole * keep(_less(size, float(1 << POWERS))))
    product: Expr = _ONE
    square, rest = a, keep(call("min", size, Float(64.0)))
    for _ in range(POWERS):
        half = keep(call("floor", rest * Float(0.5)))
        more = square if product is _ONE else keep(product * square)
        product = keep(select(keep(rest - keep(half * Float(2.0))), more, product))
        square, rest = keep(square * square), half
    exact = keep(select(_less(b, 0.0), call("reciprocal", product), product))
    unsigned = keep(call("max", is_whole, keep(Binary("==", a, Float(-inf)))))
    some = keep(call("min", call("max", b, Float(-LARGEST)), Float(LARGEST)))  # times a logarithm of 0 is 0
    made = keep(call("exp", keep(some * keep(call("log", select(unsigned, call("abs", a), a))))))
    odd = keep(_parity(keep, keep(call("min", size, Float(EVEN)))))
    turned = keep(is_whole * keep(odd * keep(_less(a, 0.0))))
    signed = keep(select(few, exact, keep(select(turned, _negative(made), made))))
    return select(Binary("==", a, _ONE), _ONE, signed)


FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "sin": sine, "cos": cosine, "tan": tangent, "asin": arcsine, "acos": arccosine, "atan": arctangent, "sinh": hyperbolic_sine,
    "cosh": hyperbolic_cosine, "asinh": area_sine, "acosh": area_cosine, "atanh": area_tangent, "sign": sign, "pow": power,
    "%": real_remainder, "fmod": exact_remainder}


# ---------------------------------------------------------------- whole numbers, exact

def _split_lowest_bit(keep: Keep, n: Expr) -> tuple[Expr, Expr]:
    """Return (1 where the lowest bit is set, else 0; what is above it)."""
    above = keep(call("shr", n, Int(1)))
    return keep(Binary("!=", keep(n - keep(call("shl", above, Int(1)))), Int(0))), above


def whole_power(keep: Keep, kind: str, a: Expr, n: Expr) -> Expr:
    """Return a multiplied by itself n times, for exponents of up to six bits. With a larger exponent, only powers of 0, 1 and -1 fit."""
    product: Expr = Int(1)
    square = a
    for _ in range(6):
        bit, n = _split_lowest_bit(keep, n)
        product = keep(select(bit, product * square, product))
        square = keep(square * square)
    return product


def make_shift(fn: str) -> Callable[..., Expr]:
    """Return a shift by as many bits as an element says: by each power of two where its bit is set.
    A shift by more bits than there are, or by less than none, leaves the sign alone."""
    def shift(keep: Keep, kind: str, a: Expr, n: Expr) -> Expr:
        bits = 8 * DTYPES[kind]
        inside = keep(Binary("and", Binary(">=", n, Int(0)), Binary("<", n, Int(bits))))
        rest = Int(0) if fn == "shl" or kind == "uint64" else keep(call("shr", a, Int(bits - 1)))
        for step in range(bits.bit_length() - 1):
            bit, n = _split_lowest_bit(keep, n)
            a = keep(select(bit, call(fn, a, Int(1 << step)), a))
        return select(inside, a, rest)
    return shift


def remainder(keep: Keep, kind: str, a: Expr, b: Expr) -> Expr:
    """Return what is left of a after whole multiples of b, with the sign of b."""
    rest = keep(a - keep(keep(call("idiv", a, b)) * b))
    return _of_sign(keep, rest, b, Int(0))


def exclusive(keep: Keep, kind: str, a: Expr, b: Expr) -> Expr:
    """Return bits that are set in one alone: those of either less those of both."""
    return keep(call("bitor", a, b)) - keep(call("bitand", a, b))


WHOLE_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    "pow": whole_power, "shl": make_shift("shl"), "shr": make_shift("shr"), "%": remainder, "bitxor": exclusive,
    "sign": lambda keep, kind, a: call("min", call("max", a, Int(-1)), Int(1)), "abs": lambda keep, kind, a: call("max", a, a * Int(-1))}
