"""Grid and Space: the numeric choices of a list of sketches, in one canonical order.

A space is a finite list of sketches, each with a grid of hole values. A candidate is (grid number, hole values). Its *rank* is its place in
the canonical order. That order takes the grids in order. In a grid the last hole varies fastest, and each hole takes its choices in the
order in which they are stated. Nothing here knows what a hole means.
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod

import numpy as np

from aoec.base.errors import ScheduleError

Candidate = tuple[int, tuple[int, ...]]
Rows = dict[str, np.ndarray]  # hole name -> int64 values, one per row
NEVER = 2**62  # ticks: the time of what cannot be timed


@dataclass(frozen=True)
class Grid:
    """The holes of one sketch; a sketch without holes has one candidate, ()."""

    names: tuple[str, ...]
    choices: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for name, values in zip(self.names, self.choices, strict=True):
            if not values or len(set(values)) < len(values):
                raise ScheduleError(f"hole ?{name} needs one or more different choices and has {list(values)}")

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Return how many choices each hole has."""
        return tuple(map(len, self.choices))

    @cached_property
    def _places(self) -> tuple[dict[int, int], ...]:
        return tuple({v: i for i, v in enumerate(values)} for values in self.choices)

    @cached_property
    def size(self) -> int:
        return prod(self.counts)

    def part(self, hole: int, first: int, last: int) -> Grid:
        """Return the grid with the choices `first` to before `last` of a hole alone."""
        return Grid(self.names, (*self.choices[:hole], self.choices[hole][first:last], *self.choices[hole + 1:]))

    def digits(self, rank: int) -> list[int]:
        """Return the place of each hole's value among its choices at `rank` in this grid, 0 <= rank < size."""
        out = []
        for count in reversed(self.counts):
            rank, digit = divmod(rank, count)
            out.append(digit)
        return out[::-1]

    def at(self, digits: Sequence[int]) -> int:
        """Return the rank of the candidate whose values have these places among their holes' choices."""
        rank = 0
        for count, digit in zip(self.counts, digits):
            rank = rank * count + digit
        return rank

    def values(self, rank: int) -> tuple[int, ...]:
        """Return the hole values at `rank` in this grid, 0 <= rank < size."""
        return tuple([values[digit] for values, digit in zip(self.choices, self.digits(rank))])

    def rank(self, values: Sequence[int]) -> int:
        """Return the place of `values` in this grid; KeyError where a value is none of its hole's choices."""
        return self.at([places[value] for places, value in zip(self._places, values, strict=True)])

    def rows(self, start: int, stop: int) -> Rows:
        """Return columns of hole values for the ranks from `start` to before `stop`, cut at the grid's size."""
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

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Return the rank of each grid's first candidate, and at the end the size of the space."""
        return tuple(accumulate((g.size for g in self.grids), initial=0))

    @property
    def size(self) -> int:
        return self.starts[-1]

    def at(self, rank: int) -> Candidate:
        """Return the candidate at `rank`, 0 <= rank < size."""
        grid = self.grid_of(rank)
        return grid, self.grids[grid].values(rank - self.starts[grid])

    def grid_of(self, rank: int) -> int:
        """Return the number of the grid that a rank lies in."""
        return bisect_right(self.starts, rank) - 1

    def rank(self, candidate: Candidate) -> int:
        """Return the place of a candidate in the canonical order; ScheduleError where it is none of the space's."""
        grid, values = candidate
        try:
            if grid < 0:
                raise IndexError(grid)
            return self.starts[grid] + self.grids[grid].rank(values)
        except (ValueError, LookupError) as e:
            raise ScheduleError(f"candidate {values} of sketch {grid} is not in the space of {len(self.grids)} sketches") from e

    def neighbours(self, candidate: Candidate) -> list[int]:
        """Return the ranks of the candidates that are one choice away in one hole, in order."""
        number, values = candidate
        grid, out = self.grids[number], []
        digits = grid.digits(grid.rank(values))
        for hole, (count, digit) in enumerate(zip(grid.counts, digits)):
            out += [grid.at([*digits[:hole], near, *digits[hole + 1:]]) for near in (digit - 1, digit + 1) if 0 <= near < count]
        return sorted(self.starts[number] + rank for rank in out)

    def lines(self, candidate: Candidate) -> list[int]:
        """Return the ranks of the candidates that differ in one hole, by any of its choices, in order."""
        number, values = candidate
        grid = self.grids[number]
        digits = grid.digits(grid.rank(values))
        return sorted(self.starts[number] + grid.at([*digits[:hole], other, *digits[hole + 1:]])
                      for hole, count in enumerate(grid.counts) for other in range(count) if other != digits[hole])

    def rows(self, grid: int, start: int, stop: int) -> Rows:
        """Return columns of hole values for a slab of one grid: ranks in that grid from `start` to before `stop`."""
        return self.grids[grid].rows(start, stop)

    def slabs(self, candidates: Sequence[Candidate]) -> list[tuple[int, list[int], Rows]]:
        """Return (grid number, positions in `candidates`, columns) for each grid that occurs: what a batched cost function times."""
        places: dict[int, list[int]] = {}
        for i, (grid, _) in enumerate(candidates):
            places.setdefault(grid, []).append(i)
        return [(g, at, self._columns(g, [candidates[i][1] for i in at])) for g, at in sorted(places.items())]

    def _columns(self, grid: int, values: list[tuple[int, ...]]) -> Rows:
        names = self.grids[grid].names
        table = np.array(values, dtype=np.int64).reshape(len(values), len(names))
        return {name: np.ascontiguousarray(table[:, i]) for i, name in enumerate(names)}
