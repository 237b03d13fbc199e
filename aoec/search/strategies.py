"""The strategies by name, and the two that need no model: exhaustive and random."""
from __future__ import annotations

from collections.abc import Callable

from aoec.base.errors import UnsupportedError
from aoec.search.bayes import Bayes
from aoec.search.genetic import Genetic
from aoec.search.grid import Space
from aoec.search.strategy import Strategy

SLAB = 1024  # ranks proposed at a time


class Exhaustive(Strategy):
    """Every candidate, in canonical order."""

    _at = 0

    def _next(self) -> list[int]:
        ranks: list[int] = []
        while not ranks:  # a slab may have been told already, candidate by candidate
            stop = min(self._at + SLAB, self.space.size)
            ranks = [r for r in range(self._at, stop) if r not in self.seen]
            self._at = stop
        return ranks


class Uniform(Strategy):
    """Every candidate once, in random order, each unseen one equally likely."""

    def _next(self) -> list[int]:
        return self._draw_many(SLAB // 16)


STRATEGIES: dict[str, Callable[[Space, int], Strategy]] = {
    "exhaustive": Exhaustive, "random": Uniform, "genetic": Genetic, "bayes": Bayes}


def make(name: str, space: Space, seed: int = 0) -> Strategy:
    """The strategy of that name; UnsupportedError where there is none."""
    if name not in STRATEGIES:
        raise UnsupportedError(f"search {name!r} is unknown; choose one of {', '.join(STRATEGIES)}")
    return STRATEGIES[name](space, seed)
