"""A training step by intervals, and the best of all plans by trying each: what the plan of gradients is held to.

Collectives are put down one by one, in the order of their buckets. Compute is integrated over the union of what was put down.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from aoec.ir.training import StepTrace

Busy = list[tuple[float, float]]


@dataclass(frozen=True)
class TableCosts:
    """Costs by functions of bytes; contention of 1, 2 and 4 is exact in floats."""

    functions: dict[str, Callable[[int], float]]
    contention: float = 1.0
    ranks: int = 4

    def us(self, collective: str, sizes: Sequence[int]) -> list[float]:
        """The cost of each size."""
        return [self.functions[collective](int(s)) for s in sizes]


def merge(busy: Busy) -> Busy:
    """The union of intervals, in order."""
    out: Busy = []
    for begin, end in sorted(b for b in busy if b[1] > b[0]):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


def work(begin: float, amount: float, busy: Busy, contention: float) -> float:
    """When `amount` of compute that begins at `begin` is done, if it takes `contention` times as long in busy intervals."""
    at, left = begin, amount
    for b, e in merge(busy):
        if e <= at or left == 0:
            continue
        if b > at:
            if left <= b - at:
                return at + left
            left, at = left - (b - at), b
        if left <= (e - at) / contention:
            return at + left * contention
        left, at = left - (e - at) / contention, e
    return at + left


def slow_step(trace: StepTrace, ends: Sequence[int], scheme: str, channels: int, costs: TableCosts) -> float:
    """The µs of a step in its steady state."""
    buckets, begin = [], 0
    for e in ends:
        buckets.append(trace.gradients[begin:e + 1])
        begin = e + 1
    sizes = [sum(g.size for g in b) for b in buckets]
    first, second = ("all_reduce", "") if scheme == "all_reduce" else ("reduce_scatter", "all_gather")
    busy: Busy = []
    free = [0.0] * channels
    for k, bucket in enumerate(buckets):
        begin_us = max(free[k % channels], work(0.0, max(g.ready_us for g in bucket), busy, costs.contention))
        free[k % channels] = begin_us + costs.functions[first](sizes[k])
        busy.append((begin_us, free[k % channels]))
    backward_us, sent_us = work(0.0, trace.backward_us, busy, costs.contention), max(free)
    if scheme == "all_reduce":
        return max(backward_us, sent_us) + trace.optimiser_us + trace.forward_us
    at = backward_us if scheme == "split" else max(backward_us, sent_us) + trace.optimiser_us / costs.ranks
    free = [max(at, sent_us)] * channels
    arrives = [0.0] * len(buckets)
    for k in reversed(range(len(buckets))):
        lane = k % channels
        busy.append((free[lane], free[lane] + costs.functions[second](sizes[k])))
        arrives[k] = free[lane] = busy[-1][1]
    done, read = 0.0, [min(g.read_us for g in b) for b in buckets]
    for k in reversed(range(len(buckets))):
        place = min(trace.forward_us, *read[:k + 1], float("inf"))
        at = max(work(at, place - done, busy, costs.contention), arrives[k])
        done = place
        if scheme == "split":
            at = work(at, trace.optimiser_us * sizes[k] / trace.size, busy, costs.contention)
    return work(at, trace.forward_us - done, busy, costs.contention)


def all_ends(count: int, most: int | None = None) -> Iterator[tuple[int, ...]]:
    """All ways to cut `count` gradients into at most `most` buckets, those of few buckets first."""
    for number in range(1, (most or count) + 1):
        for cuts in combinations(range(count - 1), number - 1):
            yield (*cuts, count - 1)


def slow_best(trace: StepTrace, scheme: str, channels: int, costs: TableCosts, most: int | None = None,
              most_bytes: int | None = None) -> tuple[float, int] | None:
    """The shortest step of all plans, and the fewest buckets that have it; None where the limits leave no plan."""
    best: tuple[float, int] | None = None
    for ends in all_ends(len(trace.gradients), min(most or len(trace.gradients), len(trace.gradients))):
        groups = [range(a + 1, b + 1) for a, b in zip((-1, *ends), ends)]
        if most_bytes is not None and any(len(g) > 1 and sum(trace.gradients[i].size for i in g) > most_bytes for g in groups):
            continue
        us = slow_step(trace, ends, scheme, channels, costs)
        if best is None or us < best[0] - 1e-7:
            best = (us, len(ends))
    return best
