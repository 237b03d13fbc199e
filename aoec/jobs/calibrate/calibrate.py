"""`aoec calibrate`: fit the numbers of a machine to a device's profile, and write a machine file that extends the original one.

Each operator of the profile that can be made here (jobs/bank/row_funcs.py) is timed by an assumed schedule from an assumed memory state;
both are reported. One operator in four is held out, of each kind as far as there are some. The file is written only where it models those
better.
"""
from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from aoec.base.errors import AoecError, CheckError
from aoec.cann.op_summary_join import Timed, join, list_timed
from aoec.cann.op_summary_read import Profile
from aoec.ir.func.tir import Func
from aoec.ir.text.show import show
from aoec.jobs.bank.row_funcs import Known, call_of, func_for
from aoec.jobs.calibrate.calibrate_fit import FELT, HELD_BY, Array, Fitted, fit
from aoec.jobs.calibrate.calibrate_times import Times, logs, value
from aoec.jobs.known import recall as remembered
from aoec.jobs.states import state_text
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.tuning import problem, start
from aoec.simulate.encode.encode import Encoded, encode
from aoec.simulate.timing.state import State
from aoec.target.inherit import is_path, show_machine_file
from aoec.target.machine import Machine, parse_machine

MOST = 64  # operators, those that take longest in all: each needs its default schedule, a second of work
FEWEST = 8  # operators below which nothing is fitted
HELD_OUT = 4  # one operator in so many
UNREAD = "no program of these operators reads it"
UNFELT = "no row feels it beyond the noise"
UNHELD = "what was found does not hold for the operators held out"
NAMED_ROWS = 5  # lines of the profile that a number's source names
DIGITS = 6


@dataclass(frozen=True)
class Seen:
    """An operator of the profile with the program that is taken to have run; `what`: it, in words."""

    timed: Timed
    what: str
    encoded: Encoded


@dataclass(frozen=True)
class Number:
    """What became of a number: "changed", "confirmed" (found to be what the file says) or "refused", and why. `deviation`: half of the
    interval in which its ratio is, over 2. `lines`: of the profile, those that it moves most."""

    place: str
    before: float
    after: float
    unit: str
    confidence: str
    outcome: str
    why: str
    deviation: float
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Calibrated:
    """A fit. Errors are means of |ln(modelled / measured)| over tasks: (before, after) for the operators of the fit, and for those held
    out."""

    fitted: tuple[Seen, ...]
    held: tuple[Seen, ...]
    fitted_error: tuple[float, float]
    held_error: tuple[float, float]
    noise: float
    numbers: tuple[Number, ...]
    left: tuple[tuple[str, str], ...] = field(default=())  # operators without a program, and why

    @property
    def holds(self) -> bool:
        """Return whether the fit does no worse on what it has not seen."""
        return self.held_error[1] <= self.held_error[0]

    @property
    def changes(self) -> list[Number]:
        return [n for n in self.numbers if n.outcome == "changed"]


def calibrate_machine(profile: Profile, machine: Machine, records: Sequence[Known], best: bool, state: State, seed: int) -> Calibrated:
    """Return the fit of a machine to a profile. Raise CheckError where there is too little to fit to. `best`: schedules are the records',
    where there is one, else the default. `seed` draws what is held out."""
    if profile.kind != "measured":
        raise CheckError("the times of this profile are modelled, as its column source says; a device's are needed", source=profile.source)
    operators, left = seen(list_timed(profile), machine, records, best, state)
    if len(operators) < FEWEST:
        why = f" ({left[0][0]}: {left[0][1]})" if left else ""
        raise CheckError(f"{len(operators)} different operators with a program here, and {FEWEST} are the fewest that a fit is made to; "
                         f"{len(left)} others have none{why}", source=profile.source)
    fitted, held = part_operators(operators, seed)
    return fitted_to(fitted, held, machine, state, left)


