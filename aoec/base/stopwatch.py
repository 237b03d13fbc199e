"""Where the time of a piece of work goes, by the clock of this computer. It is at one part at each moment, so that the parts add up to the
whole."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Seconds by part. `begin` ends one part and goes on with another, which may have been there before."""

    def __init__(self, part: str = "start", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._part, self._ended = clock, part, {part: 0.0}
        self._since = clock()

    def begin(self, part: str) -> None:
        """Count the time from now on to `part`."""
        now = self._clock()
        self._ended[self._part] += now - self._since
        self._part, self._since = part, now
        self._ended.setdefault(part, 0.0)

    @contextmanager
    def during(self, part: str) -> Iterator[None]:
        """Count the time within this context to `part`, and the time after it to the part before."""
        before = self._part
        self.begin(part)
        try:
            yield
        finally:
            self.begin(before)

    def read(self) -> dict[str, float]:
        """Return part -> seconds until now, in the order in which the parts were begun."""
        return {**self._ended, self._part: self._ended[self._part] + self._clock() - self._since}
