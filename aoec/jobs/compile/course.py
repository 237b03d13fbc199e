"""Progress of the tasks of a job, for a line on a terminal and a stream of events, with an estimate of how long the rest may take."""
from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from importlib.metadata import version
from typing import Any

from aoec.bank.record import Key
from aoec.base.text import plural
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.events import Events
from aoec.jobs.progress import Line
from aoec.jobs.tune.budget import as_dict, words
from aoec.jobs.tune.order import Order, SoFar, Solved
from aoec.target.machine import Machine

SURE = 0.02  # the part of the work before which nobody can say how long the rest takes
CHECK_S = 0.002  # seconds for a modelled microsecond on a core: ResNet-50's 31 schedules take 4 s on 20 cores
SEARCHED = 0.9  # of a task, when its budget is spent: its holes are settled then, and its best timed on other machines


class Course:
    """`tasks`: of the whole job, by the key of their best; what is not searched is done before the first search begins.

    `check_s`: seconds that the check of a schedule's values takes for each of its modelled microseconds; 0 where none is checked.
    """

    def __init__(self, tasks: Mapping[Key, Task], order: Order, us_per_tick: float, line: Line, events: Events,
                 clock: Callable[[], float] = time.monotonic, check_s: float = 0.0) -> None:
        self._tasks, self._order, self._us, self._line, self._events, self._clock = tasks, order, us_per_tick, line, events, clock
        self._done, self._check_s = 0, check_s
        self._checked: dict[Key, float] = {}  # modelled microseconds of the schedules of tasks, as far as they are known; 0: checked before
        self._parts: dict[Key, float] = {}  # of each task that takes its time, how much is done
        self._since = clock()

    def searching(self, keys: Collection[Key]) -> None:
        """Begin work on these tasks; all others are done."""
        self._since = self._clock()
        self._parts = dict.fromkeys(keys, 0.0)

    def heard(self, key: Key, so_far: SoFar | None) -> None:
        """Report that a task was begun (None), or how far it is."""
        task = self._tasks[key]
        if so_far is None:
            self._events.say("task_started", task=task.group.name, what=task.label)
            return
        self._parts[key] = SEARCHED * min(1.0, so_far.part)
        best, default, bound = (n * self._us for n in (so_far.ticks, so_far.default_ticks, so_far.bound_ticks))
        self._checked[key] = best
        left = self.left_s
        self._events.say("task_progress", task=task.group.name, trials=so_far.trials, search_seconds=round(so_far.seconds, 3),
                         default_us=default, best_us=best, bound_us=bound, left_seconds=left)
        self._line(f"{task.group.name} {plural(so_far.trials, 'trial')}, {best:.2f} us modelled", self._done, left)

    def done(self, task: Task, solved: Solved) -> None:
        """Report that a task is done, with its outcome and times."""
        default, best, bound = (n * self._us for n in (solved.default.ticks, solved.best.ticks, solved.best.bound_ticks))
        self._end(solved.best.key)
        self._checked[solved.best.key] = 0.0 if solved.best.verified else best
        self._events.say("task_finished", task=task.group.name, what=task.label, outcome=solved.outcome.value, found_in_bank=solved.found,
                         stopped=solved.stopped, default_us=default, tuned_us=best, bound_us=bound, trials=solved.trials,
                         spent=as_dict(solved.spent), proof=solved.best.proof, done=self._done, of=len(self._tasks),
                         left_seconds=self.left_s)
        self._line(f"{task.group.name} {default:.2f} -> {best:.2f} us modelled", self._done, self.left_s)

    def fail(self, key: Key, reason: str) -> None:
        """Report that a task has no schedule, and why."""
        self._end(key)
        self._events.say("task_failed", task=self._tasks[key].group.name, what=self._tasks[key].label, reason=reason)

    @property
    def left_s(self) -> float | None:
        """Return seconds that the rest may take, with the checks of values, if it goes on at the same speed. Return None where too little
        is done to tell."""
        part = sum(self._parts.values()) / len(self._parts) if self._parts else 1.0
        return None if part < SURE else round((self._clock() - self._since) * (1 - part) / part + self._checks_s, 1)

    @property
    def _checks_s(self) -> float:
        """Return seconds that the checks of all schedules may take, those that are not known yet being like the others."""
        known = self._checked.values()
        return self._check_s * sum(known) * len(self._tasks) / len(known) if known else 0.0

    def _end(self, key: Key) -> None:
        self._done += 1
        if key in self._parts:
            self._parts[key] = 1.0


def first_event(model: str, machine: Machine, order: Order, tasks: int) -> dict[str, Any]:
    """Return what the first event says."""
    budget = words(order.budget) if order.seconds is None else {"seconds": order.seconds}
    return {"format": "aoec events 1", "times": "modelled", "tool": "aoec " + version("aoec"), "model": model, "target": machine.name,
            "tune": order.tune, "search": order.strategy, "budget": budget, "seed": order.seed, "tasks": tasks}
