"""The row of launches of a lattice that ends first, by dynamic programming over its places.

A row that has reached a place is known by when it ends, how many launches it has, and what L2 holds that is read later. Of rows with equal
contents of L2, one that ends later and has no fewer launches is dropped. This loses nothing, since all that follows takes the same time.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from aoec.search.plans.lattice import Lattice, Launch
from aoec.search.plans.recency import Held, State, state_of, touch

MOST_KEPT = 48  # rows with different contents of L2 that are kept at a place; beyond that the soonest are


@dataclass(frozen=True, slots=True)
class Price:
    """What a launch takes in us: `alone_us` with its launch where it finds the device free, `queued_us` behind another one."""

    alone_us: float
    queued_us: float


@dataclass(frozen=True)
class Queue:
    """How the host feeds the device: µs between tasks that it enqueues."""

    enqueue_us: float
    usable_bytes: int


PriceOf = Callable[[Launch, State], Price]


@dataclass(slots=True)
class _Partial:
    """A row up to a place. `edge`: its last one, after `rest`."""

    end_us: float
    launches: int
    held: Held
    edge: int = -1
    rest: _Partial | None = None


@dataclass(frozen=True)
class Row:
    """A row of edges, when it ends in us (inf: there is none), and its launches with the states of L2 that they start from. `is_exact`:
    whether no row of the lattice ends sooner; else rows were dropped that may."""

    edges: tuple[int, ...]
    end_us: float
    asked: tuple[tuple[Launch, State], ...]
    is_exact: bool


def find_cheapest(lattice: Lattice, price: PriceOf, queue: Queue, held: Held = (), most: int = MOST_KEPT) -> Row:
    """Return the row that ends first; of equal ones that with the fewest launches, then the first. `held`: what L2 holds at first."""
    kept: list[dict[Held, list[_Partial]]] = [{} for _ in range(lattice.places)]
    kept[0][held] = [_Partial(0.0, 0, held)]
    exact = True
    for place in range(lattice.places - 1):
        rows = sorted((p for same in kept[place].values() for p in same), key=lambda p: (p.end_us, p.launches))
        kept[place] = {}
        if len(rows) > most:
            rows, exact = rows[:most], False
        for number in lattice.outgoing[place]:
            edge = lattice.edges[number]
            for row in rows:
                end_us, count = row.end_us, row.launches
                if edge.launch is not None:
                    p = price(edge.launch, state_of(row.held, edge.launch, queue.usable_bytes))
                    end_us, count = end_after(end_us, count, p, queue), count + 1
                if end_us < inf:
                    _keep(kept[edge.end], _Partial(end_us, count, touch(row.held, edge, lattice, queue.usable_bytes), number, row))
    last = [p for same in kept[-1].values() for p in same]
    best = min(last, key=lambda p: (p.end_us, p.launches), default=None)
    return Row((), inf, (), exact) if best is None else _row(best, lattice, queue, exact)


def end_after(end_us: float, launches: int, price: Price, queue: Queue) -> float:
    """Return when a launch ends that follows so many others, of which the last ends at `end_us` (as simulate.time.chain has it)."""
    alone = launches * queue.enqueue_us + price.alone_us
    return max(alone, end_us + price.queued_us) if launches else alone


def _keep(same: dict[Held, list[_Partial]], new: _Partial) -> None:
    """Add a row to those with equal contents of L2, unless one of them is as good. Remove those that it equals or beats."""
    there = same.setdefault(new.held, [])
    if all(p.end_us > new.end_us or p.launches > new.launches for p in there):
        there[:] = [*(p for p in there if p.end_us < new.end_us or p.launches < new.launches), new]


def _row(last: _Partial, lattice: Lattice, queue: Queue, exact: bool) -> Row:
    """Return a row that has reached the last place."""
    edges: list[int] = []
    asked: list[tuple[Launch, State]] = []
    at: _Partial | None = last
    while at is not None and at.rest is not None:
        edges.append(at.edge)
        launch = lattice.edges[at.edge].launch
        if launch is not None:
            asked.append((launch, state_of(at.rest.held, launch, queue.usable_bytes)))
        at = at.rest
    return Row(tuple(reversed(edges)), last.end_us, tuple(reversed(asked)), exact)
