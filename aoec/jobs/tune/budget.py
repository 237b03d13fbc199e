"""Budget of one search, in counts. Equal limits give an equal result on any machine and at any speed.

A budget in trials is a limit from the start. A budget in seconds becomes limits too: those of proofs follow from the seconds before the
search begins, and the trials are counted when the time is over. So a search by time is repeated by what it has counted.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

SMALL = 8192  # legal candidates that are all tried at the default budget, in large batches
WHOLE = SMALL / 2000  # candidates of a large batch that take as long as one trial of a strategy, which asks for a few at a time
PROOF_ROWS, PROOF_ROWS_A_SECOND = 1000, 20_000  # that a proof looks at for a trial of a budget, or a second: some 50 us each
TRIED_FIRST, TRIED_LAST = 500, 50  # parts of it with which a proof is tried before a search and, from what that found, after it
EARNEST, EARNEST_PART = 1000, 4  # trials from which on both are tried in earnest, with a larger part
INTEGER_LIMIT = 1 << 62


@dataclass(frozen=True)
class Limits:
    """Limits of a search. `trials`: legal candidates that a strategy may have timed, None where time decides when it ends. `whole`: a space
    of at most so many legal candidates is tried whole instead, which proves its best. `before`, `after`: rows that the proofs before and
    after a search may look at. `alone`: rows for a search that is only a proof. `earnest`: a proof is given up as soon as it is predicted
    to fail. `asked`: how often such a proof asked whether to go on until time ended it, 0 where time did not end it."""

    trials: int | None
    whole: int
    before: int
    after: int
    alone: int
    earnest: bool = False
    asked: int = 0


Budget = tuple[str, float] | Limits  # ("trials" | "seconds", amount), or what another search had


def limits(budget: Budget) -> Limits:
    """Return the limits that a budget comes to, as far as they are known before the search."""
    if isinstance(budget, Limits):
        return budget
    kind, amount = budget
    if kind == "trials":
        rows, earnest = int(amount * PROOF_ROWS), amount >= EARNEST
        before, after = (EARNEST_PART, EARNEST_PART) if earnest else (TRIED_FIRST, TRIED_LAST)
        return Limits(int(amount), min(SMALL, int(amount * WHOLE)), int(rows / before), int(rows / after), rows, earnest)
    rows = int(amount * PROOF_ROWS_A_SECOND)
    return Limits(None, min(SMALL, rows), int(rows / TRIED_FIRST), int(rows / TRIED_LAST), rows)


def seconds_of(budget: Budget) -> float | None:
    """Return the seconds of a budget by time. Return None for any other."""
    return None if isinstance(budget, Limits) or budget[0] != "seconds" else float(budget[1])


def trials_of(budget: Budget) -> int:
    """Return the trials that a budget asks for; one by time is satisfied by any search."""
    return limits(budget).trials or 1


def words(budget: Budget) -> dict[str, float]:
    """Return a budget as events say it: of limits their trials."""
    return {"trials": trials_of(budget)} if isinstance(budget, Limits) else {budget[0]: budget[1]}


def parse_limits(said: Mapping[str, Any]) -> Limits:
    """Return the limits that a file says. Raise ValueError where it says none."""
    names = {"trials", "whole", "before", "after", "alone", "earnest", "asked"}
    if not isinstance(said, Mapping) or set(said) != names or type(said["earnest"]) is not bool or not all(
            type(said[n]) is int and 0 <= said[n] < INTEGER_LIMIT for n in names - {"earnest"}):
        raise ValueError(f"limits of a search are whole numbers {', '.join(sorted(names - {'earnest'}))}, and earnest")
    return Limits(**said)


class Until:
    """The end of work that is done in steps. It ends when no time is `left` (None: time is no limit), or after as many `steps` as an equal
    one had time for (0: that one ended by itself)."""

    def __init__(self, left: Callable[[], float | None] = lambda: None, steps: int = 0) -> None:
        self.left, self.steps = left, steps
        self.asked, self.over = 0, False

    def ends(self) -> bool:
        """Return whether the work ends now; it is asked once before each step."""
        self.asked += 1
        self.over = self.over or self.left() == 0.0 or self.asked == self.steps
        return self.over

    @property
    def limits(self) -> Limits:
        """Return what repeats the work."""
        return Limits(0, 0, 0, 0, 0, asked=self.asked if self.over else 0)


@dataclass(frozen=True)
class Spent:
    """What a search looked at. `trials`: legal candidates that its strategy had timed, never more than its budget. `candidates`: all that
    were timed, to their end or until they could not win, by what asked for each first (search/space/trials.py: Phase). `bounded`: rows that
    proofs excluded or passed on by bounds alone. `limits`: counts that repeat the search, None where there was none."""

    trials: int = 0
    candidates: Mapping[str, int] = field(default_factory=dict)
    bounded: int = 0
    limits: Limits | None = None

    def spent_at_end(self, trials: int, asked: int = 0) -> Spent:
        """Return the same of a search that has ended after so many trials."""
        known = self.limits
        return self if known is None else replace(self, trials=trials, limits=replace(
            known, trials=trials if known.trials is None else known.trials, asked=asked))


def as_dict(spent: Spent) -> dict[str, Any]:
    """Return what was spent, as plain values."""
    return {"trials": spent.trials, "candidates": dict(spent.candidates), "bounded": spent.bounded,
            "limits": None if spent.limits is None else asdict(spent.limits)}


def parse_spent(said: Mapping[str, Any]) -> Spent:
    """Return what was spent as a file says it; ValueError, TypeError or LookupError where it says none."""
    own = said["limits"]
    return Spent(int(said["trials"]), {str(phase): int(n) for phase, n in said["candidates"].items()}, int(said["bounded"]),
                 None if own is None else parse_limits(own))
