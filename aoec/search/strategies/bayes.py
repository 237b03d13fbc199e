"""Bayesian search: a forest of scikit-optimize predicts cost and doubt; the most promising unseen candidates are asked for.

The surrogate is scikit-optimize's extra-trees regressor with expected improvement on log cost. Trees take sketches and holes of any number
in one model and stay cheap. They add no matrix products, whose rounding differs between machines, so the same seed gives the same proposals
everywhere. For the same reason the search's time is bounded by counts and not by a clock. A generation grows with what is known, and the
points and the pool are capped.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from aoec.search.space.grid import Space
from aoec.search.space.pool import Pool
from aoec.search.strategies.strategy import Cost, Strategy

FIRST = 32  # random candidates before the first model
POINTS = 512  # given to the model: the best half, the others spread over the rest
POOL = 512  # random candidates ranked by the model, beside the neighbours of the best
LEADERS = 24  # whose neighbours are ranked
TREES = 40


class Bayes(Strategy):
    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None) -> None:
        super().__init__(space, seed, pool)
        self.known: dict[int, Cost] = {}
        self._names = sorted({name for g in space.grids for name in g.names})

    def _learn(self, rank: int, cost: Cost) -> None:
        self.known[rank] = cost

    def _next(self) -> list[int]:
        legal = sorted((cost, rank) for rank, cost in self.known.items() if cost is not None)
        if len(self.known) < FIRST or not legal:
            return self._strangers(FIRST, set())
        size = max(FIRST // 2, min(len(self.known) // 8, 4 * FIRST))
        pool = self._pool([rank for _, rank in legal[:LEADERS]])
        ranks = self._rank_pool(pool, legal)[:size - size // 4]
        return ranks + self._strangers(size // 4, set(ranks))

    def _pool(self, leaders: list[int]) -> list[int]:
        """Return unseen candidates worth ranking: some beside the leaders, and some from anywhere."""
        lines = [n for rank in leaders for n in self.space.neighbours(self.space.at(rank)) if n not in self.seen]
        near = [n for n in lines if self.pool.holds(n)]
        return sorted(self.pool.keep(list({*near, *self._strangers(POOL // 2, set(near)), *self._draw_many(POOL // 2)})))

    def _rank_pool(self, pool: list[int], legal: list[tuple[int, int]]) -> list[int]:
        """Sort the pool by expected improvement, best first."""
        if not pool:  # what has not been seen is illegal
            return []
        from skopt.acquisition import gaussian_ei  # a second of import that the other strategies do not pay

        ranks, costs = self._points(legal)
        model = _forest(self.random.randrange(2**31)).fit(self._features(ranks), costs)
        promise = gaussian_ei(self._features(pool), model, y_opt=min(costs))
        return [pool[i] for i in np.argsort(-promise, kind="stable")]

    def _points(self, legal: list[tuple[int, int]]) -> tuple[list[int], list[float]]:
        """Return ranks and log costs for the model; illegal ones cost more than the worst legal one."""
        worst = math.log(legal[-1][0] + 1) + 1.0
        points = [(math.log(cost + 1), rank) for cost, rank in legal]
        points += [(worst, rank) for rank, cost in self.known.items() if cost is None]
        best, rest = points[:POINTS // 2], points[POINTS // 2:]
        points = best + rest[::max(1, math.ceil(2 * len(rest) / POINTS))]
        return [rank for _, rank in points], [cost for cost, _ in points]

    def _features(self, ranks: list[int]) -> np.ndarray:
        """Return one row per candidate: its grid, one column each, and its holes by name, log scale, -1 where it has none."""
        table = np.full((len(ranks), len(self.space.grids) + len(self._names)), -1.0)
        table[:, :len(self.space.grids)] = 0.0
        for grid, at, columns in self.space.slabs([self.space.at(r) for r in ranks]):
            table[at, grid] = 1.0
            for name, values in columns.items():
                table[at, len(self.space.grids) + self._names.index(name)] = np.log2(1.0 + np.maximum(values, 0))
        return table


def _forest(seed: int) -> Any:
    from skopt.learning import ExtraTreesRegressor

    return ExtraTreesRegressor(n_estimators=TREES, min_samples_leaf=2, min_variance=1e-6, random_state=seed, n_jobs=1)
