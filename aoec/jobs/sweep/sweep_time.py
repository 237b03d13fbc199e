"""The rows of one schedule at one shape on one machine: lowered once, all values of its holes timed together."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aoec import primitives
from aoec.base.errors import AoecError, UnsupportedError
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.func.tir import Func
from aoec.ir.index import Int
from aoec.ir.program import Program
from aoec.ir.refusal import refusals
from aoec.ir.rewrite import fill, normalise
from aoec.ir.rewrite import holes as holes_of
from aoec.ir.schedule import Trace
from aoec.ir.text.show import show
from aoec.jobs import interrupt
from aoec.jobs.sweep.sweep_plan import Contender
from aoec.jobs.tune.tuning import Outcome, Problem, bound_in, problem, search, start
from aoec.lowering.emit.emit import emit
from aoec.search.space.trials import Status
from aoec.simulate.encode.encode import Encoded, encode
from aoec.simulate.timing.rows import measure_rows, used_bytes
from aoec.simulate.timing.state import State
from aoec.simulate.timing.time import ERRORS, Measure, time_rows, zeroing_us
from aoec.target.machine import Machine

SLAB = 1024  # rows between two looks at Ctrl-C
KEPT = 4  # searches, which remember all that they timed
TIMED, ILLEGAL, FAILED = (s.value for s in (Status.TIMED, Status.ILLEGAL, Status.FAILED))
Row = dict[str, Any]
Values = Mapping[str, int]
Columns = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Made:
    """The origin of a row that was timed: a schedule (None: the func is scheduled as it was read) and its program, whose holes have these
    values."""

    trace: Trace | None
    open_program: Program
    values: Values

    def program(self) -> Program:
        """Return the program without holes."""
        return normalise(fill(self.open_program, self.values))

    def schedule(self) -> str:
        """Return the schedule's text without holes, "" where there is none."""
        return "" if self.trace is None else show(fill(self.trace, self.values))


@dataclass(frozen=True)
class How:
    """What is asked of every row. `brief`: times alone; `trials`, `seed`: of each search; `folder`: where schedules go, "" for nowhere."""

    state: State
    brief: bool
    strategy: str
    trials: int
    seed: int
    verify: bool = False
    folder: str = ""


