"""Deciding a plan: launches are timed only where their bounds leave it open which row of them is the fastest.

Each launch has a lower bound, which costs little, and a time, which costs a search. The cheapest row is found with times where they are
known and bounds elsewhere. Launches of this row without a time are timed next. This is repeated until every launch of the cheapest row has
a time. By their bounds, all other rows take at least as long. A limit of time or of count may end this earlier. Then the best row whose
launches are all timed is taken.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from aoec.search.plans.cheapest import MOST_KEPT, Price, Queue, Row, find_cheapest
from aoec.search.plans.lattice import Lattice, Launch
from aoec.search.plans.recency import Held, State

NEVER = Price(inf, inf)
Asked = tuple[Launch, State]


class Prices(Protocol):
    """What is known of launches."""

    def known_price(self, launch: Launch, state: State) -> Price | None:
        """Return what a launch takes by its schedule; None where none was searched."""

    def least_price(self, launch: Launch, state: State) -> Price:
        """Return what no schedule of a launch beats, or what its best takes where that is proved."""

    def floor_price(self, launch: Launch) -> Price:
        """Return what no schedule of a launch beats, whatever L2 holds."""


@dataclass(frozen=True)
class Decision:
    """The row that was decided for. `bound_us`: what no row of the lattice beats with any schedules of its space. `is_decided`: whether
    no row is faster with the schedules that searches find; else the deciding was ended, or rows were dropped. `rounds`: how often launches
    were timed, `timed`: how many."""

    row: Row
    bound_us: float
    is_decided: bool
    rounds: int
    timed: int

    @property
    def is_proved(self) -> bool:
        """Return whether no row takes less time with any schedules."""
        return self.row.is_exact and self.row.end_us <= self.bound_us


def decide_row(lattice: Lattice, prices: Prices, settle: Callable[[Sequence[Asked]], None], queue: Queue,
               ends: Callable[[], bool] = lambda: False, held: Held = (), most: int = MOST_KEPT) -> Decision:
    """Return the row that ends first. `settle` times launches, after which they are known; NEVER is known of one without a schedule.
    `ends` is asked before each round."""
    rounds = timed = 0
    is_open = False
    while True:
        row = find_cheapest(lattice, lambda a, s: prices.known_price(a, s) or prices.least_price(a, s), queue, held, most)
        unknown = list(dict.fromkeys(a for a in row.asked if prices.known_price(*a) is None))
        if not unknown:
            break
        if ends():
            is_open = True
            row = find_cheapest(lattice, lambda a, s: prices.known_price(a, s) or NEVER, queue, held, most)
            break
        settle(unknown)
        rounds, timed = rounds + 1, timed + len(unknown)
    bound = find_cheapest(lattice, prices.least_price, queue, held, most)
    if not bound.is_exact:
        bound = find_cheapest(lattice, lambda launch, _: prices.floor_price(launch), replace(queue, usable_bytes=0))
    return Decision(row, min(bound.end_us, row.end_us), row.is_exact and not is_open, rounds, timed)
