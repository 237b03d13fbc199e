"""One func on one machine in one memory state: its space, the cost of candidates, its default, its best.

A sketch is scheduled, emitted and encoded once; candidates are rows of hole values timed in batches (design section 5).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aoec import primitives
from aoec.base.errors import AoecError, UnsupportedError
from aoec.ir.program import Program
from aoec.ir.rewrite import fill, normalise
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.ir.tir import Func
from aoec.jobs.trust import Trust
from aoec.lowering.emit import emit
from aoec.search.bounds import Bound, bound, size_bytes
from aoec.search.count import few, some
from aoec.search.default import Found, default, settle
from aoec.search.grid import Candidate, Grid, Rows, Space
from aoec.search.pool import Listed, Pool
from aoec.search.restrict import NONE, Restriction, restricted
from aoec.search.run import Result, steps
from aoec.search.sketches import sketches
from aoec.search.strategies import make
from aoec.search.trials import Ledger
from aoec.simulate.encode import Encoded, encode
from aoec.simulate.state import PREVIOUS_LAUNCH, State
from aoec.simulate.tables import first_false
from aoec.simulate.time import time_rows
from aoec.target.machine import Machine

MODELLED_US = 30.0  # that a modelled time takes, about, as bench/throughput.py says: it tells a strategy what a proposal may cost
SMALL = 8192  # legal candidates that are all tried: in large batches, which costs no more than 2,000 in the small ones of a strategy
LISTABLE = 1 << 22  # candidates of a space that is counted before a search, which takes a twentieth of a second; a restricted one always is
LISTED = 1 << 16  # legal candidates of a restricted space that are listed for the strategies to propose from
DRAWN = 256  # candidates of a sketch, where the default's short list has no legal one
SETTLED = 3  # sketches whose cheapest are settled at the end: the one that led so far is not always the one that ends best


@dataclass(frozen=True)
class Sketch:
    """A trace with holes, and what it becomes: the program with the same holes, encoded for the timeline. `number`: among all that are
    laid out, of which a user may have left some."""

    trace: Trace
    program: Program
    encoded: Encoded
    number: int


@dataclass
class Problem:
    """`costs` remembers what was timed: a default's shortlist is not timed again by the search. `known`: what was when the search began;
    `ledger`: what became of each."""

    func: Func
    machine: Machine
    state: State
    sketches: list[Sketch]
    refused: list[str]
    space: Space
    costs: dict[Candidate, int | None] = field(default_factory=dict)
    known: frozenset[Candidate] = frozenset()
    restriction: Restriction = NONE
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.space)

    def cost(self, candidates: Sequence[Candidate]) -> list[int | None]:
        """Modelled ticks of each candidate, launch included; None where it is illegal."""
        new = [c for c in dict.fromkeys(candidates) if c not in self.costs]
        self.ledger.note_cached(c for c in candidates if c in self.known and self.costs[c] is not None)
        for grid, places, columns in self.space.slabs(new):
            for place, ticks in zip(places, self._time(grid, columns)):
                self.costs[new[place]] = ticks
        return [self.costs[c] for c in candidates]

    def _time(self, grid: int, columns: Rows) -> list[int | None]:
        times = time_rows(self.sketches[grid].encoded, columns, self.state)
        self.ledger.note(grid, columns, times.total_ticks, times.status)
        return [ticks if status == 0 else None for ticks, status in zip(times.total_ticks.tolist(), times.status.tolist())]

    def legal(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Whether each candidate keeps every constraint of its program."""
        out = [False] * len(candidates)
        for grid, places, columns in self.space.slabs(candidates):
            for place, status in zip(places, first_false(self.sketches[grid].encoded, columns, len(places))):
                out[place] = not status
        return out

    def some(self) -> list[Candidate]:
        """Legal candidates of each sketch that has any, drawn from all of its own."""
        grids = enumerate(zip(self.space.grids, self.sketches))
        return [(i, v) for i, (grid, s) in grids for v in some(grid, [c.condition for c in s.program.constraints], DRAWN)]

    def pool(self) -> Pool | None:
        """The legal candidates, where they may be few and are; None where they are not."""
        if self.space.size > LISTABLE and self.restriction == NONE:
            return None
        most, ranks = SMALL if self.restriction == NONE else LISTED, list[int]()
        for start, grid, s in zip(self.space.starts, self.space.grids, self.sketches):
            some = few(grid, [c.condition for c in s.program.constraints], most - len(ranks))
            if some is None:
                return None
            ranks += [start + r for r in some.tolist()]
        return Listed(self.space, ranks)

    def filter(self, strategy: str) -> Pool | None:
        """What refuses illegal candidates to a strategy whose proposals cost more than to ask whether they are legal; None for others,
        which learn it with the times: asking costs as much as timing."""
        return Pool(self.space, self.legal) if strategy in ("pool", "bayes") else None

    def leaders(self) -> list[Found]:
        """The cheapest timed candidate of each sketch, cheapest first."""
        found: dict[int, Found] = {}
        for c, ticks in self.costs.items():
            if ticks is not None:
                found[c[0]] = min((ticks, c), found.get(c[0], (ticks, c)))
        return sorted(found.values())

    def bound(self) -> Bound:
        found = {b.name: size_bytes(b) for b in self.func.inputs} if self.state == PREVIOUS_LAUNCH else dict(self.state)
        return bound(self.func, self.machine, found)

    def values(self, candidate: Candidate) -> dict[str, int]:
        grid, values = candidate
        return dict(zip(self.space.grids[grid].names, values))

    def trace(self, candidate: Candidate) -> Trace:
        """The candidate as a trace without holes."""
        return fill(self.sketches[candidate[0]].trace, self.values(candidate))

    def program(self, candidate: Candidate) -> Program:
        """The candidate's program: holes filled after emission, in normal form."""
        return normalise(fill(self.sketches[candidate[0]].program, self.values(candidate)))


