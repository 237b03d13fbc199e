"""Strategy: what asks for candidates and is told their costs. It knows a pool of a space and costs, and nothing else.

A strategy is a *stream*: the order of its proposals depends on the space, the seed and the costs told, never on how many
were asked for at a time. So a search stopped by the clock is repeated exactly by its trial count. A strategy never
proposes what it was told before, nor what its pool refuses, and goes on until every candidate of its pool was proposed.
"""
from __future__ import annotations

from collections.abc import Sequence
from random import Random

from aoec.base.errors import ScheduleError
from aoec.search.space.grid import Candidate, Space
from aoec.search.space.pool import Pool

Cost = int | None  # None: the candidate is illegal, or, where its pool let it pass, it failed when it was measured
BATCH = 64  # drawn at a time where a filter may refuse them
BARREN = 2048  # batches of which a filter refuses all, after which a strategy gives up


class Strategy:
    """`ask(n)` gives at most n candidates, none when it is finished; `tell` takes their costs.

    A subclass fills `_next`, which proposes the next generation once all of the last one is told.
    """

    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None) -> None:
        self.space = space
        self.pool = pool or Pool(space)
        self.random = Random(seed)
        self.seen: set[int] = set()  # ranks told, proposed and not told yet, or refused
        self._left = self.pool.size  # of the pool that was not seen
        self._queue: list[int] = []  # proposed, not asked for yet; last first
        self._open: set[int] = set()  # asked for, not told yet
        self._rest: list[int] | None = None  # the unseen ranks, shuffled, once they are few
        self._turn = 0

    @property
    def is_finished(self) -> bool:
        """Return whether every candidate of the pool was proposed and its cost is known."""
        return not self._left and not self._queue and not self._open

    def ask(self, n: int) -> list[Candidate]:
        """Return at most `n` candidates that were not proposed before. Return none while answers are owed, or when the space is
        exhausted."""
        if not self._queue and not self._open:
            self._queue = self._fresh()[::-1]
        out = [self._queue.pop() for _ in range(min(n, len(self._queue)))]
        self._open.update(out)
        return [self.space.at(rank) for rank in out]

    def tell(self, candidates: Sequence[Candidate], costs: Sequence[Cost]) -> None:
        """Learn costs, also of candidates that the strategy did not ask for (a default, seeds from a bank)."""
        for candidate, cost in zip(candidates, costs, strict=True):
            rank = self.space.rank(candidate)
            if rank not in self._open and rank in self._queue:
                self._queue.remove(rank)
            self._open.discard(rank)
            if rank not in self.seen:
                self._see([rank])
            self._learn(rank, cost)

    def _see(self, ranks: Sequence[int]) -> None:
        """Take ranks out of what may still be proposed."""
        new = {r for r in ranks if r not in self.seen}
        self.seen |= new
        self._left -= sum(map(self.pool.holds, new))

    def _fresh(self) -> list[int]:
        """Return the next generation: what `_next` proposes, was not seen and is legal. Where it proposes nothing new, candidates are drawn
        at random. The generation is empty where nothing is left. Raise ScheduleError where a filter refused all of very many."""
        for _ in range(BARREN):
            if not self._left:
                return []
            ranks = [r for r in dict.fromkeys(self._next()) if r not in self.seen] or self._draw_some()
            legal = self.pool.keep(ranks)
            self._see(ranks)
            if legal:
                return legal
        raise ScheduleError(f"none of {BARREN} batches of candidates holds a legal one; the space has {self.space.size:,} and conditions "
                            "that hold nearly nowhere; loosen them")

    def _draw_some(self) -> list[int]:
        """Propose candidates where a strategy has no idea: one, or as many as may hold a legal one."""
        return self._draw_many(BATCH) if self.pool.filters and self.pool.all_ranks is None else [self._draw()]

    def _next(self) -> list[int]:
        raise NotImplementedError

    def _learn(self, rank: int, cost: Cost) -> None:
        """Learn from a cost: here, do nothing. A subclass keeps what it needs."""

    def _draw(self, taken: set[int] | None = None) -> int:
        """Return a random rank that is neither seen nor in `taken`; each is equally likely. There must be one.

        A half empty space is sampled by trying; past that the rest is listed once and shuffled.
        """
        taken = taken or set()
        size = self.pool.size
        if self._rest is None and 2 * (size - self._left + len(taken)) > size:
            self._rest = [r for r in map(self.pool.at, range(size)) if r not in self.seen]
            self.random.shuffle(self._rest)
        if self._rest is None:
            tries = iter(lambda: self.pool.at(self.random.randrange(size)), -1)
        else:
            while self._rest[-1] in self.seen:
                self._rest.pop()
            tries = reversed(self._rest)
        return next(r for r in tries if r not in self.seen and r not in taken)

    def _draw_many(self, n: int, taken: set[int] | None = None) -> list[int]:
        """Return up to `n` different random ranks of the pool that are neither seen nor in `taken` (a set of unseen ranks of the pool)."""
        used = set(taken or ())
        ranks = []
        for _ in range(min(n, self._left - len(used))):
            ranks.append(self._draw(used))
            used.add(ranks[-1])
        return ranks

    def _strangers(self, n: int, taken: set[int], grids: int = 0) -> list[int]:
        """Return random ranks, from each grid in turn, so that a large grid does not crowd out a small one. `grids` is the most grids to
        take in turn."""
        ranks: list[int] = []
        parts = [p for p in map(self.pool.part, range(len(self.space.grids))) if p]
        count = min(grids or n, len(parts))
        for i in range(n):
            part = parts[(self._turn + i % count) % len(parts)]
            rank = self.pool.at(part.start + self.random.randrange(part.stop - part.start))
            if rank not in self.seen and rank not in taken:
                ranks.append(rank)
                taken.add(rank)
        self._turn += n if not grids else count
        return ranks or self._draw_many(1, taken)
