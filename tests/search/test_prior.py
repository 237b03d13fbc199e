"""A model's costs as a prior for a device: a machine whose numbers are off, of which only measures are told."""
from __future__ import annotations

import math
from statistics import median

import pytest

from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem
from aoec.search.space.grid import Candidate, Grid, Space
from aoec.search.space.pool import Listed
from aoec.search.strategies.strategies import make
from aoec.target.machine import load
from aoec.target.vary import vary_machine

BUDGET = 64


def measures_until(p: Problem, device: Problem, ranks: list[int], seed: int, prior: bool) -> int:
    """How many measures on the device it takes to come within 2 % of the best of the listed candidates."""
    goal = 1.02 * min(t for t in device.cost([p.space.at(r) for r in ranks]) if t is not None)
    strategy, count = make("portfolio", p.space, seed, Listed(p.space, ranks), p.cost if prior else None), 0
    while count < BUDGET:
        batch = strategy.ask(8)
        times = device.cost(batch)
        strategy.tell(batch, times)
        for time in times:
            count += 1
            if time is not None and time <= goal:
                return count
    return BUDGET


def test_a_prior_saves_measures_on_a_device_that_differs_from_its_model() -> None:
    func, machine = lower_operator("softmax(m=1024, n=768)"), load("Ascend910B3")
    p, device = problem(func, machine), problem(func, vary_machine(machine, 5))
    some = range(0, p.space.size, 3)
    ranks = [r for r, legal in zip(some, p.legal([p.space.at(r) for r in some])) if legal]
    with_prior, without = ([measures_until(p, device, ranks, seed, prior) for seed in range(3)] for prior in (True, False))
    assert median(with_prior) < median(without) and max(with_prior) <= 24, (with_prior, without)


@pytest.mark.parametrize("name", ["pool", "portfolio"])
def test_a_prior_that_is_wrong_or_says_nothing_only_costs_a_beginning(name: str) -> None:
    """The model learns costs and not the prior's error where that explains nothing; all of the pool is still proposed, each once."""
    space = Space((Grid(("a", "b"), (tuple(range(1, 17)), tuple(range(1, 9)))),))

    def cost(candidates: list[Candidate]) -> list[int | None]:
        return [round(1000 * (2 + math.log2(a * b / 64) ** 2)) for _, (a, b) in candidates]

    for prior in (lambda cs: [None] * len(cs), lambda cs: [10**9 // c for c in cost(cs)]):
        strategy, told = make(name, space, 0, None, prior), []
        while batch := strategy.ask(16):
            strategy.tell(batch, cost(batch))
            told += batch
        assert len(set(told)) == len(told) == space.size
        assert min(cost(told[:space.size // 3])) == min(cost(told))
