"""The portfolio: a forest's and a Gaussian process's predictions, neighbours of the best and children of the better in one generation.

Each alone loses somewhere. Trees lose in smooth spaces, and a Gaussian process loses in rugged ones. Any model loses on a space with few
good candidates that nothing points at. Breeding loses where each measure counts. In one generation they share what each finds.

A model must save more than its ranking costs. A generation with models costs their fits and one ranking, MODEL_US, whatever its size. So a
generation is large enough that this cost is below the time of its measures. The first generations, where each measure tells a model most,
are half as large where the cost is below the time of half the measures too. Where a generation would be larger than LARGEST, there is no
model at all: the search is genetic, and its proposals cost microseconds. A device, or anything that takes milliseconds a candidate, gets
the models.
"""
from __future__ import annotations

import math

from aoec.search.space.grid import Space
from aoec.search.space.pool import Pool
from aoec.search.strategies.forest import Forest, Prior
from aoec.search.strategies.genetic import Genetic
from aoec.search.strategies.strategy import Strategy

MODEL_US = 75_000.0  # both fits and one ranking of 18,000 candidates with 100 points, measured on one core of 2 GHz
SLOTS = ("smooth", "mean", "smooth1", "smooth2", "bound2", "near", "rare", "child")
HALVES = ("smooth", "smooth2", "mean", "child"), ("smooth1", "bound2", "near", "rare")  # the same, in two generations
EARLY = 48  # measures in which models change most with each, and are looked at again after half a generation
LARGEST = 256


class Portfolio(Forest):
    """The strategy where measures are dear; `rounds` times SLOTS is a generation, 0: half of it while little is known."""

    start = 12

    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None, prior: Prior | None = None, rounds: int = 0) -> None:
        super().__init__(space, seed, pool, prior)
        self.slots, self.halved = SLOTS * max(rounds, 1), not rounds

    def _slots(self) -> tuple[str, ...]:
        return HALVES[len(self.known) // len(HALVES[0]) % 2] if self.halved and len(self.known) < EARLY else super()._slots()


def portfolio(space: Space, seed: int = 0, pool: Pool | None = None, prior: Prior | None = None, measure_us: float = math.inf) -> Strategy:
    """Return the portfolio for measures that take that long each: with a model where that pays, else genetic."""
    rounds = math.ceil(MODEL_US / measure_us / len(SLOTS)) if measure_us * len(HALVES[0]) < MODEL_US else 0
    return Genetic(space, seed, pool) if rounds * len(SLOTS) > LARGEST else Portfolio(space, seed, pool, prior, rounds)
