"""Plans whose buckets are known by more than one number: exact search by labels.

A label describes a plan up to a cut by several numbers. Each of them is better the smaller it is. All that follows depends on these numbers
alone, and never gets better where one of them grows. So a label is dropped where another label of the same cut beats or equals it in every
number: this loses nothing. A label is also dropped where its lower bound is above a step that was already found. Where a cut has more
labels than `most_labels`, those with the least bounds are kept. The least bound of the others is remembered: no plan that was lost is
faster than that.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from aoec.search.buckets.one_channel import Chain, earliest_ends, fewest_cuts, latest_ends, sums_ahead, sums_behind
from aoec.search.buckets.pair_costs import EQUAL

MOST_LABELS, FEWEST_LABELS = 4_096, 8  # of a cut; of one of very many cuts
MOST_STEPS = 400_000_000  # of labels to cuts, by which labels of a cut are limited where cuts are many
MOST_WORK, LABELS_LEFT = 150_000_000, 128  # pairs of labels that a search holds to each other; labels of a cut from there on
NEW_LABELS = 16  # new ones of a cut that are held to each other, for each one that is kept
MOST_VALUES = 64
FIRST_LABELS = (8, 128)  # of a cut, in searches that find a step to beat
Step = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], np.ndarray]


@dataclass(frozen=True, slots=True)
class Space:
    """All ways to cut gradients into buckets that pass channels once (`passes`), or twice. Each pass of a bucket takes its cost on the
    channel. It begins after the bucket before it there, and not before ready[j] of its last cut. On one channel that moment comes later by
    `delay` for each µs that buckets before it took in this pass. `begin_us`: when channels are free first. `step`: (when the last bucket of
    each pass ends, the sum of its costs) -> µs of a step. `step` never falls where one of these numbers grows."""

    passes: tuple[Chain, ...]
    begin_us: tuple[float, ...]
    channels: int
    delay: float
    step: Step

    def walk(self, cuts: Sequence[int]) -> float:
        """Return the µs of a step with buckets that end at `cuts`."""
        ends, sums = [], []
        for chain, begin_us in zip(self.passes, self.begin_us, strict=True):
            lanes, total, at = [begin_us] * self.channels, 0.0, 0
            for number, cut in enumerate(cuts):
                us, lane = float(chain.costs.column(cut)[at]), number % self.channels
                lanes[lane] = max(lanes[lane], chain.ready[cut] + self.delay * total) + us
                total, at = total + us, cut
            ends.append(np.array([max(lanes)]))
            sums.append(np.array([total]))
        return float(self.step(ends, sums)[0])


@dataclass(frozen=True, slots=True)
class Found:
    """The best plan of a search (`cuts` behind each bucket; empty where none is below the limit), its step, and a bound of plans that were
    dropped for room (inf: none were)."""

    cuts: tuple[int, ...]
    step_us: float
    lost_us: float


class Bounds:
    """What is left to do from each cut, at least, and the latest that a pass may have come to it for a step of `until_us`."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.ahead = [sums_ahead(chain) for chain in space.passes]
        behind = [space.delay * sums_behind(chain) if space.delay else None for chain in space.passes]
        self.delays = behind
        n = space.passes[0].costs.count
        if space.channels == 1:
            self.least = [float(earliest_ends(c, d, b)[n]) for c, d, b in zip(space.passes, behind, space.begin_us, strict=True)]
        else:
            self.least = [float(c.ready[n] + c.costs.column(n).min()) for c in space.passes]

    def of(self, cut: int, lanes: Sequence[np.ndarray], sums: Sequence[np.ndarray]) -> np.ndarray:
        """Return lower bounds of steps of labels at a cut: `lanes` of shape (labels, channels) and `sums` (labels,) of each pass."""
        ends = [np.maximum(np.maximum(at.max(1), least), (at.sum(1) + ahead[cut]) / self.space.channels)
                for at, least, ahead in zip(lanes, self.least, self.ahead, strict=True)]
        return self.space.step(ends, [s + ahead[cut] for s, ahead in zip(sums, self.ahead, strict=True)])

    def latest(self, until_us: float) -> list[np.ndarray] | None:
        """Return for each pass the latest time at each cut from which a step of `until_us` can be reached; None where nothing is known."""
        if self.space.channels > 1 or not until_us < np.inf:
            return None
        out = []
        for p, chain in enumerate(self.space.passes):
            out.append(latest_ends(chain, self.delays[p], self._most(p, until_us)))
        return out

    def _most(self, p: int, until_us: float) -> float:
        """Return the latest end of pass p with which a step can take `until_us`, by bisection."""
        def step(end_us: float) -> float:
            ends = [np.array([end_us if q == p else least]) for q, least in enumerate(self.least)]
            return float(self.space.step(ends, [np.array([ahead[0]]) for ahead in self.ahead])[0])
        low, high = self.least[p], self.least[p] + abs(until_us) + 1.0
        while step(high) <= until_us:
            high += high - low
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if step(middle) <= until_us else (low, middle)
        return high


