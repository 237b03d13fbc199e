"""A space measured in full, as a file: one row a legal configuration, its parameters, and its time; and a game on it that counts.

The format (docs/search.md): gzipped CSV, a column a parameter, last `time_ms`, empty where the configuration failed to compile or run.
"""
from __future__ import annotations

import csv
import gzip
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from aoec.base.errors import AoecError
from aoec.search.space.grid import Grid, Space

MARKS = (10, 5, 1)  # percent above the optimum


class Over(Exception):
    """The game is over: the budget is spent, or the lowest mark is reached."""


@dataclass(frozen=True)
class Case:
    """`values[row, parameter]`: integers, the place among its values where a parameter is not one; `times_ms[row]`, NaN: it failed."""

    name: str
    names: tuple[str, ...]
    values: np.ndarray
    times_ms: np.ndarray

    @cached_property
    def rows(self) -> dict[tuple[int, ...], int]:
        """Return values -> row."""
        return {tuple(v): i for i, v in enumerate(self.values.tolist())}

    @cached_property
    def choices(self) -> tuple[tuple[int, ...], ...]:
        """Return the values of each parameter, ascending."""
        return tuple(tuple(sorted(set(column))) for column in self.values.T.tolist())

    @cached_property
    def space(self) -> Space:
        return Space((Grid(self.names, self.choices),))

    @cached_property
    def ranks(self) -> list[int]:
        """Return the rank of each row in the space."""
        return [self.space.rank((0, tuple(v))) for v in self.values.tolist()]

    @cached_property
    def key(self) -> str:
        """Return what tells this space from another of its name: a hash of names, values and times."""
        parts = repr(self.names).encode(), self.values.astype(np.int64).tobytes(), self.times_ms.tobytes()
        return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]

    @property
    def best_ms(self) -> float:
        return float(np.nanmin(self.times_ms))

    def within(self, percent: int) -> int:
        """Return how many configurations lie so near the best."""
        return int((self.times_ms <= self.best_ms * (1 + percent / 100)).sum())


@dataclass
class Game:
    """`measure` gives a row's time in ms, None where it failed, counts different rows, and ends the game by raising Over."""

    case: Case
    budget: int
    seen: dict[int, float] = field(default_factory=dict)
    reached: dict[int, int] = field(default_factory=dict)  # mark -> measures until it was reached
    proposals: int = 0

    def measure(self, row: int) -> float | None:
        self.proposals += 1
        if row not in self.seen:
            self.seen[row] = time = float(self.case.times_ms[row])
            for mark in MARKS:
                if mark not in self.reached and time <= self.case.best_ms * (1 + mark / 100):
                    self.reached[mark] = len(self.seen)
        if MARKS[-1] in self.reached or len(self.seen) >= self.budget or self.proposals >= 100 * self.budget:
            raise Over
        return None if np.isnan(self.seen[row]) else self.seen[row]

    def refuse(self) -> None:
        """Count a proposal that is not legal. It costs no measure, but the number of such proposals is limited."""
        self.proposals += 1
        if self.proposals >= 100 * self.budget:
            raise Over


def read(path: Path) -> Case:
    """Return the space in a file. Raise AoecError where it is none."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    if not rows or head[-1] != "time_ms":
        raise AoecError(f"{path}: a space is a gzipped CSV of parameters whose last column is time_ms")
    times = np.array([float(row[-1]) if row[-1] else np.nan for row in rows])
    values = np.stack([integers([row[i] for row in rows]) for i in range(len(head) - 1)], axis=1)
    return Case(path.name.removesuffix(".csv.gz"), tuple(head[:-1]), values, times)


def integers(column: list[str]) -> np.ndarray:
    """Return the column as integers; the place of each value among all, sorted, where one is not an integer."""
    try:
        return np.array([int(v) for v in column], dtype=np.int64)
    except ValueError:
        return np.unique(np.array(column), return_inverse=True)[1].astype(np.int64)


def write(case: Case, path: Path) -> None:
    """Write a space; parameters with one value are left out."""
    kept = [i for i, values in enumerate(case.choices) if len(values) > 1]
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow([*[case.names[i] for i in kept], "time_ms"])
        for values, time in zip(case.values[:, kept].tolist(), case.times_ms.tolist()):
            out.writerow([*values, "" if np.isnan(time) else f"{time:.6g}"])
