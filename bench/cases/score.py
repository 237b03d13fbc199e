"""How near modelled values are to published ones: errors, ranks, signs of pairs; by class, chip and source."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

import numpy as np

from bench.cases.case import Case


@dataclass(frozen=True)
class Result:
    """A case with what the model says of it. `modelled` is None where the case cannot be expressed, with the reason;
    `note` says what about a modelled row is a reading; `why_not` why it is not counted among the eligible."""

    case: Case
    modelled: float | None = None
    bound_by: str = ""
    reason: str = ""
    note: str = ""
    why_not: str = ""
    parts_us: Mapping[str, float] = field(default_factory=dict)
    bound: float | None = None  # physical bound, in the metric's unit
    unit: str = "us"
    warm: float | None = None  # modelled, had an equal launch alone run before it; `modelled` where its profiler does nothing else

    @property
    def ratio(self) -> float | None:
        """Return modelled / measured."""
        return None if self.modelled is None else self.modelled / self.case.value

    @property
    def error(self) -> float | None:
        """Return |modelled - measured| / measured, or None where nothing was modelled."""
        return None if self.ratio is None else abs(self.ratio - 1)


@dataclass(frozen=True)
class Score:
    """Figures of a set of results; None where there is too little to say one."""

    rows: int
    mean_error: float | None
    median_error: float | None
    spearman: float | None
    pairs: int
    right_pairs: int

    @property
    def sign_accuracy(self) -> float | None:
        """Return the share of pairs for which the model says rightly which is faster."""
        return self.right_pairs / self.pairs if self.pairs else None


def score(results: Iterable[Result]) -> Score:
    """Return the figures of the modelled cases."""
    told = [r for r in results if r.modelled is not None]
    errors = [e for r in told if (e := r.error) is not None]
    found = pairs(told)
    return Score(len(told), sum(errors) / len(errors) if errors else None, median(errors) if errors else None,
                 spearman([r.case.value for r in told], [r.modelled for r in told if r.modelled is not None]),
                 len(found), sum(same_sign(a, b) for a, b in found))


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Return the rank correlation, ties at their mean rank; None for fewer than three points or where one side does not vary."""
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return None
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def ranks(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value, equal ones at the mean of theirs."""
    _, place, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + 1 + last) / 2.0)[place]


def pairs(results: Iterable[Result]) -> list[tuple[Result, Result]]:
    """Return each result with that of the next step of its ladder, where their measured values differ.

    Steps whose words are equal are one schedule measured twice: what they differ by is the spread of the measurement, no choice.
    """
    ladders: dict[tuple[str, str], list[tuple[int, Result]]] = {}
    for r in results:
        for name, step in r.case.pairs:
            ladders.setdefault((name, r.case.metric), []).append((step, r))
    out = []
    for steps in ladders.values():
        ordered = [r for _, r in sorted(steps, key=lambda s: s[0])]
        out += [(a, b) for a, b in pairwise(ordered) if a.case.value != b.case.value and a.case.tile != b.case.tile]
    return out


def same_sign(a: Result, b: Result) -> bool:
    """Return whether the model says which of two is faster as the measurement does."""
    assert a.modelled is not None and b.modelled is not None
    return (a.modelled - b.modelled) * (a.case.value - b.case.value) > 0


def by(results: Iterable[Result], name: Callable[[Result], str]) -> dict[str, Score]:
    """Return scores of the results of one name each, names sorted."""
    groups: dict[str, list[Result]] = {}
    for r in results:
        groups.setdefault(name(r), []).append(r)
    return {n: score(groups[n]) for n in sorted(groups)}


def leave_one_out(results: Sequence[Result]) -> dict[str, Score]:
    """Return scores without each publisher in turn: whether one source carries the whole."""
    return {p: score(r for r in results if r.case.publisher != p) for p in sorted({r.case.publisher for r in results})}


def worst(results: Iterable[Result], count: int = 10) -> list[Result]:
    """Return the results furthest off, by the factor."""
    told = [r for r in results if r.modelled]
    return sorted(told, key=lambda r: -abs(np.log(r.ratio)))[:count]
