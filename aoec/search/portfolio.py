"""The portfolio: measures that a Gaussian process picks one at a time, most of them close to the leader, and between them generations of a
forest's and the process's predictions, neighbours of the best and children of the better.

Each alone loses somewhere: trees in smooth spaces, a Gaussian process in rugged ones, any model on a space with few good candidates that
nothing points at, breeding where each measure counts. Spaces of tilings, however rugged, have few local minima with regard to steps in one
hole, and each of them draws many candidates: so half of the picks are steps from a *leader*, the cheapest candidate that no measured
neighbour beats and that has a neighbour left. Once nothing beside it is left, the next is led from: a model that is wrong about a region
cannot keep the search there. A quarter of the picks are at most two steps from the leader, a quarter are out of all.

What a model's word costs it must win. A pick is one fit and a ranking of few, PICK_US. A generation with models is their fits and one
ranking, MODEL_US, whatever its size; so a generation is as large as keeps that below the time that its measures take (the first ones,
where each measure tells a model most, are half as large where that keeps it below too), and where it would be larger than LARGEST there
is no model at all: the search is genetic, whose proposals cost microseconds. A device, or anything that takes milliseconds a candidate,
gets the models.
"""
from __future__ import annotations

import math

import numpy as np

from aoec.search import gaussian
from aoec.search.forest import SMOOTH, Forest, Prior
from aoec.search.genetic import Genetic
from aoec.search.grid import Space
from aoec.search.pool import Pool
from aoec.search.strategy import Strategy
from aoec.search.table import Table

MODEL_US = 75_000.0  # both fits and one ranking of 18,000 candidates with 100 points, measured on one core of 2 GHz
PICK_US = 10_000.0  # a pick, the mean over the kinds of picks with 200 points, measured likewise
PICKS = 4  # between two generations
ANYWHERE, WIDER = 0.25, 0.25  # of the picks are out of all candidates, and out of those at most two steps from the leader
RANKED = 4096  # candidates that are ranked for a pick, at most: of more any
LEARNED = 256  # measures that a pick is learned from, at most
SLOTS = ("smooth", "mean", "smooth1", "smooth2", "bound2", "near", "rare", "child")
HALVES = ("smooth", "smooth2", "mean", "child"), ("smooth1", "bound2", "near", "rare")  # the same, in two generations
EARLY = 48  # measures in which models change most with each, and are looked at again after half a generation
LARGEST = 256


class Portfolio(Forest):
    """The strategy where measures are dear; `rounds` times SLOTS is a generation, 0: half of it while little is known; `picks` between two
    generations."""

    start = 12

    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None, prior: Prior | None = None, rounds: int = 0,
                 picks: int = PICKS) -> None:
        super().__init__(space, seed, pool, prior)
        self.slots, self.halved, self.picks = SLOTS * max(rounds, 1), not rounds, picks
        self._turns = 0
        self._settled: set[int] = set()  # ranks that lead no more: a neighbour is cheaper, or none is left

    def _slots(self) -> tuple[str, ...]:
        return HALVES[len(self.known) // len(HALVES[0]) % 2] if self.halved and len(self.known) < EARLY else super()._slots()

    def _next(self) -> list[int]:
        told = self._told()
        if len(self.known) >= self.start and told:
            self._turns += 1
            if self._turns % (self.picks + 1):
                return self._pick(told)
        return super()._next()

    def _pick(self, told: list[tuple[int, int]]) -> list[int]:
        """The candidate whose cost may be the lowest, by the Gaussian process; none where all are seen."""
        table = self._choice(told)
        if not len(table):
            return []
        known, logs = self._points(told, LEARNED)
        left, back = self._unexplained(known, logs, table)
        mean, spread = gaussian.predict(known, left, table)
        return [int(table.ranks[np.round(mean + back - SMOOTH["smooth2"] * spread, 5).argmin()])]  # ties stay ties on other machines

    def _choice(self, told: list[tuple[int, int]]) -> Table:
        """What a pick is made of: candidates one step from the leader, or two, or any."""
        chance = self.random.random()
        leader = None if chance < ANYWHERE else self._leader(told)
        if leader and chance >= ANYWHERE + WIDER:
            return self._columns.table(leader[1])
        table = self._unseen([rank for _, rank in told])
        if leader:
            rows = np.flatnonzero(table.steps(self._columns.table([leader[0]]).codes[0]) <= 2)
            return table.take(rows) if len(rows) else self._columns.table(leader[1])
        return table.take(np.sort(self.random.sample(range(len(table)), RANKED))) if len(table) > RANKED else table

    def _leader(self, told: list[tuple[int, int]]) -> tuple[int, list[int]] | None:
        """The cheapest candidate that no measured neighbour beats and that has others, and these; a neighbour differs in one hole."""
        for cost, rank in told:
            if rank in self._settled:
                continue
            lines = self.space.lines(self.space.at(rank))
            beaten = any((c, r) < (cost, rank) for r in lines if (c := self.known.get(r)) is not None)
            free = [] if beaten else self.pool.keep([r for r in lines if r not in self.seen and self.pool.holds(r)])
            if free:
                return rank, free
            self._settled.add(rank)
        return None


def portfolio(space: Space, seed: int = 0, pool: Pool | None = None, prior: Prior | None = None, measure_us: float = math.inf) -> Strategy:
    """The portfolio for measures that take that long each: with a model where that pays, else genetic."""
    rounds = math.ceil(MODEL_US / measure_us / len(SLOTS)) if measure_us * len(HALVES[0]) < MODEL_US else 0
    if rounds * len(SLOTS) > LARGEST:
        return Genetic(space, seed, pool)
    return Portfolio(space, seed, pool, prior, rounds, PICKS if measure_us >= PICK_US else 0)
