"""What a result file of a tuning job hears while the job goes on, and at its end."""
from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aoec.ir.graph.graph import Graph
    from aoec.jobs.choose.formats import Change, Found
    from aoec.jobs.choose.model_tasks import Task
    from aoec.jobs.choose.slice_plans import Planned
    from aoec.jobs.compile.compiled_model import Made, Ready
    from aoec.jobs.tune.order import Solved

Done = Callable[["Task", "Solved"], None]


def results_folder(named: str | Path | None) -> Path:
    """Where results go: the folder that is named, else $ASCEND_WORK_PATH, else the current directory (AOE's order)."""
    return Path(named or os.environ.get("ASCEND_WORK_PATH") or ".")


@dataclass(frozen=True)
class Ended:
    """A job at its end, each list by gear.

    `ready`: before the search. `whole`: before groups are cut into slices. `sliced`: in slices, with what became of subgraphs. `was`: as a
    build with the bank as it was when the job began has it. `metric`: what was tuned for. `searches`: what repeats the job's searches.
    """

    ready: Sequence[Ready]
    whole: Sequence[Made]
    sliced: Sequence[Planned]
    was: Sequence[Made]
    metric: str
    seconds: float
    searches: Mapping[str, Any]

    @property
    def models(self) -> list[Made]:
        """The compiled models."""
        return [s.made for s in self.sliced]


class ResultFile(ABC):
    """A result file. One that is written at the end alone hears nothing before."""

    path: Path

    def hear_tasks(self, graphs: Sequence[Graph], done: Done) -> Done:
        """What is called for each distinct task that is done, and passes that on to `done`."""
        return done

    def hear_layouts(self, found: Sequence[Change], every: Found) -> None:  # noqa: B027  a file of subgraphs has no use for it
        """Takes note of changes of layouts that pay."""

    @abstractmethod
    def close(self, ended: Ended) -> str:
        """Writes the file whole, and returns what the job found that is new, in words."""
