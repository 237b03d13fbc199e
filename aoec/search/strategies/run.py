"""Run: a strategy against a cost function, until the budget ends, the space is exhausted or the bound is reached."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from aoec.base.errors import ScheduleError
from aoec.search.space.grid import Candidate
from aoec.search.strategies.strategy import Cost, Strategy

BATCH = 1024
PATIENCE = 1 << 17  # illegal candidates in a row after which a search with a budget gives up

CostFunction = Callable[[Sequence[Candidate]], Sequence[Cost]]
LegalFunction = Callable[[Sequence[Candidate]], Sequence[bool]]


@dataclass(frozen=True)
class Result:
    """`best`: a candidate of the lowest cost; among equals the default wins, then the canonically first, whatever the strategy.

    `trials` counts legal candidates, the default included: as a budget, that number repeats the search exactly.
    `history`: (trials so far, cost) at every improvement. `stopped`: bound, space, budget, illegal (too many in a row), or ""
    while it runs.
    """

    best: Candidate | None = None
    cost: int | None = None
    trials: int = 0
    illegal: int = 0
    history: tuple[tuple[int, int], ...] = ()
    stopped: str = ""

    @property
    def is_proved(self) -> bool:
        """Return whether the best is proved optimal in its space: it meets the bound, or nothing is left to try."""
        return self.best is not None and self.stopped in ("bound", "space")


def perhaps(batch: Sequence[Candidate]) -> list[bool]:
    """Return True for each: any candidate may be legal, for all that is known before it is timed."""
    return [True] * len(batch)


def run(strategy: Strategy, cost: CostFunction, *, budget_trials: int | None = None, budget_seconds: float | None = None,
        floor: int | None = None, first: Candidate | None = None, clock: Callable[[], float] = time.monotonic) -> Result:
    """Return the result of the whole search; see `steps`. ScheduleError where no candidate is legal."""
    *_, result = steps(strategy, cost, budget_trials=budget_trials, budget_seconds=budget_seconds, floor=floor, first=first, clock=clock)
    if result.best is None:
        raise ScheduleError(f"none of {result.illegal:,} candidates is legal; the space has {strategy.space.size:,}")
    return result


def steps(strategy: Strategy, cost: CostFunction, *, legal: LegalFunction = perhaps, budget_trials: int | None = None,
          budget_seconds: float | None = None, floor: int | None = None, first: Candidate | None = None,
          clock: Callable[[], float] = time.monotonic) -> Iterator[Result]:
    """Yield the result so far after each batch; the last one says why the search stopped.

    `cost` takes a batch of candidates and gives an integer cost or None (illegal) for each; `legal`, which is cheaper, False where
    that is sure to be None. `first` is the default: always timed, whatever the budget. `floor` is a lower bound of the cost: where the
    best meets it, nothing is left to find.
    """
    started, result, dry = clock(), Result(), 0
    limit = max(1, budget_trials) if budget_trials is not None else None
    asked = [first] if first is not None else strategy.ask(BATCH)
    while not result.stopped:
        count = len(asked) if limit is None else _fitting(asked, limit - result.trials, legal)
        batch, asked = asked[:count], asked[count:]
        costs = cost(batch)
        strategy.tell(batch, costs)
        result = _absorb(result, batch, costs, strategy.space.rank, first)
        dry = 0 if any(c is not None for c in costs) else dry + len(batch)
        over = budget_seconds is not None and clock() - started >= budget_seconds
        spent = over or (limit is not None and result.trials >= limit)
        given_up = dry >= PATIENCE and (limit is not None or budget_seconds is not None)
        result = replace(result, stopped=_stop_reason(result, floor, strategy.is_finished, spent, given_up))
        yield result
        asked = asked or ([] if result.stopped else strategy.ask(BATCH))


def _fitting(asked: Sequence[Candidate], room: int, legal: LegalFunction) -> int:
    """Return how many of the candidates asked for can be timed and never be more than `room` trials."""
    if len(asked) <= room:
        return len(asked)
    return next((i for i, trials in enumerate(accumulate(map(bool, legal(asked)))) if trials > room), len(asked))


def _stop_reason(result: Result, floor: int | None, finished: bool, spent: bool, given_up: bool) -> str:
    """Return the first reason to stop that holds, proofs before the others; "" where none does."""
    met = floor is not None and result.cost is not None and result.cost <= floor
    reasons = {"bound": met, "space": finished, "budget": spent, "illegal": given_up}
    return next((name for name, holds in reasons.items() if holds), "")


def _absorb(result: Result, batch: Sequence[Candidate], costs: Sequence[Cost], rank: Callable[[Candidate], int],
            first: Candidate | None) -> Result:
    """Return the result with a batch counted in, candidate by candidate: how it was cut into batches cannot matter."""
    best, best_cost, trials, history = result.best, result.cost, result.trials, list(result.history)
    for candidate, cost in zip(batch, costs, strict=True):
        if cost is None:
            continue
        trials += 1
        if best is None or best_cost is None or cost < best_cost:
            best, best_cost = candidate, cost
            history.append((trials, cost))
        elif cost == best_cost and best != first and rank(candidate) < rank(best):
            best = candidate
    illegal = result.illegal + len(batch) - (trials - result.trials)
    return Result(best, best_cost, trials, illegal, tuple(history))
