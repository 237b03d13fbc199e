"""Orders of searches: what is asked of a search, how far it is, the outcome for a task, and its keys in a bank."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from aoec.bank.record import DEFAULT, ROBUST, Key, Record
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.tune.budget import Budget, Spent, trials_of
from aoec.jobs.tune.counts import Counts, read
from aoec.jobs.tune.story import Story
from aoec.jobs.tune.trust import Trust
from aoec.jobs.version import model_version
from aoec.options.compile import CompileOptions
from aoec.report.results.opat import Outcome
from aoec.target.machine import Machine


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
    resume: bool = False  # go on from what is noted of the same job, broken off
    until: tuple[tuple[str, float], ...] = ()  # ("gain" | "gap", per cent): a search ends as soon as one of them is reached
    starts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # func key -> schedules that its search begins with (starts.py)
    seconds: float | None = None  # that the searches of the whole job may take, in place of a budget for each
    deadline: float | None = None  # of time.monotonic(): when those of this part of the job are to end
    counts: Counts = field(default_factory=dict)  # search (named) -> what it had in a run by time, None: it had none

    @classmethod
    def of(cls, options: CompileOptions) -> Order:
        """Return what the options of a command ask for."""
        o = options
        counts = read(o.counts, o.search, o.seed, o.robust) if o.counts else {}
        return cls(o.tune, o.search, ("trials", o.budget), o.seed, o.jobs, o.robust and o.tune, o.repeat, o.frozen, o.resume,
                   tuple(o.until.items()),
                   seconds=o.seconds, counts=counts)

    def by(self, deadline: float | None) -> Order:
        """Return the order with the time by which its searches are to end."""
        return replace(self, deadline=deadline)

    def is_reached(self, ticks: int, default_ticks: int, bound_ticks: int) -> bool:
        """Return whether a schedule is good enough."""
        asked = dict(self.until)
        return "gain" in asked and 100 * (default_ticks - ticks) >= asked["gain"] * default_ticks or \
            "gap" in asked and 100 * (ticks - bound_ticks) <= asked["gap"] * bound_ticks


@dataclass(frozen=True)
class SoFar:
    """Progress of a search: legal trials, seconds since it began, and ticks of the best so far, of the default and of the bound. `part`:
    the part of its budget, or of its time, that is spent."""

    trials: int
    seconds: float
    ticks: int
    default_ticks: int
    bound_ticks: int
    part: float = 0.0


@dataclass(frozen=True)
class Solved:
    """Records of a task's default and best schedule. `found`: both were in the bank already. `spent`: what this run looked at.
    `candidates`: how many of these ended in each status. `held`: the bank's best when the run began, whether or not faster than the
    default. `stopped`: the user ended the search, and the best is the best so far."""

    default: Record
    best: Record
    found: bool
    spent: Spent = field(default_factory=Spent)
    trust: Trust | None = None  # of the best against the default, where this run timed them on seeded machines
    candidates: Mapping[str, int] = field(default_factory=dict)
    held: Record | None = None
    stopped: bool = False
    story: Story | None = None  # of this run's search, where there was one

    @property
    def trials(self) -> int:
        """Return candidates that the strategy of this run's search had timed."""
        return self.spent.trials

    @property
    def before(self) -> Record | None:
        """Return the bank's best when the run began. Return None where the bank had none that is faster than the default. The bank also
        keeps a search that found nothing, with its effort; that is no hit."""
        return gaining(self.held)

    @property
    def outcome(self) -> Outcome:
        """Return what became of the task, as AOE counts it."""
        if self.before is None:
            return Outcome.ADD if self.best.ticks < self.default.ticks else Outcome.UNSATISFIED
        return Outcome.UPDATE if self.best.ticks < self.before.ticks else Outcome.RESERVED


def keys(task: Task, machine: Machine, robust: bool = False) -> tuple[Key, Key]:
    """Return the bank's keys of a task: of its default, and of its best (or of the one that holds best)."""
    best = Key(task.func_key, machine.name, machine.hash, model_version(), task.state_text)
    return replace(best, state=best.state + DEFAULT), replace(best, state=best.state + ROBUST * robust)


def search_of(key: Key) -> str:
    """Return the name by which a run says what it searched: that of the task's func, and its memory state."""
    return f"{key.func_key} {key.state}"


def gaining(record: Record | None) -> Record | None:
    """Return a bank's record that is faster than the default. Return None for any other."""
    return record if record is not None and record.is_faster else None


def budget_trials(order: Order) -> int:
    """Return the trials that a budget asks for; time for the whole job is satisfied by any search."""
    return 1 if order.seconds is not None else trials_of(order.budget)


def suffices(record: Record, order: Order) -> bool:
    """Return whether the bank's record makes a search needless: it is proved, took the effort that is asked for, or reaches the target."""
    return bool(record.proof) or record.searched >= budget_trials(order) or order.is_reached(
        record.ticks, record.default_ticks, record.bound_ticks)
