"""The result file of subgraph tuning as a job has it: there from its begin, and whole at its end."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aoec.base.files.files import write_text
from aoec.jobs.choose.slices import asked_us
from aoec.jobs.results.opat_file import format_policy, named_in
from aoec.jobs.results.result_file import SGAT_OF_BOTH, WHOLE, Ended, ResultFile, RunPlace, Searched, Span
from aoec.report.results.opat import Policy, found_new
from aoec.report.results.sgat import Subgraph, Tuning, text

if TYPE_CHECKING:
    from aoec.jobs.choose.formats import Change, Found
    from aoec.jobs.choose.slice_plans import Tuned
    from aoec.target.machine import Machine


class SgatFile(ResultFile):
    """The result file of one run."""

    def __init__(self, place: RunPlace, name: str, machine: Machine, span: Span = WHOLE) -> None:
        super().__init__(place, "sgat", span)
        self._tuning, self._machine, self._layouts = Tuning(name), machine, list[Policy]()
        write_text(self.path, text(self._tuning))

    def hear_layouts(self, found: Sequence[Change], every: Found) -> None:
        """Note each change where operators are tuned too: the gain of layouts then counts as subgraph tuning's."""
        for change in found if self.span == SGAT_OF_BOTH else ():
            self._layouts.append(format_policy(change, every, self._machine)[0])

    def close(self, ended: Ended, searched: Searched) -> str:
        first, *_ = times = ended.times(self.span, lambda m: asked_us(m.lines.tuned, ended.metric))
        different = {t.plan.graph_key: t for a in ended.sliced for t in a.tuned}
        layouts = tuple(named_in(ended.models, p) for p in self._layouts)
        self._tuning = replace(self._tuning, subgraphs=tuple(map(subgraph, different.values())), layouts=layouts, seconds=ended.seconds,
                               gears=tuple(t.fields for t in times if t.gear), baseline_ms=first.before_ms, result_ms=first.after_ms,
                               shares=first.shares)
        write_text(self.path, text(self._tuning))
        return found_new((*self._tuning.subgraphs, *layouts), "choice" if layouts else "subgraph", first.before_ms, first.after_ms)


def subgraph(t: Tuned) -> Subgraph:
    """Return a tuned subgraph as the file has it."""
    return Subgraph(t.plan.graph_key, t.groups, t.plan.regions, t.before_us / 1e3, t.plan.after_ns / 1e6, t.outcome)
