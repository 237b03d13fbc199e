"""Operator tuning as a job: what `compile --tune` does, with AOE's result file written as the work goes on."""
from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.files import check_folder, write_text
from aoec.ir.parse import parse_trace
from aoec.report.opat import Policy, Tuning, model, text
from aoec.search.name import structure

if TYPE_CHECKING:
    from aoec.ir.graph import Graph
    from aoec.jobs.plan import Task
    from aoec.jobs.solve import Solved
    from aoec.target.machine import Machine


def folder(asked: str | None) -> Path:
    """Where results go: what was asked for, else $ASCEND_WORK_PATH, else the current directory (AOE's order)."""
    return Path(asked or os.environ.get("ASCEND_WORK_PATH") or ".")


class Results:
    """The result file of one run, rewritten whole after every operator: after a kill it says how far the job came."""

    def __init__(self, where: Path, name: str, now: datetime) -> None:
        check_folder(where)
        where.mkdir(parents=True, exist_ok=True)
        self.path = where / f"aoe_result_opat_{now:%Y%m%d%H%M%S}{now.microsecond // 1000:03d}_pid{os.getpid()}.json"
        self._tuning = Tuning(name)
        self._write()

    def noting(self, graphs: Sequence[Graph], machine: Machine, told: Callable[[Task, Solved], None]) -> Callable[[Task, Solved], None]:
        """What is called for every distinct task that is done, and passes that on."""
        types = {n.name: n.op for g in graphs for n in g.nodes}

        def done(task: Task, solved: Solved) -> None:
            told(task, solved)
            self._tuning = replace(self._tuning, policies=(*self._tuning.policies, policy(task, solved, types, machine)))
            self._write()

        return done

    def close(self, failed: Sequence[str], times_us: Mapping[str, tuple[float, float]], seconds: float) -> None:
        """Nothing; the job has ended. `times_us`: of the whole model by gear ("" where there are none), before and after."""
        gears = tuple({"gear": gear, **model(a / 1e3, b / 1e3)} for gear, (a, b) in times_us.items() if gear)
        before, after = next(iter(times_us.values()))
        self._tuning = replace(self._tuning, failed=tuple(failed), seconds=seconds, gears=gears,
                               baseline_ms=before / 1e3, result_ms=after / 1e3)
        self._write()

    def _write(self) -> None:
        write_text(self.path, text(self._tuning))


def policy(task: Task, solved: Solved, types: Mapping[str, str], machine: Machine) -> Policy:
    """What became of a task, for the result file."""
    before = solved.before.ticks if solved.before is not None else solved.default.ticks
    nodes, us = task.group.nodes, machine.us_per_tick
    return Policy(nodes[0], tuple(types[n] for n in nodes), kind(solved), before * us, solved.best.ticks * us, solved.outcome)


def kind(solved: Solved) -> str:
    """Impl where the best schedule has another structure than the default; Schedule where numbers alone differ."""
    default, best = (structure(parse_trace(r.trace, "trace")) for r in (solved.default, solved.best))
    return "Schedule" if default == best else "Impl"
