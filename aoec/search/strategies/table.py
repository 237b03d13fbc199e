"""Table: candidates as rows of numbers: what a model learns from, and what tells how far one is from another.

The columns of a space are its holes by name, whatever sketch they are of, and last the sketch. A *code* is the place of a value among all
values that the hole has anywhere. It is -1 where the sketch has no such hole. Two candidates are as many steps apart as there are columns
in which their codes differ.

*Features* are log2(1 + value), and the sum and the difference of each pair of holes with three values or more. Sum and difference are the
logarithms of product and ratio. Whether a tile fits a buffer, how often it is read and how many units share it depend on products and
ratios. A tree splits one column at a time, and would need many splits to learn them.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from aoec.search.space.grid import Grid, Space
from aoec.search.space.pool import index_type

PAIRED = 12  # holes of which pairs are features: those with the most values


@dataclass(frozen=True)
class Table:
    """`ranks[row]`, ascending or not; `codes[row, column]` int32; `features[row, feature]` float32."""

    ranks: np.ndarray
    codes: np.ndarray
    features: np.ndarray

    def __len__(self) -> int:
        return len(self.ranks)

    def steps(self, codes: np.ndarray) -> np.ndarray:
        """Return int[row]: in how many columns each row differs from one row of codes."""
        return np.asarray((self.codes != codes).sum(axis=1))

    def take(self, rows: np.ndarray) -> Table:
        """Return the table of some of the rows, chosen by mask or by index."""
        return Table(self.ranks[rows], self.codes[rows], self.features[rows])


class Columns:
    """The columns of a space, and tables of its candidates."""

    def __init__(self, space: Space) -> None:
        self.space = space
        every: dict[str, set[int]] = {}
        for grid in space.grids:
            for name, values in zip(grid.names, grid.choices):
                every.setdefault(name, set()).update(values)
        self.values = {name: np.array(sorted(every[name]), dtype=np.int64) for name in sorted(every)}
        rich = sorted((n for n in self.values if len(self.values[n]) > 2), key=lambda n: -len(self.values[n]))[:PAIRED]
        self.pairs = [(list(self.values).index(a), list(self.values).index(b)) for a, b in combinations(sorted(rich), 2)]

    def table(self, ranks: Sequence[int] | np.ndarray) -> Table:
        """Return the rows of these ranks, in their order."""
        ranks = np.asarray(ranks, dtype=index_type(self.space))
        codes = np.full((len(ranks), len(self.values) + 1), -1, dtype=np.int32)
        bounds = np.array(self.space.starts, dtype=ranks.dtype)
        codes[:, -1] = np.searchsorted(bounds, ranks, side="right") - 1
        for number in np.unique(codes[:, -1]).tolist():
            rows = np.flatnonzero(codes[:, -1] == number)
            self._fill(codes, rows, self.space.grids[number], ranks[rows] - self.space.starts[number])
        return Table(ranks, codes, self._features(codes))

    def _fill(self, codes: np.ndarray, rows: np.ndarray, grid: Grid, ranks: np.ndarray) -> None:
        """Set the codes of rows of one grid from their ranks in it."""
        for name, choices in zip(reversed(grid.names), reversed(grid.choices)):
            ranks, digits = ranks // len(choices), ranks % len(choices)  # divmod of NumPy knows no integers beyond int64
            places = np.searchsorted(self.values[name], np.array(choices, dtype=np.int64))
            codes[rows, list(self.values).index(name)] = places[digits.astype(np.int64)]

    def _features(self, codes: np.ndarray) -> np.ndarray:
        sketch = codes[:, -1:] == np.arange(len(self.space.grids))
        logs = [np.append(np.log2(1.0 + np.maximum(v, 0)), -1.0)[codes[:, i]] for i, v in enumerate(self.values.values())]
        pairs = [both for a, b in self.pairs for both in (logs[a] + logs[b], logs[a] - logs[b])]
        return np.column_stack([*logs, *pairs, sketch]).astype(np.float32)
