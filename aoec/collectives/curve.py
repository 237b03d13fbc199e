"""The time of a collective by the size of its tensor, as pieces of polynomials.

Everything that a system says becomes one such curve: fits, tables with jumps, sums, shares and formulas of a topology.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
TERMS = 3  # of a polynomial: constant, linear, square
LARGEST = float(1 << 50)  # bytes; a curve must not fall below zero up to there


@dataclass(frozen=True, eq=False)
class Curve:
    """µs by bytes of the whole tensor. Piece k holds sizes from `bounds[k - 1]` up to, and without, `bounds[k]`.

    `bounds`: [pieces - 1], ascending. `terms`: [pieces, 3], the factors of 1, d and d², where d is the size above the piece's lower bound
    (the first one's is 0): so a steep piece at large sizes loses no digits. A curve may jump at a bound, up or down, and a piece may fall:
    nothing here is monotone by law.
    """

    bounds: Floats
    terms: Floats

    @property
    def lows(self) -> Floats:
        """Return the lower bound of each piece."""
        return np.concatenate(([0.0], self.bounds))

    def us(self, sizes: ArrayLike) -> Floats:
        """Return the µs of sizes in bytes, in the shape of `sizes`."""
        x = np.asarray(sizes, np.float64)
        if not len(self.bounds):
            c = self.terms[0]
            return np.asarray(c[0] + x * (c[1] + x * c[2]), np.float64)
        piece = np.searchsorted(self.bounds, x, side="right")
        a, b, c = (self.terms[:, k][piece] for k in range(TERMS))
        d = x - self.lows[piece]
        return np.asarray(a + d * (b + d * c), np.float64)

    def scale(self, us: float = 1.0, size: float = 1.0) -> Curve:
        """Return the curve with its µs times `us`, of sizes of which this curve sees `size` times as many bytes (a shard: 1 / ranks)."""
        return Curve(self.bounds / size, self.terms * (us * size ** np.arange(TERMS)))

    def plus(self, other: Curve) -> Curve:
        """Return the sum of two curves."""
        bounds = np.union1d(self.bounds, other.bounds)
        lows = np.concatenate(([0.0], bounds))
        return Curve(bounds, self.terms_from(lows) + other.terms_from(lows))

    def terms_from(self, lows: Floats) -> Floats:
        """Return the terms of the pieces in which the sizes `lows` lie, each with d above that size: [sizes, 3]."""
        piece = np.searchsorted(self.bounds, lows, side="right")  # a lower bound belongs to its piece
        a, b, c = self.terms[piece].T
        d = lows - self.lows[piece]
        return np.stack([a + d * (b + d * c), b + 2 * d * c, c], axis=1)

    def least(self) -> tuple[float, float]:
        """Return (µs, bytes) where the curve is lowest, from 0 to 2**50 bytes."""
        wide = np.concatenate((self.bounds, [LARGEST])) - self.lows
        a, b, c = self.terms.T
        with np.errstate(divide="ignore", invalid="ignore"):
            turns = np.clip(np.nan_to_num(-b / (2 * c), nan=0.0, posinf=0.0, neginf=0.0), 0.0, wide)
        at = np.stack([np.zeros_like(wide), wide, turns])
        us = a + at * (b + at * c)
        where = np.unravel_index(np.argmin(us), us.shape)
        return float(us[where]), float((at + self.lows)[where])


def polynomial(terms: Sequence[float], unit_bytes: float = 1.0) -> Curve:
    """Return the curve of one polynomial in size / `unit_bytes`, of at most three terms."""
    padded = np.zeros(TERMS)
    padded[:len(terms)] = terms
    return Curve(np.empty(0), (padded / unit_bytes ** np.arange(TERMS))[None])


def through(points: Sequence[tuple[float, float]]) -> Curve:
    """Return the curve through (bytes, µs), straight between them. Sizes ascend; two points of one size are a jump, and that size itself
    has the second one's time. Below the first point its time holds. Above the last one the curve goes on as `_slope` says."""
    bounds, terms = [points[0][0]], [(points[0][1], 0.0, 0.0)]
    for (x0, t0), (x1, t1) in pairwise(points):
        if x1 > x0:
            slope = (t1 - t0) / (x1 - x0)
            terms.append((t0, slope, 0.0))
            bounds.append(x1)
    terms.append((points[-1][1], _slope(points), 0.0))
    return Curve(np.array(bounds), np.array(terms))


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the µs a byte above the last point: those between it and the last point of at most half its size, which noise of two near
    points does not sway. Where that is not above zero, those of the last point itself, without start-up."""
    x, t = points[-1]
    behind = [p for p in points if p[0] <= x / 2]
    rise = (t - behind[-1][1]) / (x - behind[-1][0]) if behind else 0.0
    return rise if rise > 0 else t / x


def join_pieces(pieces: Sequence[tuple[float, Curve]]) -> Curve:
    """Return curves behind each other: each holds below its bound, in bytes; the last one's is infinite."""
    bounds: list[float] = []
    terms: list[Floats] = []
    low = 0.0
    for high, curve in pieces:
        cut = [b for b in curve.bounds if low < b < high]
        terms.append(curve.terms_from(np.array([low, *cut])))
        bounds += [*cut, high]
        low = high
    return Curve(np.array(bounds[:-1]), np.concatenate(terms))
