"""Pool: which ranks of a space a strategy may propose. All of them, those that a filter lets pass, or a list.

Where legality is known before a measure, an illegal candidate costs a strategy nothing and teaches it nothing. A candidate that then comes
back without a cost is a *failure*: its measure was paid for, and the strategy learns from it.
"""
from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from aoec.search.space.grid import Candidate, Space

LegalFunction = Callable[[Sequence[Candidate]], Sequence[bool]]


class Pool:
    """Every rank of a space, less those that `legal`, where given, refuses; it is asked in batches, once for each rank."""

    def __init__(self, space: Space, legal: LegalFunction | None = None) -> None:
        self.space = space
        self._legal = legal
        self._verdicts: dict[int, bool] = {}

    @property
    def size(self) -> int:
        """Return how many ranks may come up: all of the space, whatever the filter will say."""
        return self.space.size

    @property
    def all_ranks(self) -> np.ndarray | None:
        """Return every rank that may be proposed, ascending; None where that is not known without asking for all."""
        return None

    @property
    def filters(self) -> bool:
        """Return whether ranks that come up may be refused."""
        return self._legal is not None

    def at(self, place: int) -> int:
        """Return the rank at a place, 0 <= place < size."""
        return place

    def holds(self, rank: int) -> bool:
        """Return whether the rank is among those that are counted in `size`."""
        return True

    def part(self, grid: int) -> range:
        """Return the places whose ranks lie in one grid."""
        return range(self.space.starts[grid], self.space.starts[grid + 1])

    def keep(self, ranks: Sequence[int]) -> list[int]:
        """Return those of the ranks that are legal, in their order."""
        if self._legal is None:
            return list(ranks)
        new = [r for r in dict.fromkeys(ranks) if r not in self._verdicts]
        if new:
            self._verdicts.update(zip(new, map(bool, self._legal([self.space.at(r) for r in new]))))
        return [r for r in ranks if self._verdicts[r]]


class Listed(Pool):
    """The given ranks of a space and no others."""

    def __init__(self, space: Space, ranks: Iterable[int]) -> None:
        super().__init__(space)
        self._ranks = sorted(set(ranks))
        self._members = set(self._ranks)

    @property
    def size(self) -> int:
        return len(self._ranks)

    @property
    def all_ranks(self) -> np.ndarray:
        return np.array(self._ranks, dtype=index_type(self.space))

    @property
    def filters(self) -> bool:
        return True

    def at(self, place: int) -> int:
        return self._ranks[place]

    def holds(self, rank: int) -> bool:
        return rank in self._members

    def part(self, grid: int) -> range:
        return range(bisect_left(self._ranks, self.space.starts[grid]), bisect_left(self._ranks, self.space.starts[grid + 1]))

    def keep(self, ranks: Sequence[int]) -> list[int]:
        return [r for r in ranks if r in self._members]


def index_type(space: Space) -> type:
    """Return the type of arrays of ranks: a space may have more than int64 counts."""
    return np.int64 if space.size < 1 << 62 else object