def seen(operators: Sequence[Timed], machine: Machine, records: Sequence[Known], best: bool, state: State
         ) -> tuple[list[Seen], list[tuple[str, str]]]:
    """Return (the operators with their programs, the others with the reason); of very many those that take longest."""
    operators = sorted(operators, key=lambda t: -t.us * t.calls)
    met = dict(join(operators, [k.timed for k in records]))
    found: list[Seen] = []
    left: list[tuple[str, str]] = []
    for i, one in enumerate(operators):
        record = records[met[i]].record if i in met else None
        try:
            if len(found) == MOST:
                raise CheckError(f"{MOST} others take longer")
            func = func_for(one, record)
            trace = record.trace if best and record and record.is_faster else default_of(func, machine, state)
            found.append(Seen(one, record.label if record else call_of(one), encode(emit_trace(func, trace, machine)[1], machine)))
        except AoecError as e:
            left.append((str(one.work or "+".join(one.types)), str(e).splitlines()[0]))
    return found, left


def default_of(func: Func, machine: Machine, state: State) -> str:
    """Return the default schedule of a func, as text."""
    def find_default() -> str:
        p = problem(func, machine, state)
        return show(p.trace(start(p).best))

    return remembered(("default", show(func), machine.name, machine.hash, state_text(state)), find_default, str, str)


def part_operators(operators: Sequence[Seen], seed: int) -> tuple[list[Seen], list[Seen]]:
    """Return (those to fit to, those held out): one in four, drawn by the seed, of each kind in turn."""
    draw = random.Random(seed)
    order = sorted(operators, key=lambda s: (s.timed.work.kind if s.timed.work else "", draw.random()))
    return [s for i, s in enumerate(order) if i % HELD_OUT != 2], order[2::HELD_OUT]


def fitted_to(fitted: Sequence[Seen], held: Sequence[Seen], machine: Machine, state: State, left: Sequence[tuple[str, str]]) -> Calibrated:
    """Return the fit, and its errors."""
    every = Times(machine, [s.encoded for s in fitted], state)
    times = Times(machine, every.programs, state, [p for p, read in zip(every.places, every.read) if read])
    cores = np.array([s.timed.core_us is not None for s in fitted])
    measured = stack_tasks(np.log([[s.timed.us, s.timed.core_us or 1.0] for s in fitted]), cores)
    found = fit(lambda x: stack_tasks(logs(times.of(x)), cores), lambda x, by: lines(times, x, by, cores), measured, times.bounds,
                int(cores.sum()))
    x = np.where(found.changed_numbers, found.x, 0.0)
    held_times = Times(machine, [s.encoded for s in held], state, times.places)
    errors = [(error(part, t, np.zeros(len(x))), error(part, t, x)) for part, t in ((fitted, times), (held, held_times))]
    unread = [as_it_is(machine, p, UNREAD) for p, read in zip(every.places, every.read) if not read]
    made = Calibrated(tuple(fitted), tuple(held), errors[0], errors[1], found.noise, (*numbers(found, times, fitted, cores), *unread),
                      tuple(left))
    return made if made.holds else replace(made, numbers=tuple(map(unheld, made.numbers)))


def unheld(n: Number) -> Number:
    """Return the number unchanged, for a fit that does worse on the operators that were held out. None of its numbers changes, for they
    were fitted together."""
    return replace(n, after=n.before, outcome="refused", why=UNHELD) if n.outcome != "refused" else n


def as_it_is(machine: Machine, place: str, why: str) -> Number:
    """Return a number of which nothing is known."""
    n = machine.sources[place]
    return Number(place, n.value, n.value, n.unit, n.confidence, "refused", why, 0.0)


def stack_tasks(of: Array, cores: Array) -> Array:
    """Return the values that a fit is made to, of [program, (task, run), ...]. The first is one value for each program: the mean of task
    and run where the core time is known, else the task. A mean is one observation, since what disturbs a run disturbs both. The differences
    (task - run) / sqrt(2) of the programs with core times follow. Their disturbances are separate."""
    task, run = of[:, 0], of[:, 1]
    both = cores.reshape(-1, *(1,) * (task.ndim - 1))
    return np.concatenate([np.where(both, (task + run) / 2, task), ((task - run) / np.sqrt(2))[cores]])


def lines(times: Times, x: Array, by: Array, cores: Array) -> tuple[Array, Array]:
    """Return (slopes, bends) of what a fit is made to."""
    slopes, bends = times.lines(x, by)
    return stack_tasks(slopes, cores), stack_tasks(bends, cores)


