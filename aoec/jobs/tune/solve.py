"""Schedules for tasks: from the bank, else the default, else a search. Equal tasks are solved once, and each result is kept at once."""
from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue

from aoec.bank.bank import Bank
from aoec.bank.record import Key, Record, join
from aoec.base.errors import AoecError, BackendError, BankError
from aoec.base.process.garbage import seldom_collected
from aoec.base.process.heap import give_back
from aoec.base.process.processors import few_threads, keep_to, share_of
from aoec.base.ticks import TICKS_PER_CYCLE
from aoec.ir.text.show import show
from aoec.jobs import interrupt
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.choose.refusal import IllegalProgram, refusal
from aoec.jobs.compile.course import Course
from aoec.jobs.tune.budget import Budget, limits, seconds_of
from aoec.jobs.tune.made import func_as_recorded, measure_trace, realise
from aoec.jobs.tune.order import Order, SoFar, Solved, budget_trials, keys, search_of, suffices
from aoec.jobs.tune.resume import Search, Unfinished
from aoec.jobs.tune.shares import NO_TIME, Share, shares
from aoec.jobs.tune.starts import candidates
from aoec.jobs.tune.story import keep_story, story_of
from aoec.jobs.tune.tuning import Outcome, Problem, bound_in, problem, search, start
from aoec.jobs.tune.weigh import weigh
from aoec.jobs.verify.legal import schedule_legal
from aoec.search.strategies.run import Result
from aoec.simulate.timing.time import Measure
from aoec.target.machine import Machine, load

NAMED = 5  # groups in a sentence
STARTED = 4  # worker processes, at most, that start before there is work for them
POLL_S = 0.5  # how soon Ctrl-C is seen while others work
Hear = Callable[[Key, SoFar | None], None]  # a task was begun, or is so far
_words: SimpleQueue[tuple[Key, SoFar | None]] | None = None  # of a worker process: what it says to the one that began it
DEFAULTS_A_START = 4  # schedules found without a search while a process starts, imports and loads its kernels: about 1.5 s


def unheard(key: Key, so_far: SoFar | None) -> None:
    """Do nothing: nobody listens."""


def solve(tasks: Iterable[Task], machine: Machine, target: str, bank: Bank, order: Order, done: Callable[[Task, Solved], None],
          job: Unfinished | None = None, course: Course | None = None) -> tuple[dict[Key, Solved], dict[Key, str]]:
    """Return (solved, reasons) by best key, for every distinct task. `done` is called for each as it comes, and results go into the bank at
    once.

    A task without a legal schedule is no failure of the job: it is not in the first, and has its reason in the second. `job`: the notes of
    the job, from which it can resume. `course` is told how far searches are, and which tasks fail.
    """
    job = job or Unfinished(bank, order, noted=False)
    missing: dict[Key, Task] = {}
    weights: dict[Key, float] = {}
    for task in tasks:
        key = keys(task, machine, order.robust)[1]
        missing.setdefault(key, task)
        if order.deadline is not None:
            weights[key] = weights.get(key, 0.0) + bound_in(task.func, machine, task.state).ticks
    wanted = [k for t in missing.values() for k in keys(t, machine, order.robust)]
    claimed = bank.claims(wanted, job.before(bank.all_of(wanted)))
    held: dict[Key, Record] = {}
    out: dict[Key, Solved] = {}
    reasons: dict[Key, str] = {}
    for key, task in list(missing.items()):
        held |= held_records(bank, claimed, task, machine, order.robust)
        known = None if order.repeat or job.done(key) else enough(held, keys(task, machine, order.robust), order)
        if known is not None and not runs(known.best, task, machine):
            known = None
            drop(bank, held, keys(task, machine, order.robust))
        if known is not None:
            out[key] = replace(known, held=held.get(key))
            done(missing.pop(key), out[key])
    for key, task in list(missing.items()):
        if (ended := job.done(key)) and holds(ended.default, task, machine) and holds(ended.best, task, machine) \
                and runs(ended.best, task, machine):
            out[key] = with_held(ended, held)
            done(missing.pop(key), out[key])
    if order.frozen and missing:
        raise BankError(not_in_bank(list(missing.values()), bank))
    if order.tune and missing and not bank.writable:
        raise BankError(f"bank {bank.path} is read-only here, so what a search of {len(missing)} groups finds could not be kept; "
                        "name another with --bank, or make it writable")
    if course:
        course.searching(missing)
    for task, solved in work(missing, weights, machine, target, order, job, course.heard if course else unheard):
        key = keys(task, machine, order.robust)[1]
        if isinstance(solved, str):
            reasons[key] = solved
            job.fail(key)
            if course:
                course.fail(key, solved)
            continue
        out[key] = replace(with_held(solved, held), held=held.get(key))
        job.keep(out[key], held.get(key))
        done(task, out[key])
    return out, reasons


