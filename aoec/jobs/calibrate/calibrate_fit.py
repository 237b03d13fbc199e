"""Numbers of a machine file, fitted to measured times. A number moves only as far as the times and its confidence support.

The unknowns are logarithms of ratios, x = ln(number / number of the file), within the bounds of the file's confidence. The fit minimises
sum(((ln measured - ln modelled(x)) / noise)^2) + sum((x / width)^2). Here, width is the standard deviation of a ratio that is uniform
within its bounds. So all numbers are fitted together. Numbers that do not affect the times stay where they are, and their uncertainty adds
to that of the others.

Modelled times are maxima of sums, nearly linear in x. So a bounded linear problem (scipy's lsq_linear) is solved repeatedly. Its slopes are
corrected by the times found on the way (Broyden's update), and outliers weigh less (Huber). The standard deviation of each number, given
times and confidence, then follows from the slopes (Tarantola, Inverse Problem Theory, 3.2).

The times are only nearly linear: a row may be steep at the file's number and flat at the true one. So each slope is that of a line over the
known range of a number. The range is at first its whole width, and later its standard deviation. A time that departs from such a line
weighs less, by the amount of its departure (posterior linearization: Garcia-Fernandez et al., IEEE Transactions on Signal Processing 63,
2015).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import lsq_linear
from scipy.special import stdtrit

Array = np.ndarray
NOISE = 0.005  # at least: two runs of one kernel differ by half a percent
PASSES, ROUNDS, HALVINGS = 6, 6, 3  # at most; slopes are found anew in each pass
SETTLED = 0.25  # standard deviations that a pass may still move a number by
SMALL_STEP = 0.01  # of a width
TOLD = 0.9  # share of its width, below which times say something of a number's deviation
HUBER = 2.0  # times further off than so many standard deviations weigh less
KNOWN, HALVED = 0.05, 1.0  # half of its interval, and that as a share of the width, of a number that is found
INTERVAL = 0.9772  # of a normal distribution lies below two standard deviations: an interval leaves as much out on either side
EFFICIENT = 0.5  # of as many times' worth is what their median says of their spread: 0.37 of many (Huber, Robust Statistics, 5.1), of
# few that a floor of noise holds up more; on models of 10 rows and 6 numbers 2 % of intervals leave the truth out
EDGE = 0.97  # of its bounds, from which a number is taken to be beyond them
FREE = 0.7  # bounds of a number that is: half and twice
RELEASES = 4  # rounds in which such numbers are sought
HELD_BY = 0.7  # correlation from which two numbers are called inseparable
FELT = 1.0  # standard deviations of noise that some time must move by within a number's confidence


@dataclass(frozen=True)
class Fitted:
    """Fitted numbers. `x` and `deviation`: value and standard deviation of each. `half`: half of its interval, which is wider where few
    times show the noise. `beyond`: numbers that the times move beyond the bounds of their confidence. `noise`: standard deviation of a
    time, from the residuals (at least NOISE). `felt`: by how much, as a logarithm, a number within its confidence moves the time that it
    moves most. `partner`: the number with which each correlates most, and `correlation` with it."""

    x: Array
    deviation: Array
    half: Array
    beyond: Array
    width: Array
    noise: float
    felt: Array
    partner: Array
    correlation: Array
    slopes: Array

    @property
    def identified_numbers(self) -> Array:
        """Return the numbers that times say."""
        return (self.half <= KNOWN) & (self.half <= HALVED * self.width) & ~self.beyond

    @property
    def changed_numbers(self) -> Array:
        """Return which of the identified numbers differ from those of the file."""
        return self.identified_numbers & (np.abs(self.x) > self.half)


def fit(model: Callable[[Array], Array], lines_at: Callable[[Array, Array], tuple[Array, Array]], measured: Array, bounds: Array,
        apart: int = 0) -> Fitted:
    """Return the fit of `model` (x -> logarithms of times) to measured times. `bounds`: those of |x|. `lines_at`(x, by) gives (slopes,
    bends), each [time, number]. A slope is that of the line through the times where a number is off by `by` either way. A bend is the
    distance of that line from the time at x. Both are zero where `by` is. The last `apart` of the times are disturbed no more than the
    others, perhaps much less. So noise is estimated from the residuals of the times before them.

    A number that ends at the edge of its bounds is beyond them, and would distort the others. So the fit is repeated with wide bounds for
    it. The others are then found correctly, and this number counts as not found."""
    beyond = np.zeros(len(bounds), bool)
    for _ in range(RELEASES):
        made = fit_within(model, lines_at, measured, np.where(beyond, np.maximum(FREE, bounds), bounds), apart)
        now = np.abs(made.x) > EDGE * bounds
        if (now == beyond).all():
            break
        beyond = now
    return replace(made, beyond=beyond, width=bounds / np.sqrt(3))


def fit_within(model: Callable[[Array], Array], lines_at: Callable[[Array, Array], tuple[Array, Array]], measured: Array, bounds: Array,
               apart: int) -> Fitted:
    """Return the fit with all numbers within their bounds."""
    seen = len(measured) - apart
    width, x, noise = bounds / np.sqrt(3), np.zeros(len(bounds)), NOISE
    left = measured - model(x)
    slopes, bends = first = lines_at(x, width)
    for _ in range(PASSES):
        before, noise = x, spread_of(left[:seen], 0.0)
        for _ in range(ROUNDS):
            x, left, slopes, moved = step(model, measured, x, left, slopes, np.hypot(noise, bent(bends)), width, bounds)
            noise = spread_of(left[:seen], effective(slopes[:seen], width, noise))
            if not moved:
                break
        deviation = fitted_numbers(x, slopes, bends, width, bounds, noise, left, seen).deviation
        said = deviation < TOLD * width
        # what was put right on the way says how to go on, not what is known where it ends
        slopes, bends = (np.where(said, new, old) for new, old in zip(lines_at(x, np.where(said, deviation, 0.0)), first))
        if (np.abs(x - before) <= SETTLED * deviation).all():
            break
    return fitted_numbers(x, slopes, bends, width, bounds, noise, left, seen)


def bent(bends: Array) -> Array:
    """Return by how much each time may be off because it is not linear: the root of the sum of its squared bends."""
    return np.sqrt((bends**2).sum(axis=1))


def step(model: Callable[[Array], Array], measured: Array, x: Array, left: Array, slopes: Array, noise: Array, width: Array,
         bounds: Array) -> tuple[Array, Array, Array, bool]:
    """Return (x, residuals there, slopes, whether x moved) after one bounded linear problem. A step that does not reduce the loss is
    halved. The times found on the way correct the slopes."""
    before = price(left, x, noise, width)
    to = solve_bounded(slopes, left + slopes @ x, huber(left / noise) / noise, width, bounds)
    for _ in range(HALVINGS):
        by = to - x
        if np.abs(by / width).max(initial=0.0) < SMALL_STEP:
            break
        there = measured - model(to)
        scaled = by / width**2
        slopes = slopes + np.outer(left - there - slopes @ by, scaled) / (scaled @ by)
        if price(there, to, noise, width) < before:
            return to, there, slopes, True
        to = x + by / 2
    return x, left, slopes, False


def solve_bounded(slopes: Array, target: Array, weights: Array, width: Array, bounds: Array) -> Array:
    """Return the x of the bounded linear problem."""
    rows = np.vstack([slopes * weights[:, None], np.diag(1 / width)])
    found: Array = lsq_linear(rows, np.concatenate([target * weights, np.zeros(len(width))]), (-bounds, bounds)).x
    return found


def huber(off: Array) -> Array:
    """Return weights of times that are off by so many standard deviations, as factors of residuals."""
    return np.sqrt(np.minimum(1.0, HUBER / np.maximum(np.abs(off), 1e-12)))


def price(left: Array, x: Array, noise: Array | float, width: Array) -> float:
    """Return what is minimised: Huber's loss of times, and the squares of ratios in widths."""
    far = np.abs(left / noise)
    return float(np.where(far <= HUBER, far**2, 2 * HUBER * far - HUBER**2).sum() + ((x / width) ** 2).sum())


