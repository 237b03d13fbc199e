"""Programs of schedules: the program of a trace, its modelled time, and how far that time can be trusted. Results of an earlier run for the
same trace are not computed again.

A bank's record may come from a stranger, or from a damaged file, so it is only a claim. Each claim is looked up among the results of this
user's own runs (jobs/known.py), else it is computed here. The key of a result covers everything that it depends on. That is the texts of
func and trace, the machine's hash, the memory state, and the sources that make and time programs.
"""
from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache

from aoec import primitives
from aoec.bank.record import Record
from aoec.base.errors import AoecError
from aoec.ir.func.tir import Func
from aoec.ir.program import Program
from aoec.ir.rewrite import normalise
from aoec.ir.schedule import Trace
from aoec.ir.text.flat import flat, noun
from aoec.ir.text.keys import key
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.jobs.known import memo, recall
from aoec.jobs.states import state_text
from aoec.jobs.tune.trust import MACHINES, Trust, of_programs
from aoec.lowering.emit.emit import emit
from aoec.simulate.timing.state import State
from aoec.simulate.timing.time import Measure, measure
from aoec.target.machine import Machine

REMADE = ("reasons", "verdict")  # of a measure, which only a dump shows, and measures for


@dataclass(frozen=True)
class Schedule:
    """A trace made real: its program and modelled measure in the task's state. The measure has no reasons where it was looked up."""

    trace: Trace
    program: Program
    measure: Measure


def func_as_recorded(func: Func, record: Record) -> Func:
    """Return the func with the names that a record's schedule speaks of. Funcs of one key may call their loops and locals otherwise. The
    func itself where the record says none, or one of another key or with other tensors."""
    if not record.func or record.func == show(replace(func, name="f")):
        return func
    try:
        recorded = parse_func(record.func)
        same = [b.name for b in (*recorded.inputs, *recorded.outputs)] == [b.name for b in (*func.inputs, *func.outputs)]
        return recorded if same and key(recorded) == key(func) else func
    except AoecError:  # a record may be a stranger's
        return func


def realise(func: Func, trace: str, machine: Machine, state: State) -> Schedule:
    """Return the program of a trace (its text) and its measure. Raise AoecError where the trace does not fit the func any more."""
    made, program = emit_trace(func, trace, machine)
    return Schedule(made, program, measure_trace(func, trace, machine, state))


@lru_cache(maxsize=1024)
def emit_trace(func: Func, trace: str, machine: Machine) -> tuple[Trace, Program]:
    """Return the trace that a text says, and its program."""
    def make() -> tuple[Trace, Program]:
        parsed = parse_trace(trace)
        return parsed, normalise(emit(primitives.apply(func, parsed), machine))

    at = ("program", *_parts(func, machine), trace)
    return recall(at, make, lambda made: [flat(m) for m in made], lambda kept: (noun(kept[0]), noun(kept[1])))


@lru_cache(maxsize=1024)
def measure_trace(func: Func, trace: str, machine: Machine, state: State) -> Measure:
    """Return the measure of a trace's program from a memory state."""
    at = ("measure", *_parts(func, machine), trace, state_text(state))
    return recall(at, lambda: measure(emit_trace(func, trace, machine)[1], machine, state),
                 lambda m: {f.name: getattr(m, f.name) for f in fields(m) if f.name not in REMADE}, lambda kept: Measure(**kept))


def trust_of(func: Func, default: Schedule, best: Schedule, machine: Machine, state: State, found: Trust | None) -> Trust:
    """Return how far the better of two schedules holds: as the search `found`, which is kept, else looked up, else timed now."""
    at = ("trust", *_parts(func, machine), state_text(state), show(default.trace), show(best.trace), str(MACHINES))
    if found is not None:
        memo().put([found.default, found.best], *at)
        return found
    return recall(at, lambda: of_programs(default.program, best.program, machine, state), lambda t: [t.default, t.best], _trust)


def _trust(kept: list[list[int]]) -> Trust:
    trust = Trust(*(tuple(map(int, ticks)) for ticks in kept))
    if not len(trust.default) == len(trust.best) == MACHINES:
        raise ValueError("not one time for each machine")
    return trust


def _parts(func: Func, machine: Machine) -> tuple[str, ...]:
    return _text(func), machine.name, machine.hash


@lru_cache(maxsize=1024)
def _text(func: Func) -> str:
    return show(func)
