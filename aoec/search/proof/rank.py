"""The rank of a time in a space: how many candidates are faster, counted as far as bounds and an effort decide."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aoec.ir.index import Expr
from aoec.search.proof.parts import Bounds
from aoec.search.proof.prove import prove
from aoec.search.space.grid import NEVER, Candidate, Grid, Rows


@dataclass(frozen=True, slots=True)
class Rank:
    """How many candidates take less; `closed`: these are all. Some candidates differ only in slots that conflict with nothing. Of these,
    only those with the most slots that fit are counted."""

    faster: int
    closed: bool


class Counted:
    """What a proof asks of a problem; what is faster than the limit is counted in place of lowering it."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.faster = bounds, 0

    @property
    def slot_ticks(self) -> int:
        """Return what a slot more may cost at most."""
        return self.bounds.slot_ticks

    def constraints(self, grid: int) -> Sequence[Expr]:
        """Return the conditions that a candidate of a sketch must meet."""
        return self.bounds.constraints(grid)

    def ceilings(self, grid: int) -> Sequence[tuple[str, Expr, Expr]]:
        """Return no ceilings: candidates that say the same are each counted."""
        return ()

    def slots(self, grid: int) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return the holes that count slots, and which of them no instruction's cost depends on, as they lie or were none in another's
        way."""
        return self.bounds.slots(grid)

    def slot_places(self, grid: int, columns: Rows) -> np.ndarray:
        """Return the places of slots on which costs depend."""
        return self.bounds.slot_places(grid, columns)

    def floors(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks that no row beats."""
        return self.bounds.floors(grid, columns, limit)

    def parts(self, grid: int, columns: Rows, opened: Mapping[str, int | None], whole: bool, limit: int, known: np.ndarray) -> np.ndarray:
        """Return what keeps each pipe at work, and what goes by beside it."""
        return self.bounds.parts(grid, columns, opened, whole, limit, known)

    def work_floors(self, grid: int, columns: Rows, whatever: Sequence[str], opened: bool, limit: int) -> np.ndarray:
        """Return what keeps each pipe at work, and the launch."""
        return self.bounds.work_floors(grid, columns, whatever, opened, limit)

    def core_floors(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks that no row beats, nor any row with fewer slots."""
        return self.bounds.core_floors(grid, columns, limit)

    def times(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Count the rows that take less than the limit. Return NEVER for each row."""
        ticks = self.bounds.times(grid, columns, limit)
        self.faster += int(np.count_nonzero(ticks < limit))
        return np.full(len(ticks), NEVER, np.int64)


def rank(grids: Sequence[Grid], bounds: Bounds, some: Candidate, ticks: int, effort: int) -> Rank:
    """Return how many candidates of the grids take less than `ticks`; not closed where more than about `effort` rows had to be looked
    at."""
    counted = Counted(bounds)
    proof = prove(grids, counted, some, ticks, effort)
    return Rank(counted.faster, proof.closed)