def effective(slopes: Array, width: Array, noise: float) -> float:
    """Return how many numbers the times determine: the trace of the hat matrix."""
    values = np.linalg.svd(slopes * width / noise, compute_uv=False)
    return float((values**2 / (values**2 + 1)).sum())


def spread_of(left: Array, numbers: float) -> float:
    """Return the standard deviation of times, NOISE at least."""
    return max(NOISE, robust_deviation(left, numbers))


def robust_deviation(left: Array, numbers: float) -> float:
    """Return the standard deviation of times: of what is left without the farthest (1.4826 MADs), for as many numbers as were fitted."""
    free = max(len(left) - numbers, 1.0)
    return float(1.4826 * np.median(np.abs(left)) * np.sqrt(len(left) / free))


def fitted_numbers(x: Array, slopes: Array, bends: Array, width: Array, bounds: Array, noise: float, left: Array, seen: int) -> Fitted:
    """Return what is known of each number, from the lines where the fit ended; noise is known from the `seen` times."""
    off = np.hypot(noise, bent(bends))
    scaled = slopes * width * (huber(left / off) / off)[:, None]
    covariance = np.linalg.inv(scaled.T @ scaled + np.eye(len(width)))  # in widths
    deviation = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(deviation, deviation)
    np.fill_diagonal(correlation, 0.0)
    partner = np.abs(correlation).argmax(axis=0) if len(x) else np.zeros(0, int)
    felt = np.abs(slopes).max(axis=0, initial=0.0) * bounds
    numbers = effective(slopes[:seen], width, noise)
    free = max(1.0, EFFICIENT * (seen - numbers))
    # deviations, of which NOISE is known beforehand
    times = max(2.0, stdtrit(free, INTERVAL) * robust_deviation(left[:seen], numbers) / noise)
    half = np.minimum(times * deviation, np.sqrt(3)) * width  # nothing is known less than within its bounds
    return Fitted(x, deviation * width, half, np.zeros(len(x), bool), width, noise, felt, partner,
                  correlation[partner, np.arange(len(x))], slopes)
