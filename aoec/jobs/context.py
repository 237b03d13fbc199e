"""Context that the steps of a compile share: the machine, the options, the messages, and where results are kept."""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aoec.jobs.compile.models import Pool
from aoec.jobs.events import Events
from aoec.jobs.tune.order import Order
from aoec.jobs.tune.resume import Unfinished
from aoec.jobs.tune.shares import FIRST, JobTime
from aoec.jobs.voice import Quiet, Voice
from aoec.target.machine import Machine

if TYPE_CHECKING:
    from aoec.bank.bank import Bank
    from aoec.jobs.results.run_files import RunFiles, Trials
    from aoec.options.compile import CompileOptions


@dataclass(frozen=True)
class Context:
    """What is known before anything is searched. `pool`: constants that several gears share, where there are several."""

    machine: Machine
    options: CompileOptions
    voice: Voice
    events: Events = field(default_factory=lambda: Events(None))
    pool: Pool | None = None


@dataclass(frozen=True)
class Job(Context):
    """A job with its bank. `title`: the name of the model. `runs`: what is searched in the bank's journal, the whole job first; it grows
    with each further search."""

    title: str = ""
    order: Order = Order(False)
    clock: JobTime = field(default_factory=lambda: JobTime(None))
    runs: list[Unfinished] = field(default_factory=list)
    results: RunFiles | Trials | None = None

    @classmethod
    def begin(cls, context: Context, bank: Bank, order: Order, title: str, share: bool = False) -> Job:
        """Return a job with its first searches. `share`: a part of its time is left for other layouts."""
        clock = JobTime(order.seconds)
        whole = Unfinished(bank, order.by(clock.deadline))
        first = whole.another(order.by(clock.until(FIRST if share else 1.0)))
        return cls(context.machine, context.options, context.voice, context.events, context.pool, title, order, clock, [whole, first])

    @property
    def bank(self) -> Bank:
        """Return the bank, over what lies beneath it."""
        return self.runs[0].bank

    def another_run(self, order: Order) -> Unfinished:
        """Return a further search of this job in the bank's journal."""
        self.runs.append(self.runs[0].another(order))
        return self.runs[-1]

    def trial(self, **changes: Any) -> Job:
        """Return the same job for a model that is only tried. Nothing is reported of it, and result files are told only which tasks were
        searched. `changes`: those of its options."""
        results = self.results.aside() if self.results else None
        return replace(self, voice=Quiet(self.voice.as_json, self.voice.bar), results=results, options=replace(self.options, **changes))

    def end(self) -> None:
        """Note that the job has ended."""
        for run in self.runs:
            run.end()
