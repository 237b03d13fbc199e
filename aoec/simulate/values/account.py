"""What the time of runs for values goes into, by instruction word."""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from aoec.kernels import tile


class Account:
    """CPU seconds of runs that were given this account, which then use one thread: `seconds` in the interpreter as a whole."""

    def __init__(self) -> None:
        self.ticks = np.zeros((len(tile.OPS) + 1, 3), np.int64)  # a row a word, then one of the whole; see `tile.tick`
        self.seconds = 0.0

    def words(self) -> Iterator[tuple[str, int, float, float]]:
        """Yield (word, how often it ran, CPU seconds in its fields and addresses, in its body) of every word that ran."""
        second = self.seconds / max(int(self.ticks[-1, 2]), 1)
        for word, (count, fields, body) in zip(tile.OPS, self.ticks.tolist()):
            if count:
                yield word, count, fields * second, body * second
