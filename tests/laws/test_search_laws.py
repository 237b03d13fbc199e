"""Laws of spaces and strategies, on generated spaces and landscapes."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import ScheduleError
from aoec.search.space.grid import Candidate, Grid, Space
from aoec.search.space.pool import Listed, Pool
from aoec.search.strategies.run import run
from aoec.search.strategies.strategies import STRATEGIES, make

choices = st.lists(st.integers(0, 512), min_size=1, max_size=6, unique=True).map(tuple)
grids = st.lists(choices, max_size=4).map(lambda cs: Grid(tuple(f"h{i}" for i in range(len(cs))), tuple(cs)))
spaces = st.lists(grids, min_size=1, max_size=4).map(lambda gs: Space(tuple(gs)))
quick = st.sampled_from(["exhaustive", "random", "genetic", "annealing"])
names = st.one_of(quick, quick, quick, st.sampled_from(sorted(STRATEGIES)))  # a model costs more than the others


def landscape(space: Space, seed: int):
    """A random landscape with illegal regions; costs repeat, so that ties occur."""
    def cost(candidates: Sequence[Candidate]) -> list[int | None]:
        out: list[int | None] = []
        for c in candidates:
            draw = int(np.random.default_rng([seed, space.rank(c)]).integers(0, 12))
            out.append(None if draw < 4 else draw)
        return out
    return cost


@given(spaces, st.data())
def test_rank_and_at_are_inverse(space, data):
    rank = data.draw(st.integers(0, space.size - 1))
    assert space.rank(space.at(rank)) == rank


@given(spaces)
def test_canonical_order_enumerates_each_candidate_once(space):
    everything = [space.at(r) for r in range(space.size)]
    assert len(set(everything)) == space.size == sum(g.size for g in space.grids)
    assert [g for g, _ in everything] == sorted(g for g, _ in everything)


@given(spaces, st.data())
def test_rows_are_the_values_of_the_ranks(space, data):
    grid = data.draw(st.integers(0, len(space.grids) - 1))
    start = data.draw(st.integers(0, space.grids[grid].size))
    rows = space.rows(grid, start, start + 7)
    wanted = [space.grids[grid].values(r) for r in range(start, min(start + 7, space.grids[grid].size))]
    assert list(zip(*[c.tolist() for c in rows.values()])) == (wanted if rows else [])


@given(spaces, st.data())
def test_slabs_hold_every_candidate_at_its_place(space, data):
    candidates = [space.at(data.draw(st.integers(0, space.size - 1))) for _ in range(9)]
    back: dict[int, Candidate] = {}
    for grid, at, rows in space.slabs(candidates):
        for i, place in enumerate(at):
            back[place] = (grid, tuple(int(c[i]) for c in rows.values()))
    assert [back[i] for i in range(9)] == candidates


@settings(max_examples=40, deadline=None)
@given(names, spaces, st.integers(0, 99), st.integers(0, 99), st.data())
def test_proposals_never_repeat_and_do_not_depend_on_how_many_are_asked_for(name, space, seed, terrain, data):
    cost, streams = landscape(space, terrain), []
    for _ in range(2):
        strategy, stream = make(name, space, seed), []
        while len(stream) < 150 and (batch := strategy.ask(data.draw(st.integers(1, 40)))):
            strategy.tell(batch, cost(batch))
            stream += batch
        streams.append(stream)
        assert len(set(stream)) == len(stream)
        assert len(stream) >= min(150, space.size)
    assert all(a == b for a, b in zip(*streams))


@settings(max_examples=40, deadline=None)
@given(names, spaces, st.integers(0, 99), st.integers(0, 99), st.data())
def test_a_pool_is_proposed_whole_and_nothing_else(name, space, seed, terrain, data):
    """Listed, filtered or both as one: the same legal candidates, each once, however many are asked for; what fails is not tried again."""
    cost, sparse = landscape(space, terrain), data.draw(st.integers(1, 5))
    ranks = range(0, min(space.size, 4000), sparse)
    legal = {space.at(r) for r in ranks}
    pools = (lambda: Listed(space, ranks), lambda: Listed(space, ranks), lambda: Pool(space, lambda cs: [c in legal for c in cs]))
    streams = []
    for pool, often in zip(pools, data.draw(st.permutations([1, 7, 40]))):
        strategy, stream = make(name, space, seed, pool()), []
        while len(stream) < 100 and (batch := strategy.ask(often)):
            strategy.tell(batch, cost(batch))
            stream += batch
        streams.append(stream)
        assert len(set(stream)) == len(stream) >= min(100, len(legal)) and legal.issuperset(stream)
        assert strategy.is_finished == (len(stream) == len(legal)) or pool is pools[2]
    assert all(a == b for a, b in zip(*streams[:2]))


@settings(max_examples=40, deadline=None)
@given(names, spaces, st.integers(0, 99), st.integers(0, 99), st.integers(1, 60), st.data())
def test_a_search_keeps_its_budget_its_default_and_the_best_it_saw(name, space, seed, terrain, budget, data):
    first = space.at(data.draw(st.integers(0, space.size - 1)))
    cost, told = landscape(space, terrain), {}
    def keep(candidates):
        told.update(zip(candidates, cost(candidates)))
        return [told[c] for c in candidates]
    try:
        result = run(make(name, space, seed), keep, budget_trials=budget, first=first)
    except ScheduleError:
        assert all(c is None for c in told.values()) and len(told) == space.size
        return
    legal = [c for c in told.values() if c is not None]
    assert next(iter(told)) == first and result.trials == len(legal) <= budget and result.cost == min(legal)
    assert told[result.best] == result.cost and (told[first] != result.cost or result.best == first)
    assert result.is_proved == (len(told) == space.size)
    assert [c for _, c in result.history] == sorted({c for _, c in result.history}, reverse=True)
