"""Times of launches in a lattice. They come from schedules that are searched when a search of plans asks for them, and from bounds
before."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.states import state_text
from aoec.jobs.tune.made import func_as_recorded, measure_trace
from aoec.jobs.tune.order import Solved
from aoec.jobs.tune.tuning import bound_in
from aoec.search.plans.cheapest import Price
from aoec.search.plans.decide import NEVER, Asked
from aoec.search.plans.lattice import Launch
from aoec.search.plans.recency import State
from aoec.search.proof.bounds import size_bytes
from aoec.target.machine import Machine

At = tuple[str, str]  # the key of a func, and a state of L2 as text
Solve = Callable[[Sequence[Task]], Mapping[At, "Solved | str"]]  # tasks -> their schedules, or why they have none


class PlanPrices:
    """Prices of launches. `tasks`: of each work what is to be scheduled. `solved`: schedules that are known."""

    def __init__(self, machine: Machine, solve: Solve) -> None:
        self.machine, self.solve = machine, solve
        self.tasks: dict[str, Task] = {}
        self.solved: dict[At, Solved] = {}
        self._known: dict[At, Price] = {}
        self._least: dict[At, Price] = {}

    def known_price(self, launch: Launch, state: State) -> Price | None:
        """Return what a launch takes by its schedule. Return None where none was searched, NEVER where there is none."""
        return self._known.get((launch.work, state_text(state)))

    def least_price(self, launch: Launch, state: State) -> Price:
        """Return what no schedule of a launch beats, or what its best takes where that is proved."""
        at = launch.work, state_text(state)
        found = self.solved.get(at)
        return self._known[at] if at in self._known and (found is None or found.best.proof) else self._bound(launch.work, state)

    def floor_price(self, launch: Launch) -> Price:
        """Return what no schedule of a launch beats, whatever L2 holds."""
        func = self.tasks[launch.work].func
        return self._bound(launch.work, tuple((b.name, size_bytes(b)) for b in func.inputs))

    def _bound(self, work: str, state: State) -> Price:
        """Return the bound of a func from a state of L2."""
        at = work, state_text(state)
        if at not in self._least:
            found = bound_in(self.tasks[work].func, self.machine, state)
            self._least[at] = Price(found.cycles / self.machine.clock_mhz, found.queued_cycles / self.machine.clock_mhz)
        return self._least[at]

    def learn(self, task: Task, solved: Solved | str) -> None:
        """Take note of the schedule of a task, or that it has none."""
        at = task.func_key, task.state_text
        if isinstance(solved, str):
            self._known[at] = NEVER
            return
        m = measure_trace(func_as_recorded(task.func, solved.best), solved.best.trace, self.machine, task.state)
        self.solved[at] = solved
        self._known[at] = Price(m.time_us, min(self.machine.queue_gap_us, m.launch_us) + m.run_us)

    def settle(self, asked: Sequence[Asked]) -> None:
        """Search schedules of launches, each from a state of L2."""
        wanted = {(launch.work, state_text(state)): replace(self.tasks[launch.work], state=state) for launch, state in asked}
        found = self.solve(list(wanted.values()))
        for at, task in wanted.items():
            self.learn(task, found[at])
