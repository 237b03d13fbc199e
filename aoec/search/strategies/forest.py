"""A forest of trees predicts cost and doubt over the legal candidates that were not tried. The strategy asks for the most promising of
them, and for neighbours of the best.

Trees take sketches and holes of any number in one model, need no scale and no kernel, and learn 200 points in 25 ms. They add no matrix
products, whose rounding differs between machines, so the same seed gives the same proposals everywhere. They are scikit-learn's extremely
randomised trees (Geurts, Ernst, Wehenkel 2006), on the logarithm of cost. What failed costs as much as the worst.

A caller that has a model of the cost passes it as `prior`, which gives the cost of any candidates. Half of the first generation are the
cheapest candidates by it, and the trees see it as a feature. The prior explains what was measured where measured over predicted spreads
less than measured. There the trees learn only the model's error, so a device is learned with few measures.

A generation is a few *slots*, filled one after another:
- `mean` takes the lowest prediction.
- `bound` takes the lowest of prediction less spread of the trees (`bound2`: twice the spread).
- `smooth`, `smooth1` and `smooth2` take the same of a Gaussian process.
- `near` takes a neighbour of one of the leaders, `child` a candidate between two of the better.
- `rare` takes the best predicted with a value that was hardly tried, `random` any candidate.

The last four serve where a model is wrong and does not know it.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from aoec.search.space.grid import Candidate, Space
from aoec.search.space.pool import Pool
from aoec.search.strategies import gaussian
from aoec.search.strategies.moves import beside, between, mutants, rarest
from aoec.search.strategies.strategy import Cost, Strategy
from aoec.search.strategies.table import Columns, Table

TREES = 40
LEADERS = 3  # whose neighbours are tried
PARENTS = 12  # of which children are bred
POINTS = 1024  # given to the model: the best half, the others spread over the rest
GROWTH = 128  # trials for which a generation has all its slots once more: what is fitted often must be cheap beside what is known
ROWS = 20_000  # of a pool of at most so many the model ranks all; of a larger one DRAWN: half at random, half bred, and lines of the best
DRAWN = 4096

Prior = Callable[[Sequence[Candidate]], Sequence[Cost]]  # what a model says that candidates cost; None: nothing, or that they are illegal
DOUBT = {"mean": 0, "bound": 1, "bound2": 2}  # slot -> how much of the trees' spread is taken off
SMOOTH = {"smooth": 0, "smooth1": 1, "smooth2": 2}  # slot -> how much of the Gaussian process's spread is taken off
SPLITS = 40  # features looked at for a split, at most


class Forest(Strategy):
    """The strategy `pool`."""

    start = 16  # random candidates before the first model
    slots: tuple[str, ...] = ("mean", "bound", "bound2", "bound", "near", "near", "near", "random")

    def __init__(self, space: Space, seed: int = 0, pool: Pool | None = None, prior: Prior | None = None) -> None:
        super().__init__(space, seed, pool)
        self.prior = prior
        self._priors: dict[int, float] = {}  # rank -> log of the prior, infinite where it says nothing
        self.known: dict[int, Cost] = {}
        self._columns = Columns(space)
        self._all: Table | None = None

    def _learn(self, rank: int, cost: Cost) -> None:
        self.known[rank] = cost

    def _next(self) -> list[int]:
        told = sorted((cost, rank) for rank, cost in self.known.items() if cost is not None)
        if len(self.known) < self.start or not told:
            return self._first()
        best, slots = [rank for _, rank in told], self._slots()
        table = self._unseen(best)
        if not len(table):
            return []
        known, logs = self._points(told)
        left, back = self._residuals(known, logs, table)
        tried = self._columns.table(list(self.known)).codes
        generation = Generation(self, table, self._columns.table(best[:PARENTS]), tried, self._trees(known, left, table) + back)
        if SMOOTH.keys() & set(slots):
            mean, spread = gaussian.predict(known, left, table)
            generation.smooth = mean + back, spread
        return generation.fill(slots)

    def _slots(self) -> tuple[str, ...]:
        """Return what the next generation is made of."""
        return self.slots * max(1, len(self.known) // GROWTH)

    def _first(self) -> list[int]:
        """Return candidates to begin with: any, and where there is a prior as many that are cheap by it."""
        if self.prior is None:
            return self._draw_many(self.start)
        table = self._unseen([])
        cheap = np.argsort(self._log_priors(table), kind="stable")[:self.start // 2]
        ranks = [int(r) for r in table.ranks[cheap]]
        return ranks + self._draw_many(self.start - len(ranks), set(ranks))

    def _log_priors(self, table: Table) -> np.ndarray:
        """Return the logarithm of the prior of each row. Where the prior says nothing it is the largest that it said."""
        ranks = table.ranks.tolist()
        new = [r for r in ranks if r not in self._priors]
        if new and self.prior is not None:
            costs = self.prior([self.space.at(r) for r in new])
            self._priors.update((r, math.inf if c is None else math.log(c + 1)) for r, c in zip(new, costs))
        said = np.array([self._priors[r] for r in ranks])
        return np.where(np.isfinite(said), said, max((p for p in self._priors.values() if p < math.inf), default=0.0))

    def _unseen(self, best: list[int]) -> Table:
        """Return candidates to choose from: legal and not seen; all of a listed pool that is small enough."""
        if self.pool.size > ROWS:
            lines = [r for rank in best[:LEADERS] for r in self.space.lines(self.space.at(rank))]
            bred = [r for rank in best[:PARENTS] for r in mutants(self.space, rank, DRAWN // 2 // PARENTS, self.random)]
            near = [r for r in (*lines, *bred) if self.pool.holds(r)]
            ranks = {*near, *self._strangers(DRAWN // 2, set(near))}
            return self._columns.table(sorted(self.pool.keep([r for r in ranks if r not in self.seen])))
        if self._all is None:
            self._all = self._columns.table(self.pool.keep([self.pool.at(place) for place in range(self.pool.size)]))
        self._all = self._all.take(np.array([r not in self.seen for r in self._all.ranks.tolist()], dtype=bool))
        return self._all

    def _residuals(self, known: Table, logs: np.ndarray, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """Return (what models learn of log costs, what is added to their predictions): all and 0, or the error of a prior and the prior."""
        if self.prior is None or np.std(logs - self._log_priors(known)) >= np.std(logs):
            return logs, np.zeros(len(table))
        return logs - self._log_priors(known), self._log_priors(table)

    def _trees(self, known: Table, logs: np.ndarray, table: Table) -> np.ndarray:
        """Return float[tree, row]: what each tree of a forest predicts."""
        from sklearn.ensemble import ExtraTreesRegressor  # a second of import that other strategies do not pay

        learned, asked = known.features, table.features
        if self.prior is not None:
            learned, asked = (np.column_stack([t.features, self._log_priors(t)]).astype(np.float32) for t in (known, table))
        model = ExtraTreesRegressor(TREES, max_features=min(SPLITS, learned.shape[1]), random_state=self.random.randrange(1 << 31))
        model.fit(learned, logs)
        asked = np.ascontiguousarray(asked)
        return np.array([tree.tree_.predict(asked)[:, 0] for tree in model.estimators_])

    def _points(self, told: list[tuple[int, int]]) -> tuple[Table, np.ndarray]:
        """Return what the model learns from: candidates, cheapest first and then those that failed, and their log costs."""
        points = [(math.log(cost + 1), rank) for cost, rank in told]
        points += [(points[-1][0], rank) for rank, cost in self.known.items() if cost is None]
        half = POINTS // 2
        points = points[:half] + points[half::max(1, math.ceil((len(points) - half) / half))]
        return self._columns.table([rank for _, rank in points]), np.array([log for log, _ in points])


class Generation:
    """Rows of a table, chosen one after another; each once."""

    def __init__(self, strategy: Strategy, table: Table, leaders: Table, tried: np.ndarray, predictions: np.ndarray) -> None:
        self.random, self.table, self.leaders, self.tried = strategy.random, table, leaders, tried
        self.mean = np.round(predictions.mean(axis=0), 9)  # sums may be taken in another order elsewhere: ties stay ties
        self.spread = np.round(predictions.std(axis=0), 9)
        self.smooth = self.mean, self.spread  # of a Gaussian process, where one is asked
        self.free = np.ones(len(table), dtype=bool)

    def fill(self, slots: tuple[str, ...]) -> list[int]:
        """Return the ranks that the slots take, fewer where the table is used up."""
        ranks = []
        for slot in slots[:len(self.table)]:
            row = self._row(slot)
            self.free[row] = False
            self.tried = np.vstack([self.tried, self.table.codes[row]])
            ranks.append(int(self.table.ranks[row]))
        return ranks

    def _row(self, slot: str) -> int:
        """Return the free row that a slot takes."""
        if slot in DOUBT:
            return int(np.where(self.free, self.mean - DOUBT[slot] * self.spread, np.inf).argmin())
        if slot in SMOOTH:
            mean, spread = self.smooth
            return int(np.where(self.free, np.round(mean - SMOOTH[slot] * spread, 5), np.inf).argmin())
        row = None
        if slot == "near":
            leader = self.random.randrange(min(LEADERS, len(self.leaders)))
            row = beside(self.table, self.free, self.leaders.codes[leader], self.random)
        elif slot == "child":
            row = between(self.table, self.free, (self._parent(), self._parent()), self.random)
        elif slot == "rare":
            row = rarest(self.table, self.free, self.tried, self.mean, self.random)
        rows = np.flatnonzero(self.free)
        return int(rows[self.random.randrange(len(rows))]) if row is None else row

    def _parent(self) -> np.ndarray:
        """Return the codes of one of the leaders, the better ones oftener."""
        return np.asarray(self.leaders.codes[int(self.random.betavariate(1, 2.5) * len(self.leaders))])
