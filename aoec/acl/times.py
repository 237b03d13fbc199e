"""What is measured of launches on a device."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LAUNCH_BOUND = 3.0  # a kernel within so many times of an empty one shows the launch, not itself


@dataclass(frozen=True)
class Timing:
    """Microseconds of one pass over the launches. `hot_us`: of spans of `passes` passes, back to back; `cold_us`: of single passes, L2
    emptied before each by `emptied_by`; `empty_us`: of spans of as many empty kernels; `source`: what measured, never to be mixed."""

    hot_us: tuple[float, ...]
    cold_us: tuple[float, ...]
    empty_us: tuple[float, ...]
    passes: int
    launches: int
    emptied_by: str
    source: str = "event"

    @property
    def hot(self) -> float:
        """Return the median of the hot spans."""
        return median(self.hot_us)

    @property
    def least(self) -> float:
        """Return the shortest hot span."""
        return min(self.hot_us)

    @property
    def spread(self) -> float:
        """Return how far the hot spans lie apart, as a share of their median."""
        return (max(self.hot_us) - min(self.hot_us)) / self.hot if self.hot else 0.0

    @property
    def cold(self) -> float:
        """Return the median of the cold passes; 0 where none was measured."""
        return median(self.cold_us) if self.cold_us else 0.0

    @property
    def empty(self) -> float:
        """Return the median of the spans of empty kernels; 0 where none was measured."""
        return median(self.empty_us) if self.empty_us else 0.0

    @property
    def launch_bound(self) -> bool:
        """Return whether the time is near that of empty kernels, so that it says little of the kernel."""
        return bool(self.empty_us) and self.hot < LAUNCH_BOUND * self.empty


def timing_of(answer: dict[str, object], launches: int) -> Timing:
    """Return the times of a worker's answer."""
    def numbers(key: str) -> tuple[float, ...]:
        values = answer.get(key)
        return tuple(float(v) for v in values) if isinstance(values, Sequence) and not isinstance(values, str) else ()
    return Timing(numbers("hot_us"), numbers("cold_us"), numbers("empty_us"), int(str(answer["passes"])), launches,
                  str(answer["emptied_by"]))
