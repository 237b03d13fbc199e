"""Genetic search: uniform crossover of hole values within a grid, mutation to neighbouring choices, tournaments."""
from __future__ import annotations

from aoec.search.grid import Space
from aoec.search.strategy import Cost, Strategy

GENERATION = (32, 256)  # a quarter of the legal trials so far, within these: batches grow as the search does
PARENTS = 48  # legal candidates kept, best first
TOURNAMENT = 3
IMMIGRANTS = 8  # one in so many of a generation: it keeps sketches in play whose first samples were poor
TRIES = 12  # further mutations of a child that was seen before


class Genetic(Strategy):
    """The first generation takes the sketches in turn; later ones breed the best candidates known."""

    def __init__(self, space: Space, seed: int = 0) -> None:
        super().__init__(space, seed)
        self.parents: list[tuple[int, int]] = []  # (cost, rank), sorted
        self._legal = 0

    def _learn(self, rank: int, cost: Cost) -> None:
        self._legal += cost is not None
        if cost is not None and (cost, rank) not in self.parents:
            self.parents = sorted([*self.parents, (cost, rank)])[:PARENTS]

    def _next(self) -> list[int]:
        size = min(max(GENERATION[0], self._legal // 4), GENERATION[1])
        strangers = size // IMMIGRANTS if len(self.parents) >= size // IMMIGRANTS else size // 2 if self.parents else size
        ranks: list[int] = []
        for _ in range(min(size - strangers, self.space.size)):
            child = self._child(set(ranks))
            ranks += [child] if child is not None else []
        return ranks + self._strangers(strangers, set(ranks))

    def _child(self, taken: set[int]) -> int | None:
        """A rank that is new, near two good parents; None where their neighbourhood is used up."""
        grid, values = self.space.at(self._pick(self.parents))
        mates = [p for p in self.parents if self.space.starts[grid] <= p[1] < self.space.starts[grid + 1]]
        other = self.space.at(self._pick(mates))[1]
        child = tuple(self.random.choice(pair) for pair in zip(values, other))
        for _ in range(TRIES):
            child = self._mutated(grid, child)
            rank = self.space.rank((grid, child))
            if rank not in self.seen and rank not in taken:
                return rank
        return None

    def _pick(self, parents: list[tuple[int, int]]) -> int:
        """The rank of the best of a few, drawn at random."""
        return min(self.random.choice(parents) for _ in range(TOURNAMENT))[1]

    def _mutated(self, grid: int, values: tuple[int, ...]) -> tuple[int, ...]:
        """`values` with one or two of them moved to a choice beside, or now and then to any."""
        out = list(values)
        for _ in range(self.random.choice((1, 1, 2)) if out else 0):
            hole = self.random.randrange(len(out))
            choices = self.space.grids[grid].choices[hole]
            step = self.random.choice((-1, 1)) if self.random.random() < 0.8 else self.random.randrange(len(choices))
            out[hole] = choices[min(max(choices.index(out[hole]) + step, 0), len(choices) - 1)]
        return tuple(out)