def not_in_bank(missing: Sequence[Task], bank: Bank) -> str:
    """Return what --frozen says of tasks that would have to be searched."""
    named = ", ".join(f"{t.group.name} ({t.label})" for t in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    gone = "" if bank.path.exists() else ", which is not there,"
    return f"bank {bank.path}{gone} has no schedule, or none of this effort, for {len(missing)} of the groups, and --frozen " \
           f"forbids to search: {named}{more}"


def held_records(bank: Bank, claimed: Mapping[Key, Record], task: Task, machine: Machine, robust: bool = False) -> dict[Key, Record]:
    """Return those of the bank's claims about a task that are true. Each is timed first. One that is not true is dropped, to make room for
    one that is."""
    out = {}
    for record in filter(None, map(claimed.get, keys(task, machine, robust))):
        if not (why := unlike(record, task, machine)):
            out[record.key] = record
            continue
        bank.leave_out(record, why)
        if bank.writable:
            bank.drop([record])
    return out


def enough(held: Mapping[Key, Record], wanted: tuple[Key, Key], order: Order) -> Solved | None:
    """Return the held records of (default, best), where they make a search needless."""
    first, found = held.get(wanted[0]), held.get(wanted[1])
    if first is None or found is None and order.tune:
        return None
    if found is not None and order.tune and not suffices(found, order):
        return None
    return Solved(first, found or replace(first, key=wanted[1]), True)


def with_held(solved: Solved, held: Mapping[Key, Record]) -> Solved:
    """Return what was found, joined with what was known: a second search with another strategy or seed never makes a model slower."""
    default, best = (join(r, held[r.key]) if r.key in held else r for r in (solved.default, solved.best))
    return replace(solved, default=default, best=best, trust=solved.trust if best.trace == solved.best.trace else None)


def holds(record: Record, task: Task, machine: Machine) -> bool:
    """Return True where the record's trace still makes a program of the recorded time."""
    return not unlike(record, task, machine)


def unlike(record: Record, task: Task, machine: Machine) -> str:
    """Return why a record's claim is not true, "" where it is. A claim is not true where its schedule makes no program, or one of another
    time."""
    try:
        ticks = total_ticks(measure_trace(func_as_recorded(task.func, record), record.trace, machine, task.state), machine)
    except AoecError as e:
        return f"its schedule cannot be used ({str(e).splitlines()[0]})"
    return "" if ticks == record.ticks else "its schedule takes another time than it says"


def runs(record: Record, task: Task, machine: Machine) -> bool:
    """Return True where the program of a record's trace is legal on its machine. A record that was verified is not checked again."""
    try:
        if not record.verified and not task.own:
            schedule_legal(func_as_recorded(task.func, record), record.trace, machine)
    except IllegalProgram:
        return False
    return True


def drop(bank: Bank, held: dict[Key, Record], which: Iterable[Key]) -> None:
    """Drop these records from those held, and from the bank where it can be written. So new results can take their place."""
    gone = [held.pop(key) for key in which if key in held]
    if bank.writable:
        bank.drop(gone)


def total_ticks(m: Measure, machine: Machine) -> int:
    """Return ticks of a measure with everything before its first instruction: the launch, and the zeroing of tensors that it adds to."""
    return m.ticks + round((m.time_us - m.cycles / machine.clock_mhz) * machine.clock_mhz * TICKS_PER_CYCLE)


def work(missing: dict[Key, Task], weights: Mapping[Key, float], machine: Machine, target: str, order: Order, job: Unfinished,
         hear: Hear) -> Iterable[tuple[Task, Solved | str]]:
    """Yield (task, solved or why not) for tasks that the bank does not answer, in the order in which they end.

    In processes where there are several. After Ctrl-C those under way end with what they have, and KeyboardInterrupt follows them. Where
    there is a deadline the heaviest come first, and each search has its share of the time.
    """
    jobs = processes(order, len(missing))
    todo = [Todo(task, job.search(key), budget_of(order, key)) for key, task in missing.items()]
    if jobs > 1 and order.tune:  # so that no long one is left alone at the end
        todo.sort(key=lambda one: (one.task.group.kind != "cube", -bound_in(one.task.func, machine, one.task.state).ticks))
    if order.deadline is not None and order.tune:
        heavy = sorted(missing, key=lambda key: -weights[key])
        todo = [Todo(missing[key], job.search(key), share) for key, share in
                zip(heavy, shares([weights[key] for key in heavy], jobs, order.deadline))]
    with interrupt.note_interrupts():
        if jobs > 1:
            yield from in_processes(jobs, todo, target, order, hear)
            return
        for one in todo:
            if interrupt.is_asked():
                return
            yield one.task, attempt(one.task, machine, order, one.noted, hear, one.budget)


@dataclass(frozen=True)
class Todo:
    """A task, its search in the journal, and what that may spend."""

    task: Task
    noted: Search | None
    budget: Budget | Share


def budget_of(order: Order, key: Key) -> Budget | Share:
    """Return the budget of a task's search. It is what the search had in the run that this one repeats, perhaps no time, else the common
    budget."""
    found = order.counts.get(search_of(key), order.budget)
    return NO_TIME if found is None else found


def processes(order: Order, tasks: int) -> int:
    """Return how many processes work on so many tasks: those asked for, else one for each core. A process is left out where its start takes
    longer than its part of the work."""
    worth = tasks if order.tune or order.jobs else max(1, tasks // DEFAULTS_A_START)
    return min(order.jobs or os.cpu_count() or 1, worth)


class Workers:
    """So many worker processes at most, each of which starts when there is work that no other is free for."""

    def __init__(self, jobs: int) -> None:
        context = get_context("spawn")
        self.jobs, self._are_started = jobs, False
        self._words: SimpleQueue[tuple[Key, SoFar | None]] = context.SimpleQueue()
        self.pool = ProcessPoolExecutor(jobs, context, begin_worker, (self._words,))

    def start(self) -> None:
        """Start the first few workers."""
        if not self._are_started:
            self._are_started = True
            with interrupt.defer_interrupts(), few_threads(share_of(self.jobs)):
                for _ in range(min(self.jobs, STARTED)):
                    self.pool.submit(note_start)

    def take_words(self) -> Iterator[tuple[Key, SoFar | None]]:
        """Yield what they have said by now, once."""
        while not self._words.empty():
            yield self._words.get()

    def end(self) -> None:
        """End the workers and the pool's thread. That thread may else be woken on a closed pipe when Python ends."""
        self.pool.shutdown(wait=True, cancel_futures=True)


_kept: ContextVar[Workers | None] = ContextVar("kept", default=None)  # of all searches of a job


@contextmanager
def keep_workers(jobs: int | None) -> Iterator[None]:
    """Keep worker processes for all searches inside the block, and end them at its end. There are `jobs` at most (None: one for each
    core)."""
    workers = Workers(jobs or os.cpu_count() or 1)
    token = _kept.set(workers)
    try:
        yield
    finally:
        _kept.reset(token)
        workers.end()


def start_workers() -> None:
    """Start the worker processes that are kept. They start while this process does its work before the searches."""
    workers = _kept.get()
    if workers is not None and workers.jobs > 1:
        workers.start()


def note_start() -> None:
    """Do nothing. This is a worker's first task: the worker has then imported everything that it needs."""


def in_processes(jobs: int, todo: Sequence[Todo], target: str, order: Order, hear: Hear) -> Iterable[tuple[Task, Solved | str]]:
    kept = _kept.get() if order.tune else None
    workers, share = kept or Workers(jobs), share_of(jobs)
    running: dict[Future[Solved | str | None], Task] = {}
    try:
        with interrupt.defer_interrupts(), few_threads(share):
            running |= {workers.pool.submit(attempt_on, one, target, order, share): one.task for one in todo}
        while running:
            ended = wait(running, POLL_S, FIRST_COMPLETED).done
            for words in workers.take_words():
                hear(*words)
            for future in ended:
                task, solved = running.pop(future), future.result()
                if solved is not None:
                    yield task, solved
            if interrupt.is_asked():
                running = {f: t for f, t in running.items() if not f.cancel()}
                interrupt.pass_on()
    except BrokenProcessPool:
        raise BackendError("a worker process died, as happens without enough memory; fewer --jobs would help") from None
    finally:
        if running:
            interrupt.end_workers()
        for _ in workers.take_words():  # nobody asks for it any more
            pass
        if kept is None:
            workers.end()


def begin_worker(words: SimpleQueue[tuple[Key, SoFar | None]]) -> None:
    """Set up this worker process: it takes Ctrl-C as the others do, and reports how far its searches are."""
    global _words
    _words = words
    atexit.register(os._exit, 0)  # what it has in memory would else be freed piece by piece, which takes half a second
    interrupt.note_in_worker()


def attempt_on(one: Todo, target: str, order: Order, share: int) -> Solved | str | None:
    """Return `attempt` in a worker process with its share of processors. Return None where the user has asked to stop before it began."""
    keep_to(share)
    return None if interrupt.is_asked() else attempt(one.task, load(target), order, one.noted, say, one.budget)


def say(key: Key, so_far: SoFar | None) -> None:
    """Tell the process that started this worker how far a search is."""
    if _words is not None:
        _words.put((key, so_far))


@seldom_collected()
def attempt(task: Task, machine: Machine, order: Order, noted: Search | None = None, hear: Hear = unheard,
            budget: Budget | Share | None = None) -> Solved | str:
    """Return the default and the best schedule of one task by this machine's model, or why there is no schedule. `noted`: the task's search
    in the bank's journal. `budget`: what the search may spend, by default the order's."""
    default_key, best_key = keys(task, machine, order.robust)
    hear(best_key, None)
    try:
        p = problem(task.func, machine, task.state)
        with noted.answers() if noted else p.answers as p.answers:
            first, found = search_problem(p, order, order.starts.get(task.func_key, ()), lambda so_far: hear(best_key, so_far),
                                          budget or order.budget)
        best_trace = show(p.trace(found.best))
        if not task.own:
            schedule_legal(task.func, best_trace, machine)
    except Exception as e:
        said = refusal(e)
        if noted and noted.again:  # what is noted may have been changed by anybody
            return attempt(task, machine, order, replace(noted, again=False), hear, budget)
        return said
    stopped = interrupt.is_asked()
    if noted and noted.again and not (p.takes(first.default, first.default_ticks) and p.takes(found.best, found.ticks)):
        return attempt(task, machine, order, replace(noted, again=False), hear, budget)
    common = dict(label=task.label, default_ticks=first.default_ticks, bound_ticks=first.bound_ticks, tool="aoec " + version("aoec"),
                  created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), func=show(replace(task.func, name="f")))
    default = Record(key=default_key, trace=show(p.trace(first.default)), ticks=first.default_ticks, search="default", **common)  # type: ignore[arg-type]
    was_searched = found.spent.limits is not None
    whole = bool(found.proof) or order.strategy == "proof" and not stopped
    effort = budget_trials(order) if was_searched and whole else 0  # of a proof, which has no trials
    best = Record(key=best_key, trace=best_trace, ticks=found.ticks, trials=found.trials, searched=max(found.trials, effort),
                  seed=order.seed, search=order.strategy if was_searched else "default", proof=found.proof, **common)  # type: ignore[arg-type]
    story = keep_story(story_of(p, found), best) if was_searched else None
    for record in (default, best):  # a compile asks for both, and looks up what a worker process has made
        realise(task.func, record.trace, machine, task.state)
    ended = {status.value: n for status, n in p.ledger.counts().items()}
    spent = replace(found.spent, candidates={phase.value: n for phase, n in p.ledger.by_phase().items()})
    return Solved(default, best, False, spent, found.trust, ended, story=story, stopped=stopped and order.tune)


def search_problem(p: Problem, order: Order, known: Sequence[str], tell: Callable[[SoFar], None],
                   budget: Budget | Share) -> tuple[Outcome, Outcome]:
    """Return (the default, the best that was found and how far it holds); `known`: schedules to begin with."""
    first = start(p)
    if isinstance(budget, Share):
        budget = "seconds", budget.seconds()
    if not order.tune or seconds_of(budget) == 0:
        return first, first
    most, seconds = limits(budget).trials, seconds_of(budget)
    told_at = float("-inf")

    def watch(result: Result) -> bool:
        nonlocal told_at
        fastest = p.ledger.best[0][0]
        if (now := time.monotonic()) - told_at >= POLL_S:
            told_at = now
            part = p.answers.seconds / seconds if seconds is not None else result.trials / max(1, most or 1)
            tell(SoFar(result.trials, p.answers.seconds, fastest, first.default_ticks, first.bound_ticks, min(1.0, part)))
        return interrupt.is_asked() or order.is_reached(fastest, first.default_ticks, first.bound_ticks)

    found = weigh(p, search(p, first, order.strategy, budget, order.seed, watch, candidates(p, known)), order.robust)
    give_back()  # tables of other sizes come next
    return first, found
