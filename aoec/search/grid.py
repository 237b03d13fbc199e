"""Grid and Space: the numeric choices of a list of sketches, in one canonical order.

A space is a finite list of sketches, each with a grid of hole values. A candidate is (grid number, hole values); its
*rank* is its place in the canonical order: grids in order, and in a grid the last hole varies fastest, each over its
choices as they are stated. Nothing here knows what a hole means.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from aoec.base.errors import ScheduleError

Candidate = tuple[int, tuple[int, ...]]
Rows = dict[str, np.ndarray]  # hole name -> int64 values, one per row


@dataclass(frozen=True)
class Grid:
    """The holes of one sketch; a sketch without holes has one candidate, ()."""

    names: tuple[str, ...]
    choices: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for name, values in zip(self.names, self.choices, strict=True):
            if not values or len(set(values)) < len(values):
                raise ScheduleError(f"hole ?{name} needs one or more different choices and has {list(values)}")

    @property
    def size(self) -> int:
        return prod(len(c) for c in self.choices)

    def values(self, rank: int) -> tuple[int, ...]:
        """The hole values at `rank` in this grid, 0 <= rank < size."""
        out = []
        for values in reversed(self.choices):
            rank, digit = divmod(rank, len(values))
            out.append(values[digit])
        return tuple(reversed(out))

    def rank(self, values: Sequence[int]) -> int:
        """The place of `values` in this grid; ValueError where a value is none of its hole's choices."""
        rank = 0
        for choices, value in zip(self.choices, values, strict=True):
            rank = rank * len(choices) + choices.index(value)
        return rank

    def rows(self, start: int, stop: int) -> Rows:
        """Columns of hole values for the ranks from `start` to before `stop`, cut at the grid's size."""
        carry = np.arange(max(0, min(stop, self.size) - start), dtype=np.int64)
        columns = {}
        for name, values in zip(reversed(self.names), reversed(self.choices)):
            start, digit = divmod(start, len(values))  # digits with a carry: ranks beyond int64 stay exact
            carry, place = np.divmod(carry + digit, len(values))
            columns[name] = np.array(values, dtype=np.int64)[place]
        return {name: columns[name] for name in self.names}


@dataclass(frozen=True)
class Space:
    """A list of grids, one per sketch."""

    grids: tuple[Grid, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(accumulate((g.size for g in self.grids), initial=0)))

    @property
    def starts(self) -> tuple[int, ...]:
        """The rank of each grid's first candidate, and at the end the size of the space."""
        return self._starts  # type: ignore[attr-defined, no-any-return]

    @property
    def size(self) -> int:
        return self.starts[-1]

    def at(self, rank: int) -> Candidate:
        """The candidate at `rank`, 0 <= rank < size."""
        grid = bisect_right(self.starts, rank) - 1
        return grid, self.grids[grid].values(rank - self.starts[grid])

    def rank(self, candidate: Candidate) -> int:
        """The place of a candidate in the canonical order; ScheduleError where it is none of the space's."""
        grid, values = candidate
        try:
            if grid < 0:
                raise IndexError(grid)
            return self.starts[grid] + self.grids[grid].rank(values)
        except (ValueError, IndexError) as e:
            raise ScheduleError(f"candidate {values} of sketch {grid} is not in the space of {len(self.grids)} sketches") from e

    def neighbours(self, candidate: Candidate) -> list[int]:
        """The ranks of the candidates that are one choice away in one hole, in order."""
        grid, values = candidate
        out = []
        for hole, choices in enumerate(self.grids[grid].choices):
            place = choices.index(values[hole])
            out += [values[:hole] + (choices[near],) + values[hole + 1:] for near in (place - 1, place + 1) if 0 <= near < len(choices)]
        return sorted(self.rank((grid, near)) for near in out)

    def rows(self, grid: int, start: int, stop: int) -> Rows:
        """Columns of hole values for a slab of one grid: ranks in that grid from `start` to before `stop`."""
        return self.grids[grid].rows(start, stop)

    def slabs(self, candidates: Sequence[Candidate]) -> list[tuple[int, list[int], Rows]]:
        """(grid number, positions in `candidates`, columns) for each grid that occurs: what a batched cost function times."""
        places: dict[int, list[int]] = {}
        for i, (grid, _) in enumerate(candidates):
            places.setdefault(grid, []).append(i)
        return [(g, at, self._columns(g, [candidates[i][1] for i in at])) for g, at in sorted(places.items())]

    def _columns(self, grid: int, values: list[tuple[int, ...]]) -> Rows:
        names = self.grids[grid].names
        table = np.array(values, dtype=np.int64).reshape(len(values), len(names))
        return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)}
