"""Strategy: what asks for candidates and is told their costs. It knows a space and costs, and nothing else.

A strategy is a *stream*: the order of its proposals depends on the space, the seed and the costs told, never on how many
were asked for at a time. So a search stopped by the clock is repeated exactly by its trial count. A strategy never
proposes what it was told before, and goes on until every candidate of its space was proposed.
"""
from __future__ import annotations

from collections.abc import Sequence
from random import Random

from aoec.search.grid import Candidate, Space

Cost = int | None  # None: the candidate is illegal


class Strategy:
    """`ask(n)` gives at most n candidates, none when it is finished; `tell` takes their costs.

    A subclass fills `_next`, which proposes the next generation once all of the last one is told.
    """

    def __init__(self, space: Space, seed: int = 0) -> None:
        self.space = space
        self.random = Random(seed)
        self.seen: set[int] = set()  # ranks told, or proposed and not told yet
        self._queue: list[int] = []  # proposed, not asked for yet; last first
        self._open: set[int] = set()  # asked for, not told yet
        self._rest: list[int] | None = None  # the unseen ranks, shuffled, once they are few
        self._turn = 0

    @property
    def finished(self) -> bool:
        """Whether every candidate of the space was proposed and its cost told."""
        return len(self.seen) >= self.space.size and not self._queue and not self._open

    def ask(self, n: int) -> list[Candidate]:
        """At most `n` candidates that were not proposed before; none while answers are owed, or when the space is exhausted."""
        if not self._queue and not self._open:
            self._queue = self._fresh()[::-1]
        out = [self._queue.pop() for _ in range(min(n, len(self._queue)))]
        self._open.update(out)
        return [self.space.at(rank) for rank in out]

    def tell(self, candidates: Sequence[Candidate], costs: Sequence[Cost]) -> None:
        """Learns costs; also of candidates that it did not ask for (a default, seeds from a bank)."""
        for candidate, cost in zip(candidates, costs, strict=True):
            rank = self.space.rank(candidate)
            if rank not in self._open and rank in self._queue:
                self._queue.remove(rank)
            self._open.discard(rank)
            self.seen.add(rank)
            self._learn(rank, cost)

    def _fresh(self) -> list[int]:
        """The next generation: what `_next` proposes and was not seen; filled up at random where it proposes nothing new."""
        if len(self.seen) >= self.space.size:
            return []
        ranks = [r for r in dict.fromkeys(self._next()) if r not in self.seen]
        ranks = ranks or [self._draw()]
        self.seen.update(ranks)
        return ranks

    def _next(self) -> list[int]:
        raise NotImplementedError

    def _learn(self, rank: int, cost: Cost) -> None:
        """What a subclass keeps of a cost; nothing here."""

    def _draw(self, taken: set[int] | None = None) -> int:
        """A random rank that is neither seen nor in `taken`; each is equally likely. There must be one.

        A half empty space is sampled by trying; past that the rest is listed once and shuffled.
        """
        taken = taken or set()
        if self._rest is None and 2 * (len(self.seen) + len(taken)) > self.space.size:
            self._rest = [r for r in range(self.space.size) if r not in self.seen]
            self.random.shuffle(self._rest)
        if self._rest is None:
            tries = iter(lambda: self.random.randrange(self.space.size), -1)
        else:
            while self._rest[-1] in self.seen:
                self._rest.pop()
            tries = reversed(self._rest)
        return next(r for r in tries if r not in self.seen and r not in taken)

    def _draw_many(self, n: int, taken: set[int] | None = None) -> list[int]:
        """Up to `n` different random ranks that are neither seen nor in `taken` (a set of unseen ranks)."""
        used = set(taken or ())
        ranks = []
        for _ in range(min(n, self.space.size - len(self.seen) - len(used))):
            ranks.append(self._draw(used))
            used.add(ranks[-1])
        return ranks

    def _strangers(self, n: int, taken: set[int], grids: int = 0) -> list[int]:
        """Random ranks, from each grid in turn: a small grid is not drowned by a large one; `grids`: from that many in turn at most."""
        ranks: list[int] = []
        count = min(grids or n, len(self.space.grids))
        for i in range(n):
            grid = (self._turn + i % count) % len(self.space.grids)
            rank = self.space.starts[grid] + self.random.randrange(self.space.grids[grid].size)
            if rank not in self.seen and rank not in taken:
                ranks.append(rank)
                taken.add(rank)
        self._turn += n if not grids else count
        return ranks or self._draw_many(1, taken)