def error(of: Sequence[Seen], times: Times, x: Array) -> float:
    """Return the mean of |ln(modelled / measured)| of tasks."""
    return float(np.abs(logs(times.of(x))[:, 0] - np.log([s.timed.us for s in of])).mean())


def numbers(found: Fitted, times: Times, fitted: Sequence[Seen], cores: Array) -> list[Number]:
    """Return what became of each number that some program reads: changed ones first, by how sure they are."""
    rows = [s.timed.lines[0] for s in fitted]
    rows += [line for line, core in zip(rows, cores) if core]
    out = []
    for j, place in enumerate(times.places):
        source = times.machine.sources[place]
        outcome = "changed" if found.changed_numbers[j] else "confirmed" if found.identified_numbers[j] else "refused"
        after = round_number(value(times.machine, place, float(found.x[j]))) if outcome == "changed" else source.value
        far = dict.fromkeys(rows[i] for i in np.argsort(-np.abs(found.slopes[:, j])) if found.slopes[i, j])
        out.append(Number(place, source.value, after, source.unit, source.confidence, outcome, why(found, j, times.places, outcome),
                          float(found.half[j]) / 2, tuple(far)[:NAMED_ROWS]))
    order = ("changed", "confirmed", "refused")
    return sorted(out, key=lambda n: (order.index(n.outcome), n.deviation))


def why(found: Fitted, j: int, places: Sequence[str], outcome: str) -> str:
    """Return why a number is changed or not, in words."""
    wide, half = np.expm1(found.width[j] * np.sqrt(3)), found.half[j]
    if found.beyond[j]:
        return f"at the edge of its confidence: the file says {wide:.0%} either way, and the times want {np.expm1(found.x[j]):+.1%}; " \
               "if its source can be so far off, give it a confidence that says so in a machine file of your own"
    if outcome != "refused":
        return f"found within {half:.1%}" if outcome == "changed" else f"what the file says, within {half:.1%}"
    if found.felt[j] < FELT * found.noise:
        return f"{UNFELT} ({wide:.0%} of it, all that its confidence allows, move none by more than {found.felt[j]:.2%})"
    if abs(found.correlation[j]) >= HELD_BY:
        return f"inseparable from {places[found.partner[j]]} (correlation {found.correlation[j]:+.2f})"
    return f"known within {half:.1%} at best, mixed up most with {places[found.partner[j]]} " \
           f"({found.correlation[j]:+.2f}); the file says {wide:.0%}"


def round_number(number: float) -> int | float:
    return number if isinstance(number, int) else float(f"{number:.{DIGITS}g}")


# ---------------------------------------------------------------- the machine file

def machine_file(made: Calibrated, machine: Machine, target: str, profile: Profile, output: str) -> str:
    """Return the file: it extends `target`, as it can be found from where `output` is, and holds the changed numbers alone."""
    folder = Path(output).absolute().parent if output != "-" else Path.cwd()
    parent = os.path.relpath(Path(target).absolute(), folder) if is_path(target) else machine.name
    raw: dict[str, Any] = {"extends": parent if not is_path(target) or is_path(parent) else f"./{parent}"}
    name = Path(profile.source).name
    for n in made.changes:
        *tables, key = n.place.split(".")
        at = raw
        for table in tables:
            at = at.setdefault(table, {})
        said = f"aoec calibrate: lines {', '.join(map(str, n.lines))} of {name} (sha256 {profile.digest}) and others, {len(made.fitted)} " \
               f"operators; {n.before:.{DIGITS}g} ({n.confidence}) before; {n.why}"
        at[key] = {"value": n.after, "source": said, "confidence": "measured", **unit(machine.merged.raw, n.place)}
    before, after = made.held_error
    head = [f"# Made by aoec calibrate from {name}: held-out error {before:.2%} before, {after:.2%} after.",
            "# Numbers rest on the schedules and the memory state that were taken to have run."]
    text = "\n".join([*head, show_machine_file(raw)])
    parse_machine(text, output, folder)
    return text


def unit(raw: Any, place: str) -> dict[str, str]:
    """Return the unit that a number states itself, if it does."""
    for part in place.split("."):
        raw = raw[part]
    return {"unit": raw["unit"]} if "unit" in raw else {}
