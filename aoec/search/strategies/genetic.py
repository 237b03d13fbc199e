"""Genetic search: uniform crossover of hole values within a grid, mutation to neighbouring choices, tournaments."""
from __future__ import annotations

from bisect import insort
from collections.abc import Container
from dataclasses import dataclass

from aoec.search.space.grid import Space
from aoec.search.space.pool import Pool
from aoec.search.strategies.strategy import Cost, Strategy

GENERATION = (32, 256)  # legal candidates of a generation, a quarter of the legal trials so far: batches grow as the search does
MOST = 8  # proposed at most for each that is expected to be legal
PARENTS = 48  # legal candidates kept, best first
TOURNAMENT = 3
IMMIGRANTS = 8  # one in so many of a generation: it keeps sketches in play whose first samples were poor
TRIES = 12  # further mutations of a child that was seen before, or that a listed pool does not hold


@dataclass(frozen=True)
class Parent:
    """A legal candidate: a grid, and of each hole the place of its value among the choices."""

    grid: int
    digits: list[int]


class Genetic(Strategy):
    """The first generation takes the sketches in turn; later ones breed the best candidates known."""

    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None) -> None:
        super().__init__(space, seed, pool)
        self.parents: list[tuple[int, int]] = []  # (cost, rank), sorted
        self._told = self._legal = 0

    def _learn(self, rank: int, cost: Cost) -> None:
        self._told += 1
        if cost is not None:
            self._legal += 1
            if (cost, rank) not in self.parents:
                insort(self.parents, (cost, rank))
                del self.parents[PARENTS:]

    def _next(self) -> list[int]:
        """Return a generation of which about a quarter of the legal trials so far, within GENERATION, will be legal."""
        size = min(max(GENERATION[0], self._legal // 4), GENERATION[1])
        size = min(size * self._told // max(self._legal, 1), MOST * size) if self._told else size
        strangers = size // IMMIGRANTS if len(self.parents) >= size // IMMIGRANTS else size // 2 if self.parents else size
        children = self._children(min(size - strangers, self.pool.size))
        return children + self._strangers(strangers, set(children), 1 if children else 0)

    def _children(self, count: int) -> list[int]:
        """Return up to `count` new ranks, each near two good parents; fewer where their neighbourhood is used up."""
        parents = [self._parent(rank) for _, rank in self.parents]
        mates = {p.grid: [q for q in parents if q.grid == p.grid] for p in parents}
        ranks: dict[int, None] = {}
        for _ in range(count):
            one = self._pick(parents)
            other = self._pick(mates[one.grid])
            child = [pair[self.random.random() < 0.5] for pair in zip(one.digits, other.digits)]
            rank = self._new(one.grid, child, ranks)
            if rank is not None:
                ranks[rank] = None
        return list(ranks)

    def _parent(self, rank: int) -> Parent:
        grid = self.space.grid_of(rank)
        return Parent(grid, self.space.grids[grid].digits(rank - self.space.starts[grid]))

    def _pick(self, parents: list[Parent]) -> Parent:
        """Return the best of a few, drawn at random; `parents` are sorted."""
        return parents[min(int(self.random.random() * len(parents)) for _ in range(TOURNAMENT))]

    def _new(self, grid: int, child: list[int], taken: Container[int]) -> int | None:
        """Return the rank of a mutation of the child that is new; None where none was met."""
        for _ in range(TRIES):
            self._mutate(self.space.grids[grid].counts, child)
            rank = self.space.starts[grid] + self.space.grids[grid].at(child)
            if rank not in self.seen and rank not in taken and self.pool.holds(rank):
                return rank
        return None

    def _mutate(self, counts: tuple[int, ...], digits: list[int]) -> None:
        """Move one or two of the digits to a choice beside, or now and then to any."""
        random = self.random.random
        for _ in range((1, 1, 2)[int(3 * random())] if digits else 0):
            hole = int(random() * len(digits))
            count = counts[hole]
            step = 1 - 2 * (random() < 0.5) if random() < 0.8 else int(random() * count)
            digits[hole] = min(max(digits[hole] + step, 0), count - 1)