def problem(func: Func, machine: Machine, state: State = (), traces: Sequence[Trace] | None = None,
            restriction: Restriction = NONE) -> Problem:
    """The tuning problem of an unscheduled func over all its sketches, or over given ones, and what a user leaves of them;
    UnsupportedError where none can be emitted."""
    kept, refused = [], []
    for number, trace in enumerate(restricted(sketches(func, machine) if traces is None else traces, restriction)):
        if trace is None:
            continue
        try:
            program = restriction.on(emit(primitives.apply(func, trace), machine))
            kept.append(Sketch(trace, program, encode(program, machine), number))
        except AoecError as e:
            refused.append(str(e))
    if not kept:
        raise UnsupportedError(f"func {func.name} has no schedule on {machine.name}: {refused[0] if refused else 'no sketch rule fits it'}")
    grids = tuple(Grid(tuple(h), tuple(h.values())) for h in (holes_of(s.trace) for s in kept))
    return Problem(func, machine, state, kept, refused, Space(grids), restriction=restriction)


@dataclass(frozen=True)
class Outcome:
    """`best` is `default` where nothing was searched; ticks are modelled, with launch."""

    default: Candidate
    default_ticks: int
    best: Candidate
    ticks: int
    bound_ticks: int
    trials: int = 0
    illegal: int = 0
    proof: str = ""
    trust: Trust | None = None  # of best against default, where they differ and were timed again


Budget = tuple[str, float]  # ("trials" | "seconds", amount)
Watch = Callable[[Result], bool]  # told of each batch; True stops the search with what it has


def start(p: Problem) -> Outcome:
    """The default schedule, timed; ScheduleError where no candidate of the space is legal."""
    ticks, first = default(p.space, p.cost, p.legal, p.some)
    return Outcome(first, ticks, first, ticks, min(p.bound().ticks, ticks))


def search(p: Problem, first: Outcome, strategy: str, budget: Budget, seed: int, watch: Watch = lambda r: False) -> Outcome:
    """The best that a strategy finds within the budget, the default being candidate 0; never slower than it.

    A space of at most SMALL legal candidates is searched whole, whatever the strategy. A strategy is told the cheapest
    of each sketch that the default was chosen from. What was found is settled at the end, and beside it the cheapest of other
    sketches: every hole and pair of holes at its best in turn; none of that is counted in the trials.
    """
    p.known = frozenset(p.costs)
    kind, amount = budget
    limits = {"budget_trials": int(amount)} if kind == "trials" else {"budget_seconds": float(amount)}
    pool = p.pool()
    if (p.space if pool is None else pool).size <= SMALL:
        strategy, limits = "exhaustive", {}
    result, stopped, asked = Result(), False, make(strategy, p.space, seed, pool or p.filter(strategy), measure_us=MODELLED_US)
    if limits:  # else all are tried, and counted
        known = [(ticks, c) for ticks, c in p.leaders() if c != first.default]
        asked.tell([c for _, c in known], [ticks for ticks, _ in known])
    for result in steps(asked, p.cost, legal=p.legal, floor=first.bound_ticks, first=first.default, **limits):  # type: ignore[arg-type]
        if stopped := watch(result):
            break
    assert result.best is not None and result.cost is not None
    found = list(dict.fromkeys([(result.cost, result.best), *p.leaders()[:SETTLED]]))
    ticks, best = min(found, key=lambda f: f[0]) if result.closed or stopped else settle(p.space, found, p.cost)
    p.known = frozenset()
    return Outcome(first.default, first.default_ticks, best, ticks, first.bound_ticks, result.trials, result.illegal,
                   result.stopped if result.closed else "")
