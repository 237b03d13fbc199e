"""The strategies by name, and the two that need no model: exhaustive and random."""
from __future__ import annotations

import math
from collections.abc import Callable

from aoec.base.errors import UnsupportedError
from aoec.search.space.grid import Space
from aoec.search.space.pool import Pool
from aoec.search.strategies.annealing import Annealing
from aoec.search.strategies.bayes import Bayes
from aoec.search.strategies.forest import Forest, Prior
from aoec.search.strategies.genetic import Genetic
from aoec.search.strategies.portfolio import portfolio
from aoec.search.strategies.strategy import Strategy

SLAB = 1024  # ranks proposed at a time


class Exhaustive(Strategy):
    """Every candidate, in canonical order."""

    _at = 0

    def _next(self) -> list[int]:
        ranks: list[int] = []
        while not ranks:  # a slab may have been told already, candidate by candidate
            stop = min(self._at + SLAB, self.pool.size)
            ranks = [r for r in map(self.pool.at, range(self._at, stop)) if r not in self.seen]
            self._at = stop
        return ranks


class Uniform(Strategy):
    """Every candidate once, in random order, each unseen one equally likely."""

    def _next(self) -> list[int]:
        return self._draw_many(SLAB // 16)


STRATEGIES: dict[str, Callable[..., Strategy]] = {
    "portfolio": portfolio, "pool": Forest, "genetic": Genetic, "bayes": Bayes, "annealing": Annealing, "random": Uniform,
    "exhaustive": Exhaustive}


def make(name: str, space: Space, seed: int = 0, pool: Pool | None = None, prior: Prior | None = None,
         measure_us: float = math.inf) -> Strategy:
    """Return the strategy of that name; UnsupportedError where there is none.

    `pool`: what it may propose, all of the space by default. `prior`: what a model says that candidates cost, for those that learn.
    `measure_us`: about how long one measure takes, which says what a proposal may cost; by default it is dear.
    """
    if name not in STRATEGIES:
        raise UnsupportedError(f"search {name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    if name == "portfolio":
        return portfolio(space, seed, pool, prior, measure_us)
    return Forest(space, seed, pool, prior) if name == "pool" else STRATEGIES[name](space, seed, pool)
