"""Interface of a tuning job's result file: what it is told while the job goes on, and at its end."""
from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aoec.base.files.files import check_folder
from aoec.jobs.choose.slices import asked_us
from aoec.report.results.folder import FOLDER
from aoec.report.results.opat import model_of_gear
from aoec.report.shares import Shares

if TYPE_CHECKING:
    from aoec.bank.record import Key
    from aoec.ir.graph.graph import Graph
    from aoec.jobs.choose.formats import Change, Found
    from aoec.jobs.choose.model_tasks import Task
    from aoec.jobs.choose.slice_plans import Planned
    from aoec.jobs.compile.compiled_model import Made, Ready
    from aoec.jobs.tune.order import Solved

Done = Callable[["Task", "Solved"], None]


def results_folder(named: str | Path | None) -> Path:
    """Return where results go: the folder that is named, else $ASCEND_WORK_PATH, else the current directory (AOE's order)."""
    return Path(named or os.environ.get("ASCEND_WORK_PATH") or ".")


@dataclass(frozen=True)
class RunPlace:
    """Where the files of one run are, and what its time and process put into their names."""

    where: Path
    run: str

    @classmethod
    def begin(cls, where: Path, now: datetime) -> RunPlace:
        """Return the place of a run that begins now. Raise BackendError where nothing can be written there."""
        check_folder(where)
        where.mkdir(parents=True, exist_ok=True)
        return cls(where, f"{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}_pid{os.getpid()}")

    def result(self, job: str) -> Path:
        """Return AOE's result file of a kind of job."""
        return self.where / f"aoe_result_{job}_{self.run}.json"

    @property
    def folder(self) -> Path:
        """Return the folder of what is aoec's own; what looks for aoe_result_* expects no folders."""
        return self.where / f"{FOLDER}{self.run}"


Span = tuple[int, int]  # which of `Ended.forms` are a file's before and after
WHOLE, OPAT_OF_BOTH, SGAT_OF_BOTH = (0, 2), (0, 1), (1, 2)


@dataclass(frozen=True)
class Ended:
    """A job at its end, each list by gear.

    `ready`: before the search. `plain`: in the default plan. `sliced`: as compiled, with what became of subgraphs. `was`: as a
    build with the bank as it was when the job began has it. `metric`: what was tuned for. `searches`: what repeats the job's searches.
    """

    ready: Sequence[Ready]
    plain: Sequence[Made]
    sliced: Sequence[Planned]
    was: Sequence[Made]
    metric: str
    seconds: float
    searches: Mapping[str, Any]

    @property
    def models(self) -> list[Made]:
        """Return the compiled models."""
        return [s.made for s in self.sliced]

    @property
    def forms(self) -> list[tuple[Made, Made, Made]]:
        """Return (before, tuned, compiled) for each gear: its model as it was before, with tuned operators, and as compiled. `tuned` has no
        other plan than the default one or the bank's."""
        return [(was, min((plain, was), key=lambda m: asked_us(m.lines.tuned, self.metric)), made)
                for was, plain, made in zip(self.was, self.plain, self.models)]


    def times(self, span: Span, us: Callable[[Made], float]) -> list[GearTimes]:
        """Return what each gear takes before and after a part of the job, by some time of a model in microseconds."""
        return [GearTimes(m.stage.gear, us(forms[span[0]]) / 1e3, us(forms[span[1]]) / 1e3,
                          m.shares(self.metric)) for m, forms in zip(self.models, self.forms)]


@dataclass(frozen=True)
class GearTimes:
    """Milliseconds of a gear before and after a part of a job, modelled, and what of the compiled model's gain is whose."""

    gear: str
    before_ms: float
    after_ms: float
    shares: Shares

    @property
    def fields(self) -> dict[str, Any]:
        """Return what a file says of one gear of several."""
        return model_of_gear(self.gear, self.before_ms, self.after_ms, self.shares)


Heard = dict["Key", tuple["Task", "Solved"]]


@dataclass
class Searched:
    """The tasks that a run has searched, in the model or in one that was only tried, by the key of their best. Only the first of each key
    is kept: later ones find it in the bank. `types`: the operators of their nodes, by name. `asked`: all that were to be tuned, also those
    found in the bank."""

    asked: set[Key] = field(default_factory=set)
    tasks: Heard = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def hear_tasks(self, graphs: Sequence[Graph], done: Done) -> Done:
        """Return what is called for each distinct task that is done, and passes that on to `done`."""
        def hear(task: Task, solved: Solved) -> None:
            done(task, solved)
            self.asked.add(solved.best.key)
            if solved.candidates and solved.best.key not in self.tasks:
                self.tasks[solved.best.key] = task, solved
                self.types |= {n.name: n.op for g in graphs for n in g.nodes if n.name in task.group.nodes}

        return hear


@dataclass(frozen=True)
class Further:
    """What a job found besides compiled models: `text` for people, `facts` for programs under `name`."""

    name: str
    text: str
    facts: Mapping[str, Any]


class ResultFile(ABC):
    """A result file. One that is written at the end alone hears nothing before."""

    def __init__(self, place: RunPlace, job: str, span: Span) -> None:
        self.place, self.path, self.span = place, place.result(job), span

    def hear_tasks(self, graphs: Sequence[Graph], done: Done) -> Done:
        """Return what is called for each distinct task that is done, and passes that on to `done`."""
        return done

    def hear_layouts(self, found: Sequence[Change], every: Found) -> None:  # noqa: B027  a file of subgraphs has no use for it
        """Note changes of layouts that pay."""

    def further(self) -> Further | None:
        """Return what a closed file has to say below the compile's table. Return None where its models are in that table."""
        return None

    def write_page(self, folder: Path) -> tuple[str, str] | None:
        """Write what a closed file has to show into the folder of the report, and return title and name of the page. Return None where it
        is all in the model's own page."""
        return None

    @abstractmethod
    def close(self, ended: Ended, searched: Searched) -> str:
        """Write the file whole. Return in words what new results the job found, or ""."""
