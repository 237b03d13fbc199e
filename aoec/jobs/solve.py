"""Schedules for tasks: from the bank, else the default, else a search; equal tasks once, each result kept as soon as it is there."""
from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context

from aoec.bank.bank import Bank
from aoec.bank.record import DEFAULT, ROBUST, Key, Record, join
from aoec.base.errors import AoecError, BackendError, BankError, ScheduleError, UnsupportedError
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.show import show
from aoec.jobs import interrupt
from aoec.jobs.made import measured
from aoec.jobs.plan import Task
from aoec.jobs.story import Story, kept, told
from aoec.jobs.trust import Trust, weighed
from aoec.jobs.tuning import Budget, problem, search, start
from aoec.jobs.version import model_version
from aoec.report.opat import Outcome
from aoec.simulate.time import Measure, prepare
from aoec.target.machine import Machine, load

NAMED = 5  # groups in a sentence
POLL_S = 0.5  # how soon Ctrl-C is seen while others work
DEFAULTS_A_START = 4  # schedules found without a search while a process starts, imports and loads its kernels: about 1.5 s


@dataclass(frozen=True)
class Order:
    """How to search: `tune` False keeps to bank and defaults."""

    tune: bool
    strategy: str = "portfolio"
    budget: Budget = ("trials", 2000)
    seed: int = 0
    jobs: int | None = None
    robust: bool = False  # of the best candidates the one that holds best on seeded machines
    repeat: bool = False  # search again what the bank has
    frozen: bool = False  # search nothing: what the bank has not is an error


@dataclass(frozen=True)
class Solved:
    """Records of a task's default and best schedule; `found`: both were in the bank already; `trials`: what this run spent; `candidates`:
    how many of those that it looked at ended in each status; `before`: the bank's best when the run began, None where it had none that is
    faster than the default (a search that found nothing is remembered with its effort, and is no hit)."""

    default: Record
    best: Record
    found: bool
    trials: int = 0
    trust: Trust | None = None  # of the best against the default, where this run timed them on seeded machines
    candidates: Mapping[str, int] = field(default_factory=dict)
    before: Record | None = None
    story: Story | None = None  # of this run's search, where there was one

    @property
    def outcome(self) -> Outcome:
        """What became of the task, as AOE counts it."""
        if self.before is None:
            return Outcome.ADD if self.best.ticks < self.default.ticks else Outcome.UNSATISFIED
        return Outcome.UPDATE if self.best.ticks < self.before.ticks else Outcome.RESERVED


def keys(task: Task, machine: Machine, robust: bool = False) -> tuple[Key, Key]:
    """The bank's keys of a task: of its default, and of its best (or of the one that holds best)."""
    best = Key(task.func_key, machine.name, machine.hash, model_version(), task.state_text)
    return replace(best, state=best.state + DEFAULT), replace(best, state=best.state + ROBUST * robust)


def solve(tasks: Iterable[Task], machine: Machine, target: str, bank: Bank, order: Order,
          done: Callable[[Task, Solved], None]) -> tuple[dict[Key, Solved], dict[Key, str]]:
    """(solved, reasons) by best key, for every distinct task; `done` is told of each as it comes, results go into the bank at once.

    A task without a legal schedule is no failure of the job: it is left out of the first and has its reason in the second.
    """
    out: dict[Key, Solved] = {}
    reasons: dict[Key, str] = {}
    missing: dict[Key, Task] = {}
    held: dict[Key, Record] = {}
    tasks = list(tasks)
    claimed = bank.claims(k for t in tasks for k in keys(t, machine, order.robust))
    for task in tasks:
        best = keys(task, machine, order.robust)[1]
        if best in out or best in missing:
            continue
        held |= held_records(bank, claimed, task, machine, order.robust)
        known = None if order.repeat else enough(held, keys(task, machine, order.robust), order)
        if known is None:
            missing[best] = task
        else:
            out[best] = replace(known, before=gained(held.get(best)))
            done(task, out[best])
    if order.frozen and missing:
        raise BankError(not_in_bank(list(missing.values()), bank))
    if order.tune and missing and not bank.writable:
        raise BankError(f"bank {bank.path} is read-only here, so what a search of {len(missing)} groups finds could not be kept; "
                        "name another with --bank, or make it writable")
    for task, solved in work(missing, machine, target, order):
        key = keys(task, machine, order.robust)[1]
        if isinstance(solved, str):
            reasons[key] = solved
            continue
        solved = replace(with_held(solved, held), before=gained(held.get(key)))
        if bank.writable:
            bank.put_all([solved.default, *([solved.best] if order.tune else [])])
        out[key] = solved
        done(task, solved)
    return out, reasons


def gained(record: Record | None) -> Record | None:
    """A bank's record that is faster than the default; None of any other."""
    return record if record is not None and record.gained else None


