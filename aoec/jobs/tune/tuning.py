"""One func on one machine in one memory state: its space, the cost of candidates, its default, its best.

A sketch is scheduled, emitted and encoded once; candidates are rows of hole values timed in batches (design section 5).
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from math import inf

import numpy as np

from aoec import primitives
from aoec.base.errors import AoecError, UnsupportedError
from aoec.base.process.garbage import seldom_collected
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.func.tir import Func
from aoec.ir.index import Expr
from aoec.ir.program import PIPES, Program
from aoec.ir.rewrite import fill, normalise
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.jobs.tune.answers import Answers
from aoec.jobs.tune.budget import SMALL, Budget, Limits, Spent, Until, limits, seconds_of
from aoec.jobs.tune.sketch import Sketch
from aoec.jobs.tune.trust import Trust
from aoec.lowering.emit.emit import emit
from aoec.search.default.default import Found, default, settle
from aoec.search.proof.bounds import Bound, bound, size_bytes
from aoec.search.proof.prove import Proof, prove
from aoec.search.sketches.sketches import sketches
from aoec.search.space.alike import Ceiling
from aoec.search.space.draws import few, some
from aoec.search.space.grid import NEVER, Candidate, Grid, Rows, Space
from aoec.search.space.pool import Listed, Pool
from aoec.search.space.restrict import NONE, Restriction, restrict_sketches
from aoec.search.space.trials import Ledger, Phase
from aoec.search.strategies.run import Result, steps
from aoec.search.strategies.strategies import make
from aoec.search.strategies.strategy import Strategy
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.sizes import VARIES
from aoec.simulate.encode.tables import first_false
from aoec.simulate.timing.floors import alone_rows, floor_parts, floor_rows, placed_rows, work_parts
from aoec.simulate.timing.state import PREVIOUS_LAUNCH, State
from aoec.simulate.timing.time import ABANDONED, time_rows
from aoec.simulate.timing.totals import units_of
from aoec.target.machine import Machine

MODELLED_US = 30.0  # that a modelled time takes, about, as bench/throughput.py says: it tells a strategy what a proposal may cost
LISTABLE = 1 << 22  # candidates of a space that is counted before a search, which takes a twentieth of a second; a restricted one always is
LISTED = 1 << 16  # legal candidates of a restricted space that are listed for the strategies to propose from
DRAWN = 256  # candidates of a sketch, where the default's short list has no legal one
HOPE_FIRST, HOPE_LAST = 1.0, 1.5  # times their rows that proofs may be foreseen to need: most often within a third, and rather too much
SETTLED = 3  # sketches whose cheapest are settled at the end: the one that led so far is not always the one that ends best


@dataclass
class Problem:
    """A tuning problem. `costs`: times of candidates, so that the search does not time a default's shortlist again. `known`: the candidates
    that were timed when the search began. `given_up`: candidates that take at least as many ticks, and were not timed to their end.
    `answers`: the model machine's answers, also those to an earlier run. `ledger`: the outcome for each candidate."""

    func: Func
    machine: Machine
    state: State
    sketches: list[Sketch]
    refused: list[str]
    space: Space
    costs: dict[Candidate, int | None] = field(default_factory=dict)
    known: frozenset[Candidate] = frozenset()
    given_up: dict[Candidate, int] = field(default_factory=dict)
    restriction: Restriction = NONE
    answers: Answers = field(default_factory=Answers)
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.space, abandoned=ABANDONED)

    def cost(self, candidates: Sequence[Candidate], limits: Sequence[int] | None = None) -> list[int | None]:
        """Return modelled ticks of each candidate, launch included. Return None where it is illegal, or takes as long as its limit, if it
        has one."""
        most: dict[Candidate, int] = {}
        for c, limit in zip(candidates, limits or repeat(NEVER)):
            most[c] = max(limit, most.get(c, 0))
        new = [c for c, limit in most.items() if c not in self.costs and self.given_up.get(c, 0) < limit]
        self.ledger.note_cached(c for c in candidates if c in self.known and self.costs[c] is not None)
        for grid, places, columns in self.space.slabs(new):
            self._time(grid, columns, [new[place] for place in places], most)
        return [self.costs.get(c) for c in candidates]

    def _time(self, grid: int, columns: Rows, candidates: Sequence[Candidate], limits: Mapping[Candidate, int]) -> None:
        """Time candidates of a sketch. A candidate is given up at its limit."""
        most = np.array([limits[c] for c in candidates], np.int64)

        def time_candidates() -> np.ndarray:
            times = time_rows(self.sketches[grid].encoded, columns, self.state, most)
            return np.stack([times.total_ticks, times.status])

        question = [b"times", *self.sketches[grid].question(columns), most.tobytes()]
        all_ticks, codes = self.answers.ask(question, len(candidates), (2, len(candidates)), time_candidates)
        self.ledger.note(grid, columns, all_ticks, codes, [c for c in candidates if c in self.given_up])
        for c, ticks, status in zip(candidates, all_ticks.tolist(), codes.tolist()):
            if status == ABANDONED:
                self.given_up[c] = limits[c]
            else:
                self.costs[c] = ticks if status == 0 else None
                self.given_up.pop(c, None)

    def takes(self, candidate: Candidate, ticks: int) -> bool:
        """Return whether a candidate takes so many ticks. It is timed once more, for the recorded time may come from anybody."""
        grid, _, columns = self.space.slabs([candidate])[0]
        times = time_rows(self.sketches[grid].encoded, columns, self.state)
        return (int(times.status[0]), int(times.total_ticks[0])) == (0, ticks)

    def legal(self, candidates: Sequence[Candidate]) -> list[bool]:
        """Return whether each candidate keeps every constraint of its program."""
        out = [False] * len(candidates)
        for grid, places, columns in self.space.slabs(candidates):
            for place, status in zip(places, first_false(self.sketches[grid].encoded, columns, len(places))):
                out[place] = not status
        return out

    def some(self) -> list[Candidate]:
        """Return legal candidates of each sketch that has any, drawn from all of its own."""
        return [(i, v) for i, grid in enumerate(self.space.grids) for v in some(grid, self.constraints(i), DRAWN)]

    def pool(self) -> Pool | None:
        """Return the legal candidates, where they may be few and are. Return None where they are not."""
        if self.space.size > LISTABLE and self.restriction == NONE:
            return None
        most, ranks = SMALL if self.restriction == NONE else LISTED, list[int]()
        for i, (start, grid) in enumerate(zip(self.space.starts, self.space.grids)):
            some = few(grid, self.constraints(i), most - len(ranks))
            if some is None:
                return None
            ranks += [start + r for r in some.tolist()]
        return Listed(self.space, ranks)

    def filter(self, strategy: str) -> Pool | None:
        """Return a pool that refuses illegal candidates, for strategies whose proposals cost more than a check of legality. Return None for
        other strategies. They learn legality with the times, as the check costs as much as timing."""
        return Pool(self.space, self.legal) if strategy in ("pool", "bayes") else None

    def leaders(self) -> list[Found]:
        """Return the cheapest timed candidate of each sketch, cheapest first."""
        found: dict[int, Found] = {}
        for c, ticks in self.costs.items():
            if ticks is not None:
                found[c[0]] = min((ticks, c), found.get(c[0], (ticks, c)))
        return sorted(found.values())

    def bound(self) -> Bound:
        return bound_in(self.func, self.machine, self.state)

    # ---- what a proof asks (search/proof/prove.py: Bounds)

    def constraints(self, grid: int) -> list[Expr]:
        """Return the conditions that a candidate of a sketch must meet."""
        return [c.condition for c in self.sketches[grid].program.constraints]

    @property
    def slot_ticks(self) -> int:
        """Return the most that one more slot may cost. A flag is set for it before the loops, in a loop of its own, and waited for after
        them."""
        return round(2 * (self.machine.issue_cycles + self.machine.loop_cycles) * TICKS_PER_CYCLE)

    def slots(self, grid: int) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """Return three sets of holes: those that count slots; those of them on which no instruction's cost depends; and those on which no
        cost depends as long as no slot blocks another."""
        return self.sketches[grid].slots

    def slot_places(self, grid: int, columns: Rows) -> np.ndarray:
        """Return [question, row]: those facts of where slots lie on which costs depend, where no slot blocks another. Rows that differ only
        in slots have equal costs where these values are equal."""
        return placed_rows(self.sketches[grid].loose, columns)

    def ceilings(self, grid: int) -> list[Ceiling]:
        """Return holes, each with a tile that grows with it, and an expression of other holes. Beyond the value of that expression, the
        hole's size makes no difference."""
        return self.sketches[grid].ceilings

    def floors(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks that no row beats, nor any with other slots. Return 0 where none are known, any such from `limit` on."""
        count = len(next(iter(columns.values()), (0,)))  # no holes: one row

        def bound_rows() -> np.ndarray:
            floors = floor_rows(self.sketches[grid].loose, columns, self.state, limit=limit)
            unknown = np.where(floors.status == VARIES, NEVER, 0)  # it varies whatever the slots
            return np.minimum(np.where(floors.status == 0, floors.total_ticks, unknown), limit)

        return self.answers.ask([b"floors", *self.sketches[grid].question(columns), str(limit).encode()], 0, (count,), bound_rows)

    def parts(self, grid: int, columns: Rows, opened: Mapping[str, int | None], whole: bool, limit: int, known: np.ndarray) -> np.ndarray:
        """Return what no row goes below, as pipes are at work and beside, with any choices of holes `opened`: see Bounds.parts."""
        encoded, count = self.sketches[grid].loose, len(next(iter(columns.values()), (0,)))
        question = [b"parts", *self.sketches[grid].question(columns), f"{list(opened.items())} {whole} {limit}".encode(),
                    known.tobytes()]
        return self.answers.ask(question, 0, (2, count, len(encoded.program.streams) * len(PIPES)),
                                lambda: floor_parts(encoded, columns, opened, whole, self.state, limit, known))

    def work_floors(self, grid: int, columns: Rows, whatever: Sequence[str], opened: bool, limit: int = NEVER) -> np.ndarray:
        """Return what no row goes below, as `parts`, by closed sums of the work of its first core: see Bounds.worked."""
        return work_parts(self.sketches[grid].loose, columns, whatever, opened, limit)

    def core_floors(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks that no row beats, nor any with fewer slots. They come from a walk of its first core in which no slot blocks
        another: see Bounds.alone."""
        count = len(next(iter(columns.values()), (0,)))
        question = [b"alone", *self.sketches[grid].question(columns), str(limit).encode()]
        return self.answers.ask(question, 0, (count,), lambda: np.minimum(alone_rows(
            self.sketches[grid].loose, columns, self.state, limit).total_ticks, limit))

    def times(self, grid: int, columns: Rows, limit: int) -> np.ndarray:
        """Return ticks of each row. Return NEVER where it cannot be timed or takes `limit` or more."""
        candidates = [(grid, row) for row in zip(*[columns[n].tolist() for n in self.space.grids[grid].names])]
        return np.array([t or NEVER for t in self.cost(candidates, [limit] * len(candidates))], np.int64)

    def values(self, candidate: Candidate) -> dict[str, int]:
        grid, values = candidate
        return dict(zip(self.space.grids[grid].names, values))

    def trace(self, candidate: Candidate) -> Trace:
        """Return the candidate as a trace without holes."""
        return fill(self.sketches[candidate[0]].trace, self.values(candidate))

    def program(self, candidate: Candidate) -> Program:
        """Return the candidate's program: holes filled after emission, in normal form."""
        return normalise(fill(self.sketches[candidate[0]].program, self.values(candidate)))


def bound_in(func: Func, machine: Machine, state: State) -> Bound:
    """Return the bound of an unscheduled func in a memory state. All inputs may be in L2 where an equal launch went before."""
    resident = {b.name: size_bytes(b) for b in func.inputs} if state == PREVIOUS_LAUNCH else dict(state)
    return bound(func, machine, resident)


@seldom_collected()
def problem(func: Func, machine: Machine, state: State = (), traces: Sequence[Trace] | None = None,
            restriction: Restriction = NONE) -> Problem:
    """Return the tuning problem of an unscheduled func over all its sketches, or over given ones, within a user's restriction. Raise
    UnsupportedError where no sketch can be emitted."""
    kept, refused, at = [], [], ""
    for number, trace in enumerate(restrict_sketches(sketches(func, machine) if traces is None else traces, restriction)):
        if trace is None:
            continue
        try:
            program = restriction.on(emit(primitives.apply(func, trace), machine))
            encoded = replace(encode(program, machine), units=units_of(holes_of(trace)), emitted=True)
            kept.append(Sketch(trace, program, encoded, number))
        except AoecError as e:
            refused.append(str(e))
            at = at if len(refused) > 1 else getattr(e, "at", "")
    if not kept:
        why = refused[0] if refused else "no sketch rule fits it"
        raise UnsupportedError(f"func {func.name} has no schedule on {machine.name}: {why}", at=at)
    grids = tuple(Grid(tuple(h), tuple(h.values())) for h in (holes_of(s.trace) for s in kept))
    return Problem(func, machine, state, kept, refused, Space(grids), restriction=restriction)


@dataclass(frozen=True)
class Outcome:
    """`best` is `default` where nothing was searched; ticks are modelled, with launch. `floor_ticks`: what no candidate of the space beats,
    as far as a proof came; 0 where nothing is known."""

    default: Candidate
    default_ticks: int
    best: Candidate
    ticks: int
    bound_ticks: int
    trials: int = 0
    illegal: int = 0
    proof: str = ""
    floor_ticks: int = 0
    trust: Trust | None = None  # of best against default, where they differ and were timed again
    history: tuple[tuple[int, int], ...] = ()  # (trials so far, ticks) at every improvement, before holes were settled
    spent: Spent = field(default_factory=Spent)


Watch = Callable[[Result], bool]  # told of each batch; True stops the search with what it has


@seldom_collected()
def start(p: Problem) -> Outcome:
    """Return the default schedule, timed. Raise ScheduleError where no candidate of the space is legal."""
    ticks, first = default(p.space, p.cost, p.constraints)
    return Outcome(first, ticks, first, ticks, min(p.bound().ticks, ticks))


def hopeless(proof: Proof | None, ticks: int, most: Limits) -> bool:
    """Return whether the proof before an earnest search predicts that a proof after it, from these ticks, would be given up. The prediction
    counts for more, the more rows of the first proof were done."""
    return proof is not None and most.earnest and \
        proof.foreseen(ticks) > most.after * (HOPE_LAST - (HOPE_LAST - 1) * min(1.0, proof.effort / most.after))


def outcome_of_proof(p: Problem, first: Outcome, proof: Proof) -> Outcome:
    """Return the outcome of a proof without a search, settled. A closed proof is settled only in its slots, since one slot less than fits
    may save two flag operations."""
    found = min((proof.ticks, proof.best), *p.leaders()[:1])
    slots = [(name,) for name in p.space.grids[found[1][0]].names if name in p.slots(found[1][0])[0]]
    p.ledger.phase = Phase.SETTLING
    ticks, best = settle(p.space, [found], p.cost, slots if proof.closed else ())
    return Outcome(first.default, first.default_ticks, best, ticks, first.bound_ticks, 0, 0, "space" if proof.closed else "",
                   min(proof.floor, ticks), history=((1, first.default_ticks),))


def time_candidates(p: Problem, candidates: Sequence[Candidate]) -> list[Found]:
    """Return those of the candidates that are legal, with their ticks."""
    return [(ticks, c) for ticks, c in zip(p.cost(candidates), candidates) if ticks is not None]


@seldom_collected()
def search(p: Problem, first: Outcome, strategy: str, budget: Budget, seed: int, watch: Watch = lambda r: False,
           starts: Sequence[Candidate] = ()) -> Outcome:
    """Return the best that a strategy finds within the budget. The default is candidate 0, so the result is never slower than it.

    A space that can be tried whole within the budget is tried whole, whatever the strategy. This counts as a proof where the space has more
    candidates than the budget. A larger space may be decided by bounds (search/proof/prove.py). A portfolio tries such a proof with a small
    part of the budget before its search, and with a larger part after it, from the search's result. Strategy "proof" spends the whole
    budget on it.

    A strategy is told the cheapest candidate of each sketch that the default was chosen from, and `starts`, which are timed here. At the
    end the result and the cheapest of other sketches are settled: every hole and pair of holes is set to its best in turn. The trials count
    only what the strategy asked for.
    """
    p.known = frozenset(p.costs)
    asked = Asked(p, watch, limits(budget), seconds_of(budget))
    found = asked.search(first, strategy, seed, starts)
    p.known = frozenset()
    spent = Spent(0, {phase.value: n for phase, n in p.ledger.by_phase().items()}, sum(proof.bounded for proof in asked.proofs), asked.most)
    return replace(found, spent=spent.spent_at_end(found.trials, asked.until.limits.asked))


class Asked:
    """One search: its limits, what it has proved, and when a proof that is all of it ends."""
    def __init__(self, p: Problem, watch: Watch, most: Limits, seconds: float | None) -> None:
        self.p, self.watch, self.most, self.seconds = p, watch, most, seconds
        self.begun = p.answers.seconds
        self.proofs: list[Proof] = []
        self.until = Until(self.seconds_left, most.asked)

    def seconds_left(self) -> float | None:
        """Return seconds that are left, at least 0. Return None where time is no limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (self.p.answers.seconds - self.begun))

    def beside(self, begun: Found, rows: int, hope: float, so_far: Result) -> Proof:
        """Return a proof before or after a search. It is given up when it is predicted to take `hope` times `rows`, or after that many
        rows."""
        self.p.ledger.phase = Phase.PROOF
        self.proofs.append(prove(self.p.space.grids, self.p, begun[1], begun[0], rows, lambda: self.watch(so_far),
                                 hope if self.most.earnest else inf))
        return self.proofs[-1]

    def search(self, first: Outcome, strategy: str, seed: int, starts: Sequence[Candidate]) -> Outcome:
        p, most, pool, floor, proof = self.p, self.most, self.p.pool(), 0, None
        if (size := (p.space if pool is None else pool).size) <= most.whole:
            return self.search_all(first, seed, pool, size)
        if strategy in ("proof", "portfolio"):
            ticks, begun = min([(first.default_ticks, first.default), *time_candidates(p, starts)], key=lambda f: f[0])
            if strategy == "proof":
                p.ledger.phase = Phase.PROOF
                self.proofs.append(prove(p.space.grids, p, begun, ticks, most.alone,
                                         lambda: self.until.ends() or self.watch(Result())))
                return outcome_of_proof(p, first, self.proofs[-1])
            proof = self.beside((ticks, begun), most.before, HOPE_FIRST, Result())
            if proof.closed:
                return outcome_of_proof(p, first, proof)
            floor = proof.floor
        strategist = make(strategy, p.space, seed, pool or p.filter(strategy), measure_us=MODELLED_US)
        known = list(dict.fromkeys((ticks, c) for ticks, c in [*p.leaders(), *time_candidates(p, starts)] if c != first.default))
        strategist.tell([c for _, c in known], [ticks for ticks, _ in known])
        outcome, result, stopped = self.run(first, strategist, floor)
        if strategy == "portfolio" and not (stopped or result.is_proved or hopeless(proof, outcome.ticks, most)):
            return confirm(p, outcome, self.beside((outcome.ticks, outcome.best), most.after, HOPE_LAST, result))
        return outcome

    def search_all(self, first: Outcome, seed: int, pool: Pool | None, size: int) -> Outcome:
        """Return the best of a space that is tried whole."""
        within = self.most.trials is None or size <= self.most.trials
        self.most = replace(self.most, trials=max(size, self.most.trials or 0) if within else self.most.trials)
        strategist = make("exhaustive", self.p.space, seed, pool, measure_us=MODELLED_US)
        outcome = self.run(first, strategist, 0, Phase.SEARCH if within else Phase.PROOF, limited=False)[0]
        return outcome if within else replace(outcome, trials=0, history=((1, first.default_ticks),))

    def run(self, first: Outcome, strategist: Strategy, floor: int, phase: Phase = Phase.SEARCH,
            limited: bool = True) -> tuple[Outcome, Result, bool]:
        """Return what a strategy finds, settled; how it ended; whether it was told to stop."""
        p, result, stopped = self.p, Result(), False
        p.ledger.phase = phase
        for result in steps(strategist, p.cost, legal=p.legal, floor=first.bound_ticks, first=first.default,
                            clock=lambda: p.answers.seconds, budget_trials=self.most.trials if limited else None,
                            budget_seconds=self.seconds_left() if limited else None):
            if stopped := self.watch(result):
                break
        assert result.best is not None and result.cost is not None
        found = list(dict.fromkeys([(result.cost, result.best), *p.leaders()[:SETTLED]]))
        p.ledger.phase = Phase.SETTLING
        ticks, best = min(found, key=lambda f: f[0]) if result.is_proved or stopped else settle(p.space, found, p.cost)
        return Outcome(first.default, first.default_ticks, best, ticks, first.bound_ticks, result.trials, result.illegal,
                       result.stopped if result.is_proved else "", ticks if result.stopped == "space" else min(floor, ticks),
                       history=result.history), result, stopped


def confirm(p: Problem, found: Outcome, proof: Proof) -> Outcome:
    """Return the result of a search with that of a proof that began from it: that it is optimal, a better one that is, or how far it may be
    from the optimum."""
    if proof.closed:
        last = outcome_of_proof(p, found, proof)
        return replace(found, best=last.best, ticks=last.ticks, proof=last.proof, floor_ticks=last.floor_ticks)
    return replace(found, best=proof.best, ticks=proof.ticks, floor_ticks=min(max(found.floor_ticks, proof.floor), proof.ticks))