class _Store:
    """Labels in the order in which they were made: cut, number of buckets, the label before, lanes and sum of each pass."""

    def __init__(self, width: int, first: np.ndarray) -> None:
        self.count = 1
        self.cut, self.buckets, self.before = (np.zeros(1024, np.int64) for _ in range(3))
        self.state = np.zeros((1024, width))
        self.state[0] = first

    def add(self, cut: int, buckets: np.ndarray, before: np.ndarray, state: np.ndarray) -> None:
        """Add labels of a cut."""
        end = self.count + len(before)
        while end > len(self.cut):
            self.cut, self.buckets, self.before = (np.concatenate((a, np.zeros_like(a))) for a in (self.cut, self.buckets, self.before))
            self.state = np.concatenate((self.state, np.zeros_like(self.state)))
        new = slice(self.count, end)
        self.cut[new], self.buckets[new], self.before[new], self.state[new] = cut, buckets, before, state
        self.count = end

    def cuts(self, label: int) -> tuple[int, ...]:
        """Return the cuts behind the buckets of a label."""
        out = []
        while label:
            out.append(int(self.cut[label]))
            label = int(self.before[label])
        return tuple(reversed(out))


def best_cuts(space: Space, bounds: Bounds, until_us: float, most_labels: int, most: int | None = None,
              is_fewest: bool = False) -> Found:
    """Return the plan of the shortest step of all that take at most `until_us` and have at most `most` buckets; with `is_fewest`, the one
    of the fewest buckets."""
    n, channels, passes = space.passes[0].costs.count, space.channels, len(space.passes)
    width = channels + (1 if space.delay else 0)  # of a pass: lanes, the next one first, and the sum of costs where it matters
    first = np.concatenate([[b] * channels + [0.0] * (width - channels) for b in space.begin_us])
    store, lost_us = _Store(width * passes, first), np.inf
    latest, work = bounds.latest(until_us), 0
    for j in range(1, n + 1):
        columns = [chain.costs.column(j) for chain in space.passes]
        labels = np.flatnonzero(np.isfinite(columns[0][store.cut[:store.count]]))
        if most is not None:
            labels = labels[store.buckets[labels] + 1 + (j < n) <= most]
        state, cut = store.state[labels], store.cut[labels]
        new = np.empty_like(state)
        lanes, sums = [], []
        for p, (chain, column) in enumerate(zip(space.passes, columns, strict=True)):
            at, us, total = p * width, column[cut], p * width + channels
            ready = chain.ready[j] + space.delay * state[:, total] if space.delay else chain.ready[j]
            new[:, at:at + channels - 1] = state[:, at + 1:at + channels]
            new[:, total - 1] = np.maximum(state[:, at], ready) + us
            if space.delay:
                new[:, total] = state[:, total] + us
            lanes.append(new[:, at:at + channels])
            sums.append(new[:, total] if space.delay else np.zeros(len(labels)))
        if j == n:
            return _end(space, store, labels, lanes, sums, until_us, lost_us, is_fewest)
        bound = bounds.of(j, lanes, sums)
        good = bound <= until_us
        if latest is not None:
            for p in range(passes):
                good &= lanes[p][:, 0] <= latest[p][j]
        kept = np.flatnonzero(good)
        if not len(kept):
            continue
        if len(kept) > NEW_LABELS * most_labels:
            order = np.argsort(bound[kept], kind="stable")
            lost_us = min(lost_us, float(bound[kept[order[NEW_LABELS * most_labels]]]))
            kept = np.sort(kept[order[:NEW_LABELS * most_labels]])
        buckets = store.buckets[labels[kept]] + 1
        known = new[kept] if most is None else np.column_stack((new[kept], buckets))
        front, lost = pareto_front(known, bound[kept], most_labels)
        lost_us = min(lost_us, lost)
        work += len(kept) * len(front)
        if work > MOST_WORK:
            most_labels = min(most_labels, LABELS_LEFT)
        store.add(j, buckets[front], labels[kept[front]], new[kept[front]])
    raise AssertionError("the last cut ends the search")


def _end(space: Space, store: _Store, labels: np.ndarray, lanes: Sequence[np.ndarray], sums: Sequence[np.ndarray], until_us: float,
         lost_us: float, is_fewest: bool) -> Found:
    """Return the best of the labels that have come to the last cut by one more bucket."""
    steps = space.step([at.max(1) for at in lanes], sums) if len(labels) else np.empty(0)
    within = np.flatnonzero(steps <= until_us)
    if not len(within):
        return Found((), np.inf, lost_us)
    if is_fewest:
        buckets = store.buckets[labels[within]]
        within = within[buckets == buckets.min()]
    best = within[np.argmin(steps[within])]
    return Found((*store.cuts(int(labels[best])), space.passes[0].costs.count), float(steps[best]), lost_us)