def not_in_bank(missing: Sequence[Task], bank: Bank) -> str:
    """What --frozen says of tasks that would have to be searched."""
    named = ", ".join(f"{t.group.name} ({t.label})" for t in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return f"bank {bank.path} has no schedule, or none of this effort, for {len(missing)} of the groups, and --frozen forbids to search: " \
           f"{named}{more}"


def held_records(bank: Bank, claimed: Mapping[Key, Record], task: Task, machine: Machine, robust: bool = False) -> dict[Key, Record]:
    """What of the bank's claims about a task is so: timed before it is believed, dropped where it is not, to make room for what is."""
    out = {}
    for record in filter(None, map(claimed.get, keys(task, machine, robust))):
        if holds(record, task, machine):
            out[record.key] = record
        elif bank.writable:
            bank.drop([record])
    return out


def enough(held: Mapping[Key, Record], wanted: tuple[Key, Key], order: Order) -> Solved | None:
    """The held records of (default, best), where they make a search needless."""
    first, found = held.get(wanted[0]), held.get(wanted[1])
    if first is None or found is None and order.tune:
        return None
    if found is not None and order.tune and not (found.proof or found.searched >= budget_trials(order)):
        return None
    return Solved(first, found or replace(first, key=wanted[1]), True)


def with_held(solved: Solved, held: Mapping[Key, Record]) -> Solved:
    """What was found, joined with what was known: a second search with another strategy or seed never makes a model slower."""
    default, best = (join(r, held[r.key]) if r.key in held else r for r in (solved.default, solved.best))
    return replace(solved, default=default, best=best, trust=solved.trust if best.trace == solved.best.trace else None)


def holds(record: Record, task: Task, machine: Machine) -> bool:
    """True where the record's trace still makes a program of the recorded time."""
    try:
        made = measured(task.func, record.trace, machine, task.state)
    except AoecError:
        return False
    return total_ticks(made, machine) == record.ticks


def budget_trials(order: Order) -> int:
    """The trials that a budget asks for; a budget in seconds is satisfied by any search."""
    return int(order.budget[1]) if order.budget[0] == "trials" else 1


def total_ticks(m: Measure, machine: Machine) -> int:
    """Ticks of a measure with all that goes before its first instruction: the launch, and the zeros of what it adds to."""
    return m.ticks + round((m.time_us - m.cycles / machine.clock_mhz) * machine.clock_mhz * TICKS_PER_CYCLE)


def work(missing: dict[Key, Task], machine: Machine, target: str, order: Order) -> Iterable[tuple[Task, Solved | str]]:
    """(task, solved or why not) for tasks that the bank does not answer, in the order in which they end.

    In processes where there are several. After Ctrl-C those under way end with what they have, and KeyboardInterrupt follows them.
    """
    jobs = processes(order, len(missing))
    with interrupt.noted():
        if jobs > 1:
            prepare(machine)
            yield from in_processes(jobs, missing, target, order)
            return
        for task in missing.values():
            if interrupt.asked():
                return
            yield task, attempt(task, machine, order)


def processes(order: Order, tasks: int) -> int:
    """How many processes work on so many tasks: those asked for, else one a core, but none whose start takes longer than its part."""
    worth = tasks if order.tune or order.jobs else max(1, tasks // DEFAULTS_A_START)
    return min(order.jobs or os.cpu_count() or 1, worth)


def in_processes(jobs: int, missing: dict[Key, Task], target: str, order: Order) -> Iterable[tuple[Task, Solved | str]]:
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), interrupt.note_in_worker)
    running: dict[Future[Solved | str | None], Task] = {}
    try:
        with interrupt.deferred():
            running |= {pool.submit(attempt_on, task, target, order): task for task in missing.values()}
        while running:
            for future in wait(running, POLL_S, FIRST_COMPLETED).done:
                task, solved = running.pop(future), future.result()
                if solved is not None:
                    yield task, solved
            if interrupt.asked():
                running = {f: t for f, t in running.items() if not f.cancel()}
                interrupt.pass_on()
    except BrokenProcessPool:
        raise BackendError("a worker process died, as happens without enough memory; fewer --jobs would help") from None
    finally:
        if running:
            interrupt.end_workers()
        pool.shutdown(wait=True, cancel_futures=True)  # its thread is gone before Python ends, which else may wake it on a closed pipe


def attempt_on(task: Task, target: str, order: Order) -> Solved | str | None:
    """`attempt` in a worker process; None where the user has asked to stop before it began."""
    return None if interrupt.asked() else attempt(task, load(target), order)


def attempt(task: Task, machine: Machine, order: Order) -> Solved | str:
    """Default and best of one task by this machine's model, or why there is no schedule."""
    try:
        p = problem(task.func, machine, task.state)
        first = start(p)
    except (UnsupportedError, ScheduleError) as e:
        return str(e)
    found = search(p, first, order.strategy, order.budget, order.seed, lambda r: interrupt.asked()) if order.tune else first
    if order.tune:
        found = weighed(p, found, order.robust)
    default_key, best_key = keys(task, machine, order.robust)
    common = dict(label=task.label, default_ticks=first.default_ticks, bound_ticks=first.bound_ticks, tool="aoec " + version("aoec"),
                  created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), func=show(replace(task.func, name="f")))
    default = Record(key=default_key, trace=show(p.trace(first.default)), ticks=first.default_ticks, search="default", **common)  # type: ignore[arg-type]
    best = Record(key=best_key, trace=show(p.trace(found.best)), ticks=found.ticks, trials=found.trials, searched=found.trials,
                  seed=order.seed, search=order.strategy if order.tune else "default", proof=found.proof, **common)  # type: ignore[arg-type]
    story = kept(told(p, found), best) if order.tune else None
    ended = {status.value: n for status, n in p.ledger.counts().items()}
    return Solved(default, best, False, found.trials, found.trust, ended, story=story)
