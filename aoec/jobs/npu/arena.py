"""Arena: one piece of device memory for all tensors of a model that are not constant. Tensors that are alive at one time do not overlap."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGN_BYTES = 512  # at which tensors begin in GM, as the model machine has them


@dataclass(frozen=True)
class Life:
    """A tensor that needs `size` bytes from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int


def align(size: int) -> int:
    """Return the bytes up to where the next tensor can begin."""
    return -(-size // ALIGN_BYTES) * ALIGN_BYTES


def place_lives(lives: Sequence[Life]) -> tuple[dict[str, int], int]:
    """Return (name -> byte at which it begins, bytes in all). The largest is placed first, each at the lowest place that is free in its
    time.

    That is the greedy rule by size of Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference (2020).
    """
    starts: dict[str, int] = {}
    done: list[tuple[int, int, Life]] = []  # begin, end, whose; in order of begin
    for life in sorted(lives, key=lambda x: (-x.size, x.first, x.name)):
        at = 0
        for begin, end, other in done:
            if other.last < life.first or life.last < other.first:
                continue
            if begin - at >= align(life.size):
                break
            at = max(at, end)
        starts[life.name] = at
        done.append((at, at + align(life.size), life))
        done.sort(key=lambda x: x[0])
    return starts, max((end for _, end, _ in done), default=0)