def pareto_front(rows: np.ndarray, bound: np.ndarray, most: int) -> tuple[np.ndarray, float]:
    """Return which rows (shape (rows, numbers)) no other row beats or equals in all numbers, and the first of equal ones, ascending. Where
    these are more than `most`, return those of the least bounds (shape (rows,), never falling where a number of a row grows), and the least
    bound lost."""
    if rows.shape[1] <= 2:
        front = _front(rows, np.arange(len(rows)))
    elif rows.shape[1] == 3 and len(values := np.unique(rows[:, 2])) <= MOST_VALUES:
        front = _front_by_value(rows, values)
    else:
        order = np.lexsort((*rows.T[::-1], rows.sum(1), bound))
        left = rows[order]
        out: list[int] = []
        while len(order) and len(out) < most:  # none beats the first row of this order
            out.append(int(order[0]))
            better = ~(left >= left[0]).all(1)
            order, left = order[better], left[better]
        return np.array(sorted(out)), float(bound[order[0]]) if len(order) else np.inf
    order = front[np.argsort(bound[front], kind="stable")]
    return np.sort(order[:most]), float(bound[order[most]]) if len(order) > most else np.inf


def _front(rows: np.ndarray, among: np.ndarray) -> np.ndarray:
    """Return those of the rows `among` that none of them beats or equals in the first one or two numbers. They are sorted by the first
    number, ascending."""
    if rows.shape[1] == 1:
        return among[[np.argmin(rows[among, 0])]]
    order = among[np.lexsort((rows[among, 1], rows[among, 0]))]
    second = rows[order, 1]
    least = np.minimum.accumulate(second)
    return order[np.concatenate(([True], second[1:] < least[:-1]))]


def _front_by_value(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the same for three numbers, of which the third has few values. Rows of a value are compared with the front of all lesser
    values."""
    stair, out = np.empty(0, np.int64), []
    for value in values:
        among = np.flatnonzero(rows[:, 2] == value)
        if len(stair):
            at = np.searchsorted(rows[stair, 0], rows[among, 0], "right") - 1
            among = among[(at < 0) | (rows[stair[at], 1] > rows[among, 1])]
        if len(among):
            new = _front(rows, among)
            out.append(new)
            stair = _front(rows, np.concatenate((stair, new)))
    return np.concatenate(out)


@dataclass(frozen=True, slots=True)
class Searched:
    """The plan of a search and its step; `bound_us`: no plan is shorter; `is_fewest`: none of an equal step has fewer buckets."""

    cuts: tuple[int, ...]
    step_us: float
    bound_us: float
    is_fewest: bool


def search(space: Space, packed: tuple[int, ...], most: int | None) -> Searched:
    """Return the plan of the shortest step with at most `most` buckets, of those within `EQUAL` one of the fewest. `packed`: cuts of a plan
    of the fewest buckets that there are at all."""
    chain, bounds = space.passes[0], Bounds(space)
    by_ends = fewest_cuts(chain, earliest_ends(chain), bounds.least[0] * (1 + EQUAL)) if space.channels == 1 and not space.delay else packed
    found = _search_within(space, bounds, min((packed, by_ends), key=space.walk), None)
    return found if most is None or len(found.cuts) <= most else _search_within(space, bounds, packed, most)


def _search_within(space: Space, bounds: Bounds, cuts: tuple[int, ...], most: int | None) -> Searched:
    """Search for the shortest step, and then for the fewest buckets of a step as short; `cuts`: of a plan to begin with."""
    room = max(FEWEST_LABELS, min(MOST_LABELS, MOST_STEPS // space.passes[0].costs.count**2))
    rooms = [*(f for f in FIRST_LABELS if f < room), room]
    step_us, lost_us = space.walk(cuts), np.inf
    for labels in rooms:
        found = best_cuts(space, bounds, step_us * (1 + EQUAL / 4), labels, most)
        lost_us = found.lost_us
        if found.step_us < step_us:
            cuts, step_us = found.cuts, found.step_us
        if lost_us >= step_us:
            break
    until_us, is_fewest = step_us * (1 + EQUAL / 2), False
    for labels in rooms:
        found = best_cuts(space, bounds, until_us, labels, len(cuts), is_fewest=True)
        if found.cuts and len(found.cuts) < len(cuts):
            cuts = found.cuts
        if found.lost_us == np.inf:
            is_fewest = True
            break
    return Searched(cuts, step_us, min(step_us, lost_us), is_fewest)
