"""What a proof is told of a problem, and assignments of a sketch's work with what is known of them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from aoec.ir.index import Expr
from aoec.search.space.grid import Rows


class Bounds(Protocol):
    """What a proof is told of a problem; columns map each hole of a sketch to its values, ticks are with launch."""

    def constraints(self, grid: int) -> Sequence[Expr]:
        """Return the conditions that a candidate of a sketch must meet."""

    def ceilings(self, grid: int) -> Sequence[tuple[str, Expr, Expr]]:
        """Return holes, each with a tile that grows with it, and an expression of other holes. From that size on it makes no difference how
        large the tile is."""

    def slots(self, grid: int) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return three sets of holes that count slots: all of them; those on which no instruction's cost depends; and those on which none
        depends where no slots conflict."""

    def floors(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks that no row beats, whatever its slots and switches; 0 where none are known, any such from `limit` on."""

    def parts(self, grid: int, columns: Rows, opened: Mapping[str, int | None], whole: bool, limit: int, known: np.ndarray) -> np.ndarray:
        """Return [2, row, pipe]: what no row goes below, whatever its slots and switches. The first are ticks for which a pipe is at work,
        0 where none are known. The second are ticks beside these. Of rows that take `limit` or more not all are known.

        The numbers also hold with other choices of the holes `opened`. The rows have these at their largest, and `opened` gives their least
        (None: assigned). `whole`: none of these holes cuts what leaves L0C. `known`, [row, pipe]: the first part as `work_floors` found it,
        0 where it is not known.
        """

    def work_floors(self, grid: int, columns: Rows, whatever: Sequence[str], opened: bool, limit: int) -> np.ndarray:
        """Return what no row goes below, as `parts` does, nor any row with other choices of the holes `whatever`.
        `opened`: some other holes are at their largest and stand for all of their choices. Many rows take a tenth of the time of
        `parts`. Rows that reach `limit` need not be exact."""

    def slot_places(self, grid: int, columns: Rows) -> np.ndarray:
        """Return the places of slots on which costs depend where no slots are in the way, [question, row]. Rows with equal places cost
        the same."""

    @property
    def slot_ticks(self) -> int:
        """Return what a slot more may cost at most, by its flags."""

    def core_floors(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks that no row beats, nor any row with fewer slots. It is 0 where none are known, and any such number from `limit`
        on.
        It takes longer than floors."""

    def times(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks of each row; NEVER where it cannot be timed or takes `limit` or more."""


@dataclass(frozen=True)
class Part:
    """Assignments of a sketch's work that no bound excludes, and their floors; `known`: those by pipes, see Bounds.parts."""

    grid: int
    columns: Rows
    floors: np.ndarray
    known: np.ndarray = field(default_factory=lambda: np.zeros((2, 1, 1), np.int64))

    def rows(self, where: np.ndarray) -> Part:
        return Part(self.grid, {n: v[where] for n, v in self.columns.items()}, self.floors[where], self.of_rows()[:, where])

    def of_rows(self) -> np.ndarray:
        """Return `known` with an entry for each row, also where one entry stood for all rows."""
        return self.known if self.known.shape[1] != 1 else np.repeat(self.known, len(self.floors), 1)

    def join(self, other: Part) -> Part:
        """Return the rows of both parts."""
        columns = {n: np.concatenate([v, other.columns[n]]) for n, v in self.columns.items()}
        return Part(self.grid, columns, np.concatenate([self.floors, other.floors]), np.concatenate([self.known, other.known], 1))

    def tighten(self, parts: np.ndarray, limit: int) -> Part:
        """Return the rows that these further floors, by pipe, do not exclude."""
        known = np.maximum(self.known, parts)
        floors = np.maximum(self.floors, np.where(known[0] > 0, known[0] + known[1], 0).max(axis=1, initial=0))
        return Part(self.grid, self.columns, floors, known).rows(floors < limit)
