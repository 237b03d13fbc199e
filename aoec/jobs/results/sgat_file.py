"""The result file of subgraph tuning as a job has it: there from its begin, and whole at its end."""
from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.files.files import check_folder, write_text
from aoec.jobs.choose.slices import asked_us
from aoec.jobs.results.result_file import Ended, ResultFile
from aoec.report.results.opat import found_new, model
from aoec.report.results.sgat import Subgraph, Tuning, text

if TYPE_CHECKING:
    from aoec.jobs.choose.slice_plans import Tuned


class SgatFile(ResultFile):
    """The result file of one run."""

    def __init__(self, where: Path, name: str, now: datetime) -> None:
        check_folder(where)
        where.mkdir(parents=True, exist_ok=True)
        self.path = where / f"aoe_result_sgat_{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}_pid{os.getpid()}.json"
        self._tuning = Tuning(name)
        write_text(self.path, text(self._tuning))

    def close(self, ended: Ended) -> str:
        times = [(m.stage.gear, asked_us(m.lines.tuned, ended.metric) / 1e3, asked_us(a.made.lines.tuned, ended.metric) / 1e3)
                 for m, a in zip(ended.was, ended.sliced)]
        gears = tuple({"gear": gear, **model(old, new)} for gear, old, new in times if gear)
        _, old, new = times[0]
        different = {t.plan.graph_key: t for a in ended.sliced for t in a.tuned}
        self._tuning = replace(self._tuning, subgraphs=tuple(map(subgraph, different.values())), seconds=ended.seconds, gears=gears,
                               baseline_ms=old, result_ms=new)
        write_text(self.path, text(self._tuning))
        return found_new(self._tuning.subgraphs, "subgraph", old, new)


def subgraph(t: Tuned) -> Subgraph:
    """A tuned subgraph as the file has it."""
    return Subgraph(t.plan.graph_key, t.groups, t.plan.regions, t.before_us / 1e3, t.plan.after_ns / 1e6, t.outcome)
