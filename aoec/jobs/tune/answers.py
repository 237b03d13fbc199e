"""The model machine's answers to a search. They are recorded while it works, and given again to the same search when it resumes.

A search is a function of its task, seed, budget and these answers. A search that gets its earlier answers again repeats its work up to the
point where it broke off. From there it goes on to the same end. Nothing else of it is ever saved.
"""
from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from types import TracebackType
from typing import Protocol

import numpy as np

from aoec.bank.journal import Batch

LIMIT_BYTES = 64 << 20  # of one search's packed answers; what comes later is not noted, and timed again by a search that goes on


class Notes(Protocol):
    """Where the answers of one search go, one by one."""

    def note(self, number: int, batch: Batch) -> None: ...

    def close(self) -> None: ...


class Answers:
    """`told`: what an earlier run of the same search was answered. `notes`: take what is new; without them nothing is noted."""

    def __init__(self, told: Iterable[Batch] = (), notes: Notes | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._told, self._notes, self._clock = deque(told), notes, clock
        self._at = self._bytes = 0  # batches so far; what is noted of them
        self._spent, self._since = 0.0, clock()
        self.timed_before = 0  # candidates whose times were told

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    @property
    def seconds(self) -> float:
        """Return the seconds since the search began, with those of earlier runs. The clock stands still while earlier answers are given
        again."""
        return self._spent if self._told else self._spent + self._clock() - self._since

    def ask(self, question: Sequence[bytes], timed: int, shape: tuple[int, ...], work: Callable[[], np.ndarray]) -> np.ndarray:
        """Return the answer to a question, an array of int64 of a shape. It is the answer of an earlier run where there is one, else that
        of `work`. `timed`: how many candidates it times. Raise BankError where it cannot be noted."""
        if self._notes is None and not self._told:
            return work()
        asked = hash_question(question)
        if (known := self._next(asked.hex(), shape)) is not None:
            return known
        found = work()
        if self._notes is not None:
            batch = Batch(asked.hex(), timed, self.seconds, pack(found))
            self._notes.note(self._at, batch)
            self._at, self._bytes = self._at + 1, self._bytes + len(batch.answer)
            if self._bytes > LIMIT_BYTES:
                self._close()
        return found

    def _close(self) -> None:
        """Stop recording answers."""
        if self._notes is not None:
            self._notes.close()
            self._notes = None

    def _next(self, asked: str, shape: tuple[int, ...]) -> np.ndarray | None:
        """Return what was told next, if it answers this; else None, and the rest is of another search, and forgotten."""
        if not self._told:
            return None
        batch = self._told.popleft()
        found = unpack(batch.answer, shape) if batch.question == asked else None
        self._since = self._clock()
        if found is None:
            self._told.clear()
            return None
        self._at, self._spent, self._bytes = self._at + 1, batch.seconds, self._bytes + len(batch.answer)
        self.timed_before += batch.timed
        return found


def hash_question(question: Sequence[bytes]) -> bytes:
    """Return 16 bytes that name a question; parts are told apart by their lengths."""
    h = blake2b(digest_size=16)
    for part in question:
        h.update(len(part).to_bytes(8, "little"))
        h.update(part)
    return h.digest()


def pack(found: np.ndarray) -> bytes:
    """Return an array of int64 as compressed bytes."""
    return zlib.compress(np.ascontiguousarray(found, "<i8").tobytes(), 1)


def unpack(data: bytes, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the array of a shape that was packed. Return None where the bytes, which may come from anybody, are none. None is larger than
    its shape."""
    size = 8 * int(np.prod(shape))
    try:
        raw = zlib.decompressobj().decompress(data, size + 1)
    except zlib.error:
        return None
    return np.frombuffer(raw, "<i8").astype(np.int64).reshape(shape) if len(raw) == size else None
