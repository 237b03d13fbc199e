"""Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983): several walkers step to neighbours and take what is worse ever more rarely."""
from __future__ import annotations

import math

from aoec.search.space.grid import Space
from aoec.search.space.pool import Pool
from aoec.search.strategies.strategy import Cost, Strategy

WALKERS = 8
HOT, COLD = 0.5, 0.01  # logarithms of cost: what is 50 % worse, then 1 %, is taken once in e times
COOLING = 0.98  # of the temperature, a generation
REFUSED = 12  # steps without a new legal neighbour after which a walker starts elsewhere


class Annealing(Strategy):
    """Each walker proposes one neighbour a generation; one whose neighbours are used up starts elsewhere."""

    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None) -> None:
        super().__init__(space, seed, pool)
        self._at: list[tuple[float, int] | None] = [None] * WALKERS  # log cost and rank
        self._asked: dict[int, int] = {}  # rank -> walker
        self._heat = HOT

    def _learn(self, rank: int, cost: Cost) -> None:
        walker = self._asked.pop(rank, None)
        if walker is None or cost is None:
            return
        here, log = self._at[walker], math.log(cost + 1)
        if here is None or log <= here[0] or self.random.random() < math.exp((here[0] - log) / self._heat):
            self._at[walker] = (log, rank)

    def _next(self) -> list[int]:
        self._heat = max(COLD, self._heat * COOLING)
        self._asked = {}
        for walker in range(WALKERS):
            rank = self._step(walker)
            if rank is not None:
                self._asked[rank] = walker
        return list(self._asked)

    def _step(self, walker: int) -> int | None:
        """Return a new legal neighbour of where the walker stands; a random candidate where it stands nowhere or its neighbours are used
        up."""
        here = self._at[walker]
        if here is not None:
            lines = [r for r in self.space.lines(self.space.at(here[1])) if r not in self.seen and r not in self._asked]
            near = self.pool.keep(self.random.sample(lines, min(REFUSED, len(lines))))
            if near:
                return near[0]
            self._at[walker] = None
        return next(iter(self._draw_many(1, set(self._asked))), None)
