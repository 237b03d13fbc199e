"""Report on a compiled training step: how long its phases take, and what memory it needs."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aoec.frontend.training.phases import ORDER, Phase, phases
from aoec.frontend.training.training import find_gradients, find_loss
from aoec.ir.graph.graph import Graph
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.compile.compiled_model import Choice, Lines
from aoec.jobs.compile.step_memory import StepMemory, step_memory


@dataclass(frozen=True)
class Launch:
    """A launch of a step, or the host's work in its place: its group, its phase, and how long it occupies the device, in µs."""

    group: str
    phase: Phase
    us: float


def launch_times(graph: Graph, choices: Sequence[Choice], lines: Lines) -> dict[str, float]:
    """Return group -> modelled µs from the end of the launch before to its own end, in a step that follows another. Groups on the host have
    their estimate."""
    times: dict[str, float] = host_times(graph)
    before = 0.0
    for choice, (_, end) in zip(choices, lines.tuned.steady_us, strict=True):
        times[choice.task.group.name] = end - before
        before = end
    return times


def launches_of(graph: Graph, times: Mapping[str, float], loss: str, gradients: Sequence[tuple[str, str]]) -> list[Launch]:
    """Return the launches of a step in order of phases. A launch with results of several phases belongs to the last of them."""
    of = phases(graph, loss, [g for _, g in gradients])
    nodes = {n.name: n for n in graph.nodes}
    found = [Launch(g.name, max((of[o] for name in g.nodes for o in nodes[name].outputs if o), key=ORDER.index), times.get(g.name, 0.0))
             for g in graph.groups if g.kind != "view"]
    return sorted(found, key=lambda launch: ORDER.index(launch.phase))


@dataclass(frozen=True)
class StepFigures:
    """A training step of so many gradients: the time of its phases in modelled µs, and its memory."""

    gradients: int
    us: Mapping[Phase, float]
    memory: StepMemory

    def figures(self) -> tuple[tuple[str, int], ...]:
        """Return all of it as an artifact keeps it."""
        return (*((f"{phase}_ns", round(us * 1000)) for phase, us in self.us.items()), ("peak_hbm_bytes", self.memory.peak),
                ("kept_bytes", self.memory.kept))

    def sentences(self) -> tuple[str, ...]:
        """Return all of it in words."""
        phases_us = ", ".join(f"{phase} {us:,.1f}" for phase, us in self.us.items())
        return (f"training step, modelled: {sum(self.us.values()):,.1f} us ({phases_us}); {self.gradients} gradients",
                self.memory.sentence())


def step_figures(graph: Graph, choices: Sequence[Choice], lines: Lines) -> StepFigures | None:
    """Return what is said of a compiled graph that is a training step. Return None for another."""
    gradients = find_gradients(graph)
    memory = step_memory(graph)
    if memory is None:
        return None
    us: dict[Phase, float] = dict.fromkeys(ORDER, 0.0)
    for launch in launches_of(graph, launch_times(graph, choices, lines), find_loss(graph), gradients):
        us[launch.phase] += launch.us
    return StepFigures(len(gradients), us, memory)
