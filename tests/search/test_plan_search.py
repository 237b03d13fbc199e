"""The search of a plan over a lattice of launches, held against all its rows, each run through L2 as the model machine has it."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aoec.search.plans.cheapest import Price, Queue, end_after, find_cheapest
from aoec.search.plans.decide import NEVER, Asked, decide_row
from aoec.search.plans.lattice import Edge, Lattice, Launch
from aoec.search.plans.recency import State
from aoec.simulate.timing.state import Resident

PIECES = tuple("abcdef")
SIZES = {piece: size for piece, size in zip(PIECES, (1, 2, 3, 5, 8, 13))}


def price_of(launch: Launch, state: State) -> Price:
    """A time that depends on the work and on what L2 holds in any way whatever."""
    drawn = sha256(f"{launch.work} {sorted(state)}".encode()).digest()
    return Price(10 + drawn[0] / 16, 5 + drawn[1] / 16)


def bound_of(launch: Launch) -> Price:
    """What no price of a launch is below: half of the time in any state that random lattices have is not, 10 and 5 are."""
    return Price(10, 5)


@st.composite
def lattices(draw: st.DrawFn, most: int = 5) -> Lattice:
    """Lattices of a few places: a row from each place to the next, and steps that pass some."""
    places = draw(st.integers(2, most))
    steps = [(at, at + 1) for at in range(places - 1)]
    steps += draw(st.lists(st.tuples(st.integers(0, places - 1), st.integers(0, places - 1)).filter(lambda p: p[0] < p[1]), max_size=4))
    edges = []
    for start, end in steps:
        kind = draw(st.sampled_from(("launch", "launch", "launch", "view", "host")))
        some = st.lists(st.sampled_from(PIECES), max_size=2, unique=True)
        if kind == "launch":
            reads = tuple((f"x{i}", ((p, SIZES[p]),)) for i, p in enumerate(draw(some)))
            makes = tuple((f"y{i}", ((p, SIZES[p]),)) for i, p in enumerate(draw(some)))
            edges.append(Edge(start, end, Launch(draw(st.sampled_from("uvw")), reads, makes)))
        else:
            edges.append(Edge(start, end, None, tuple((p, SIZES[p]) for p in draw(some)) if kind == "host" else ()))
    return Lattice(places, tuple(edges))


def walk(lattice: Lattice, row: Sequence[int], usable: int) -> list[tuple[Launch, State]]:
    """The launches of a row with the states that they start from, by the L2 of the simulator."""
    l2, out = Resident(usable), []
    for number in row:
        edge = lattice.edges[number]
        if edge.launch is not None:
            state: dict[str, int] = {}
            for piece, size in l2.part(edge.launch.readers):
                for name in edge.launch.readers[piece]:
                    state[name] = size + state.pop(name, 0)
            out.append((edge.launch, tuple(state.items())))
        l2.touch(edge.touches)
    return out


def end_of(asked: Sequence[Asked], queue: Queue) -> float:
    """When the last of some launches ends."""
    end_us = 0.0
    for number, (launch, state) in enumerate(asked):
        end_us = end_after(end_us, number, price_of(launch, state), queue)
    return end_us


@settings(max_examples=400, deadline=None)
@given(lattices(), st.integers(1, 40), st.sampled_from((0.0, 6.0, 12.0)))
def test_the_cheapest_row_is_the_cheapest_of_all_rows(lattice: Lattice, usable: int, enqueue_us: float) -> None:
    queue = Queue(enqueue_us, usable)
    every = [end_of(walk(lattice, row, usable), queue) for row in lattice.rows()]
    assert len(every) == lattice.count_paths()
    found = find_cheapest(lattice, price_of, queue, most=10_000)
    assert found.is_exact
    assert found.end_us == pytest.approx(min(every))
    assert list(found.asked) == walk(lattice, found.edges, usable)  # the states are those of the simulator, in its order


@given(lattices(most=8), st.integers(1, 40))
def test_a_row_is_one_of_the_lattice_however_few_are_kept(lattice: Lattice, usable: int) -> None:
    queue = Queue(2.0, usable)
    found = find_cheapest(lattice, price_of, queue, most=1)
    assert found.edges in lattice.rows()
    assert found.end_us == pytest.approx(end_of(walk(lattice, found.edges, usable), queue))
    if found.is_exact:
        assert found.end_us == pytest.approx(min(end_of(walk(lattice, row, usable), queue) for row in lattice.rows()))


@dataclass
class Counted:
    """Prices that are known once they are asked for; `proved`: works whose times are the best."""

    proved: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()  # works that have no schedule
    there: dict[Asked, Price] = field(default_factory=dict)

    def known_price(self, launch: Launch, state: State) -> Price | None:
        return self.there.get((launch, state))

    def least_price(self, launch: Launch, state: State) -> Price:
        return self.there.get((launch, state), bound_of(launch)) if launch.work in self.proved else bound_of(launch)

    def floor_price(self, launch: Launch) -> Price:
        return bound_of(launch)

    def settle(self, asked: Sequence[Asked]) -> None:
        assert not self.there.keys() & set(asked), "what is known is not asked again"
        self.there |= {a: NEVER if a[0].work in self.without else price_of(*a) for a in asked}


@given(lattices(), st.integers(1, 40), st.sets(st.sampled_from("uvw")))
def test_deciding_finds_what_timing_all_would(lattice: Lattice, usable: int, proved: set[str]) -> None:
    queue, prices = Queue(1.0, usable), Counted(frozenset(proved))
    least_us = min(end_of(walk(lattice, row, usable), queue) for row in lattice.rows())
    made = decide_row(lattice, prices, prices.settle, queue, most=10_000)
    assert made.is_decided
    assert made.row.end_us == pytest.approx(least_us)
    assert made.bound_us <= made.row.end_us
    assert made.timed == len(prices.there)
    if proved >= set("uvw"):
        assert made.is_proved


@given(lattices(), st.integers(1, 40))
def test_rows_without_a_schedule_are_never_taken(lattice: Lattice, usable: int) -> None:
    queue, prices = Queue(1.0, usable), Counted(without=frozenset("u"))
    rows = [walk(lattice, row, usable) for row in lattice.rows()]
    legal = [end_of(r, queue) for r in rows if all(launch.work != "u" for launch, _ in r)]
    made = decide_row(lattice, prices, prices.settle, queue, most=10_000)
    assert made.row.end_us == pytest.approx(min(legal, default=float("inf")))


@given(lattices(), st.integers(1, 40), st.integers(0, 3))
def test_a_deciding_that_is_ended_takes_a_row_that_is_known(lattice: Lattice, usable: int, rounds: int) -> None:
    queue, prices = Queue(1.0, usable), Counted()
    own = tuple(lattice.outgoing[at][0] for at in range(lattice.places - 1))  # the row from each place to the next
    assume(all(lattice.edges[n].end == lattice.edges[n].start + 1 for n in own))
    prices.settle(list(dict.fromkeys(walk(lattice, own, usable))))
    left = iter(range(rounds))
    made = decide_row(lattice, prices, prices.settle, queue, ends=lambda: next(left, None) is None, most=10_000)
    assert made.row.end_us <= end_of(walk(lattice, own, usable), queue)
    assert all(a in prices.there for a in made.row.asked)
    assert made.rounds <= rounds
    again = decide_row(lattice, prices, prices.settle, queue, most=10_000)  # what was timed is not timed again
    assert again.row.end_us <= made.row.end_us


def test_an_edge_leads_to_a_later_place() -> None:
    with pytest.raises(ValueError, match="from 1 to 0"):
        Lattice(2, (Edge(1, 0),))
