"""A model on its way through a compile: fused, in groups, with a schedule for each group, compiled."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.artifact.compiled import Artifact, Port
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import Plan
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.compile.models import Weights
from aoec.jobs.stages.stage import Stage
from aoec.jobs.tune.made import Schedule
from aoec.jobs.tune.order import Solved
from aoec.jobs.tune.trust import Trust
from aoec.report.shares import Shares
from aoec.simulate.timing.time import Chain


@dataclass(frozen=True)
class Model:
    """A fused graph with its packed constants and the ports that users see. `plan`: how it was put together; its groups are known once
    each has a schedule. None where the graph was entered in groups."""

    name: str
    precision: str
    graph: Graph
    weights: Weights
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    plan: Plan | None = None


@dataclass(frozen=True)
class Choice:
    """A task with its default and best schedule made real."""

    task: Task
    solved: Solved
    default: Schedule
    best: Schedule
    trust: Trust | None = None  # None where they are the same


@dataclass(frozen=True)
class Ready:
    """A stage, its model in groups, and what of that is to be scheduled."""

    stage: Stage
    model: Model
    tasks: list[Task]


@dataclass(frozen=True)
class Made:
    """A stage compiled: its model, each group's schedules, the whole model's modelled times, and all of that as an artifact."""

    stage: Stage
    model: Model
    choices: list[Choice]
    lines: Lines
    artifact: Artifact
    before: Made | None = None  # what it was in the default plan, if it was

    def shares(self, metric: str) -> Shares:
        """Return what of the gain is whose, by what the model was tuned for."""
        plain = (self.before or self).lines
        lines = (plain.default, plain.tuned, self.lines.tuned)
        times = [line.throughput_us if metric == "throughput" else line.latency_us for line in lines]
        default_ns, opat_ns, compiled_ns = (round(1000 * us) for us in times)
        return Shares(default_ns, opat_ns, compiled_ns, metric)


@dataclass(frozen=True)
class Lines:
    """Whole-model figures, all modelled: one timeline of all groups, by default and as tuned."""

    default: Chain
    tuned: Chain