@dataclass
class Cell:
    """A func on a machine, and the latest searches of it: `tuned` goes on from `default`."""

    func: Func
    machine: Machine
    how: How
    searches: dict[tuple[object, ...], tuple[Problem, Outcome]] = field(default_factory=dict)
    bounds: dict[tuple[int, ...], float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.holes = frozenset(holes_of(self.func))

    def rows(self, c: Contender) -> Iterator[tuple[Row, Made | None]]:
        """Yield each row of a schedule, in the order of its grid, with what it is made of where it was timed."""
        try:
            made = None if c.is_searched else self.emit(c)
        except AoecError as e:
            yield from ((row | refused_row(e), None) for row in c.settings())
            return
        for start_at in range(0, c.grid.size, SLAB):
            columns = c.grid.rows(start_at, start_at + SLAB)
            yield from self.filled_rows(c, *made, columns) if made else self.searched_rows(c, columns)

    def bound_us(self, values: Values) -> float | None:
        """Return the time that no schedule of the func beats, launch included. Return None where the func is scheduled already."""
        own = tuple(values.values())
        if own not in self.bounds:
            func = fill(self.func, values)
            fixed = all(isinstance(e, Int) for b in (*func.inputs, *func.outputs) for e in b.shape)
            known = fixed and all(b.scope == "GM" for b in func.locals)  # else it is scheduled already
            self.bounds[own] = bound_in(func, self.machine, self.how.state).ticks * self.machine.us_per_tick if known else None
        return self.bounds[own]

    # ------------------------------------------------------------ schedules that are given

    def emit(self, c: Contender) -> tuple[Program, Encoded]:
        """Return the program of a schedule with its holes, ready to be timed."""
        func = self.func if c.trace is None else normalise(primitives.apply(self.func, c.trace))
        program = normalise(emit(func, self.machine))
        return program, encode(program, self.machine)

    def filled_rows(self, c: Contender, program: Program, encoded: Encoded, columns: Columns) -> Iterator[tuple[Row, Made | None]]:
        """Yield some rows of a program with holes; a value that is none of a hole's choices is illegal."""
        count = len(next(iter(columns.values()))) if columns else 1
        legal = np.ones(count, bool)
        for name, column in columns.items():
            legal &= np.isin(column, c.choices[name]) if c.choices[name] else True
        part = {name: column[legal] for name, column in columns.items()}
        timed = iter(self.time_rows(program, encoded, part, int(legal.sum())))
        for (row, values), yes in zip(settings(columns, count), legal):
            facts = next(timed) if yes else {"status": ILLEGAL, "reason": no_choice(c, values)}
            yield self.row(row, facts, values, Made(c.trace, program, values))

    def row(self, row: Row, facts: Row, values: Values, made: Made) -> tuple[Row, Made | None]:
        """Return a row with its bound, and what it is made of."""
        if facts["status"] != TIMED:
            return row | facts, None
        facts["bound_us"] = self.bound_us({name: v for name, v in values.items() if name in self.holes})
        return row | facts, made

    def time_rows(self, program: Program, encoded: Encoded, columns: Columns, count: int) -> Iterator[Row]:
        """Yield what is found of some rows of hole values."""
        if not count:
            return
        used = used_bytes(program, columns, count)
        measures = list((brief if self.how.brief else measure_rows)(encoded, columns, count, self.how.state))
        reasons = why(program, columns, np.array([m if isinstance(m, int) else 0 for m in measures]))
        for i, measure in enumerate(measures):
            if isinstance(measure, int):
                yield {"status": FAILED if measure < 0 else ILLEGAL, "reason": reasons[i]}
            else:
                facts = measure if isinstance(measure, dict) else details(measure)
                yield {"status": TIMED, "reason": "", **facts, **{f"used_bytes.{scope}": int(v[i]) for scope, v in used.items()}}

    # ------------------------------------------------------------ schedules that are searched

    def searched_rows(self, c: Contender, columns: Columns) -> Iterator[tuple[Row, Made | None]]:
        """Yield some rows of what a search fills."""
        count = len(next(iter(columns.values()))) if columns else 1
        for row, values in settings(columns, count):
            if interrupt.is_asked():
                return
            try:
                p, outcome = self.search(c, values)
            except AoecError as e:
                yield row | refused_row(e), None
                continue
            if interrupt.is_asked():  # what an unfinished search has is no row
                return
            grid, chosen = outcome.best if c.trace or c.name == "tuned" else outcome.default
            sketch, picked = p.sketches[grid], dict(zip(p.space.grids[grid].names, chosen))
            facts = next(self.time_rows(sketch.program, sketch.encoded, {name: np.array([v]) for name, v in picked.items()}, 1))
            facts["found"] = " ".join(f"{n}={v}" for n, v in picked.items())
            yield self.row(row, facts, values, Made(sketch.trace, sketch.program, picked))

    def search(self, c: Contender, values: Values) -> tuple[Problem, Outcome]:
        """Return the best that a search makes of a schedule with these holes filled; of the default, what it begins with."""
        at = (c.trace, tuple(values.items()))
        if at not in self.searches:
            if len(self.searches) == KEPT:
                del self.searches[next(iter(self.searches))]
            traces = None if c.trace is None else [fill(c.trace, values)]
            p = problem(fill(self.func, values), self.machine, self.how.state, traces)
            self.searches[at] = p, start(p)
        p, first = self.searches[at]
        if c.name == "default" and c.trace is None:
            return p, first
        limits = ("trials", float(self.how.trials))
        return p, search(p, first, self.how.strategy, limits, self.how.seed, lambda result: interrupt.is_asked())


def settings(columns: Columns, count: int) -> Iterator[tuple[Row, Values]]:
    """Yield what is swept of each row, and the values of its holes."""
    table = {name: column.tolist() for name, column in columns.items()}
    for i in range(count):
        values = {name: column[i] for name, column in table.items()}
        yield {f"?{name}": v for name, v in values.items()}, values


def refused_row(error: AoecError) -> Row:
    """Return a row whose schedule cannot be had: it breaks a rule, or asks for what aoec does not do."""
    return {"status": FAILED if isinstance(error, UnsupportedError) else ILLEGAL, "reason": getattr(error, "message", "") or str(error)}


def why(program: Program, columns: Columns, statuses: np.ndarray) -> dict[int, str]:
    """Return row -> why it has no time: a constraint that it breaks, and by how much, or what the timeline cannot walk."""
    out: dict[int, str] = {}
    for status in np.unique(statuses[statuses != 0]).tolist():
        rows = np.flatnonzero(statuses == status)
        some = {name: column[rows] for name, column in columns.items()}
        words = [ERRORS[status]] * len(rows) if status < 0 else refusals(program.constraints[status - 1], some, len(rows))
        out |= zip(rows.tolist(), words)
    return out


def no_choice(c: Contender, values: Values) -> str:
    """Return which hole has a value that its schedule does not offer."""
    name = next(n for n, v in values.items() if c.choices[n] and v not in c.choices[n])
    return f"hole ?{name} takes {', '.join(map(str, c.choices[name]))}, not {values[name]}"


def brief(encoded: Encoded, columns: Columns, count: int, state: State) -> Iterator[Row | int]:
    """Yield only the times of all rows, which are timed together. Yield its status for a row that has no time."""
    machine, times = encoded.machine, time_rows(encoded, columns, state)
    zeros_us = np.broadcast_to(zeroing_us(encoded.program, machine, columns), (count,)).tolist()
    for i in range(count):
        if times.status[i]:
            yield int(times.status[i])
        else:
            cores = int(times.cores[i].sum())
            cycles, launch_us = int(times.ticks[i]) / TICKS_PER_CYCLE, machine.launch_us(cores, len(encoded.program.streams))
            yield {"kind": "modelled", "cycles": cycles, "time_us": cycles / machine.clock_mhz + launch_us + zeros_us[i],
                   "launch_us": launch_us, "cores": cores}


def details(m: Measure) -> Row:
    """Return a measure as one flat row: busy cycles by pipe, bytes by path."""
    assert m.verdict is not None
    return {"kind": "modelled", "cycles": m.cycles, "time_us": m.time_us, "launch_us": m.launch_us, "cores": m.cores,
            "bound_by": m.bound_by, "verdict": m.verdict.bound, "hbm_bytes": m.hbm_bytes, "l2_bytes": m.l2_bytes,
            **{f"busy_cycles.{pipe}": v for pipe, v in m.busy_cycles.items()},
            **{f"bytes.{path}": v for path, v in m.bytes_by_path.items()}}
