"""All that a run writes of its results: AOE's files of its kinds of tuning, and what is in the compiled model."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.files.files import write_text
from aoec.cann.op_types import type_of
from aoec.jobs.choose.model_tasks import host_times
from aoec.jobs.compile.structure import structure_of
from aoec.jobs.deliver.profile import TaskLine
from aoec.jobs.results.opat_file import left_out
from aoec.jobs.results.result_file import Done, Ended, Further, ResultFile, RunPlace, Searched
from aoec.jobs.tune.solve import total_ticks
from aoec.lowering.arrange.slices import pieces
from aoec.report.results.compiled import GearModel, Launch, Operator, text
from aoec.report.results.folder import COMPILED

if TYPE_CHECKING:
    from aoec.ir.graph.graph import Graph
    from aoec.jobs.choose.formats import Change, Found
    from aoec.jobs.compile.compiled_model import Made
    from aoec.target.machine import Machine


@dataclass(frozen=True)
class Trials:
    """What hears of models that are only tried: that their tasks were searched, and nothing else."""

    searched: Searched

    def hear_tasks(self, graphs: Sequence[Graph], done: Done) -> Done:
        """Return what is called for each distinct task that is done, and passes that on to `done`."""
        return self.searched.hear_tasks(graphs, done)

    def hear_layouts(self, found: Sequence[Change], every: Found) -> None:
        """Do nothing."""

    def aside(self) -> Trials:
        """Return what hears of a further trial."""
        return self


@dataclass(frozen=True)
class RunFiles:
    """The files of one run. `members`: AOE's, one of each kind of tuning."""

    place: RunPlace
    name: str
    machine: Machine
    members: tuple[ResultFile, ...]
    searched: Searched = field(default_factory=Searched)

    def hear_tasks(self, graphs: Sequence[Graph], done: Done) -> Done:
        """Return what is called for each distinct task that is done, and passes that on to `done`."""
        for member in self.members:
            done = member.hear_tasks(graphs, done)
        return self.searched.hear_tasks(graphs, done)

    def hear_layouts(self, found: Sequence[Change], every: Found) -> None:
        """Note changes of layouts that pay."""
        for member in self.members:
            member.hear_layouts(found, every)

    def aside(self) -> Trials:
        """Return what hears of a model that is only tried."""
        return Trials(self.searched)

    @property
    def further(self) -> tuple[Further, ...]:
        """Return what kinds of tuning have to say below the table of the compile, once files are closed."""
        return tuple(found for member in self.members if (found := member.further()) is not None)

    def write_pages(self, folder: Path) -> dict[str, str]:
        """Write the pages of kinds of tuning beside that of the model, once files are closed. Return name by title."""
        return dict(found for member in self.members if (found := member.write_page(folder)) is not None)

    def close(self, ended: Ended) -> tuple[str, ...]:
        """Write all files whole. Return in words what new results the job found, by kind of tuning."""
        new = tuple(filter(None, [member.close(ended, self.searched) for member in self.members]))
        gears = [gear_model(m, self.machine, ended.metric) for m in ended.models]
        left = [p for p, _ in left_out(ended.models, self.searched, self.machine)]
        self.place.folder.mkdir(parents=True, exist_ok=True)
        write_text(self.place.folder / COMPILED, text(self.name, self.machine.name, gears, left))
        return new


def gear_model(made: Made, machine: Machine, metric: str) -> GearModel:
    """Return what is in a compiled model: its operators in order, each with its launches."""
    graph, us, host_us, of = made.model.graph, machine.us_per_tick, host_times(made.model.graph), pieces(made.model.graph)
    choices = {c.task.group.name: c for c in made.choices}
    listed: dict[str, list[Launch]] = {}
    for p in TaskLine(made, machine, True).places:
        name, c = p.group.name, choices.get(p.group.name)
        both = (c.solved.default.ticks * us, total_ticks(c.best.measure, machine) * us) if c else (host_us[name], host_us[name])
        launch = Launch(name, p.group.kind, p.passes, *both, p.start_us, p.stop_us)
        listed.setdefault(of[name][0] if name in of else name, []).append(launch)
    words = {n.name: n.op for n in graph.nodes}
    nodes = {g.name: g.nodes for g in graph.groups}
    operators = {x.name: x for x in structure_of(made, machine).launches}
    figures = dict(made.artifact.figures)
    return GearModel(made.stage.gear, figures, made.shares(metric), tuple(
        Operator(name, launches[0].kind, operators[name].imported, operators[name].added,
                 tuple(type_of(words[n]) for n in nodes[launches[0].name]), tuple(launches)) for name, launches in listed.items()))
