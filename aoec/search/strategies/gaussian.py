"""A Gaussian process on the places of values: what a smooth space looks like from few measures, where trees see steps.

It has a Matérn covariance of order 3/2 (Rasmussen and Williams 2006, 4.17) over the codes of a table, with each column scaled to 0..1. Of a
few length scales it takes the one whose marginal likelihood (ibid., 2.30) is highest. Few fixed scales and no search for more keep it at
some milliseconds.
"""
from __future__ import annotations

import numpy as np

from aoec.search.strategies.table import Table

LENGTHS = (0.5, 1.0, 2.0)  # of columns that are 1 wide
NOISE = 1e-3  # variance of a measure, of costs whose variance is 1
FIRST = 512  # rows whose doubt is worked out: those of the lowest means


def predict(known: Table, logs: np.ndarray, asked: Table) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, spread)[row] of the log cost of what is asked; the spread is 0 but for the FIRST rows of the lowest means."""
    least = np.minimum(known.codes.min(axis=0), asked.codes.min(axis=0))
    wide = np.maximum(np.maximum(known.codes.max(axis=0), asked.codes.max(axis=0)) - least, 1)
    x, z = ((t.codes - least) / wide for t in (known, asked))
    middle, scale = logs.mean(), max(float(logs.std()), 1e-6)
    y = (logs - middle) / scale
    between = _distances(x, x)
    length, lower = max(((s, _factor(between, s)) for s in LENGTHS), key=lambda fit: _likelihood(fit[1], y))
    across = _covariance(_distances(z.astype(np.float32), x.astype(np.float32)), length)  # most of the time; half of it so
    mean = across @ np.linalg.solve(lower.T, np.linalg.solve(lower, y))
    first = np.argsort(mean, kind="stable")[:FIRST]
    spread = np.zeros(len(asked))
    spread[first] = np.sqrt(np.maximum(1 - (np.linalg.solve(lower, across[first].T) ** 2).sum(axis=0), 0))
    return middle + scale * mean, scale * spread


def _distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the Euclidean distance of each row of `a` to each of `b`."""
    return np.sqrt(np.maximum((a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2 * a @ b.T, 0))


def _covariance(distances: np.ndarray, length: float) -> np.ndarray:
    scaled = distances * (3**0.5 / length)
    return np.asarray((1 + scaled) * np.exp(-scaled))


def _factor(distances: np.ndarray, length: float) -> np.ndarray:
    """Return the lower Cholesky factor of the covariance of what is known."""
    return np.linalg.cholesky(_covariance(distances, length) + NOISE * np.eye(len(distances)))


def _likelihood(lower: np.ndarray, y: np.ndarray) -> float:
    """Return the logarithm of the marginal likelihood, up to a constant."""
    return float(-0.5 * (np.linalg.solve(lower, y) ** 2).sum() - np.log(np.diag(lower)).sum())
