"""Shares of a job's time for its searches. A search gets time by how much it may save, and unused time goes to the searches after it."""
from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

FIRST = 0.8  # of a job's time, for the model in plain layouts, where others may be tried after it
LOOKING = 0.5  # of the time that is left, for looking for slices: what is found must be scheduled too
READY_S = 0.8  # CPU seconds before a search begins: a group's sketches and default schedule, an estimate from groups of BERT-base


@dataclass(frozen=True)
class Share:
    """The time of one search. `deadline`: of time.monotonic(), which all processes of a machine share, when the last search is to end.
    `part`: of the time that is left when it begins, in as many processes as work. `ready_s`: seconds that those of it and after it need to
    begin."""

    deadline: float
    part: float
    ready_s: float

    def seconds(self, clock: Callable[[], float] = time.monotonic) -> float:
        """Return the seconds that the search may take when it begins now. Return 0 where the time is over."""
        left = self.deadline - clock()
        return max(0.0, min(left, (left - self.ready_s) * self.part))


NO_TIME = Share(float("-inf"), 0.0, 0.0)


def shares(weights: Sequence[float], processes: int, deadline: float) -> list[Share]:
    """Return the share of each of several searches that begin in this order, as soon as one of so many processes is free."""
    out, rest = [], sum(weights)
    for begun, weight in enumerate(weights):
        ready_s = READY_S * (len(weights) - begun) / processes
        out.append(Share(deadline, processes * weight / rest if rest else 1.0, ready_s))
        rest -= weight
    return out


class JobTime:
    """The time that all searches of a job have together, from now on; none of them is limited where that is None."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.deadline = None if seconds is None else clock() + seconds

    def until(self, part: float) -> float | None:
        """Return when a part of the time that is left now is over."""
        return None if self.deadline is None else self._clock() + part * max(0.0, self.deadline - self._clock())

    def seconds_left(self, deadline: float | None) -> float | None:
        """Return seconds up to then, at least 0."""
        return None if deadline is None else max(0.0, deadline - self._clock())
