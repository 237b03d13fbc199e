"""Flags of a stream: their ids between pairs of pipes, and those that are set before its loops and waited for behind them."""
from __future__ import annotations

from aoec.ir.index import Expr, Int, Var, normalise
from aoec.ir.program import For, Item, SetFlag, WaitFlag

# a pair of pipes that no flag stands between -> the pipe through which one reaches the other (Ascend C, synchronisation within a core: the
# cube core has no event between MTE2 and FIX)
THROUGH = {("MTE2", "FIXP"): "MTE1", ("FIXP", "MTE2"): "MTE1"}


class Flags:
    """Ids of the flags between pairs of pipes, and the give-back flags to set before the loops and wait for after them."""

    def __init__(self) -> None:
        self.used: dict[tuple[str, str], Expr] = {}
        self.free: list[tuple[str, str, Expr, Expr]] = []
        self.counted: list[str] = []
        self.begin: list[Item] = []  # of flags between streams
        self.end: list[Item] = []
        self.loads: dict[str, Expr] = {}  # counters of loads that are issued ahead, and their depths

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(self.used)

    def ids(self, pair: tuple[str, str]) -> Expr:
        return self.used[pair]

    def take(self, source: str, target: str, depth: Expr) -> Expr:
        """Return the first of `depth` new ids of a pipe pair."""
        base = self.used.get((source, target), Int(0))
        self.used[source, target] = base + depth
        return base

    def between(self, source: str, target: str, depth: Expr, slot: Expr) -> tuple[SetFlag, list[Item], Expr]:
        """Return three things: what the source pipe sets, what stands before the target, and the first id that is set. Before the target
        stands a wait, or waits through a pipe between."""
        through = THROUGH.get((source, target))
        base = self.take(source, through or target, depth)
        given = normalise(base + slot)
        found: list[Item] = [WaitFlag(source, through or target, given)]
        if through:
            more = normalise(self.take(through, target, depth) + slot)
            found += [SetFlag(through, target, more), WaitFlag(through, target, more)]
        return SetFlag(source, through or target, given), found, base

    def before(self) -> list[Item]:
        """Set every give-back flag."""
        return [*[For(v, depth, (SetFlag(s, t, id),)) for v, s, t, id, depth in self._each("preset")], *self.begin]

    def after(self) -> list[Item]:
        """Wait for every give-back flag, so that none is left set."""
        return [*[For(v, depth, (WaitFlag(s, t, id),)) for v, s, t, id, depth in self._each("drain")], *self.end]

    def _each(self, stem: str) -> list[tuple[str, str, str, Expr, Expr]]:
        return [(f"{stem}_{i}", s, t, normalise(base + Var(f"{stem}_{i}")), depth) for i, (s, t, base, depth) in enumerate(self.free)]
