"""Which cases count: a time or cycle metric, a published tile or core count, a known dtype, no warning, an operator that aoec has."""
from __future__ import annotations

from collections.abc import Sequence

from aoec.base.errors import AoecError
from bench.cases.build import BUILDERS
from bench.cases.case import TIME_METRICS, Case
from bench.cases.chips import chip_of
from bench.cases.graphs import graph_of
from bench.cases.score import Result

COUNTED = ("tile", "micro")


def why_not(case: Case) -> str:
    """Return the first reason why a case is not counted; empty where it is."""
    if case.kind not in COUNTED:
        return f"class {case.kind}: no schedule is published"
    if case.metric not in TIME_METRICS:
        return f"{case.metric} is neither a time nor cycles"
    if not case.tile.published:
        return "no tile and no core count is published"
    if not case.dtype_known:
        return "the source does not state the dtype"
    if case.warning:
        return f"warning: {case.warning}"
    return no_operator(case)


def no_operator(case: Case) -> str:
    """Return why aoec has no such operator; empty where it has."""
    if any(case.operator.startswith(start) for start, _ in BUILDERS):
        return ""
    try:
        graph_of(case)
    except AoecError as e:
        return " ".join(str(e).split())
    return ""


def apart(case: Case) -> bool:
    """Return whether a case is of another generation, reported apart."""
    try:
        return "950" in chip_of(case.chip).target
    except AoecError:
        return "950" in case.chip


def counted(results: Sequence[Result]) -> list[Result]:
    """Return the eligible results of the generations that the model is about."""
    return [r for r in results if not r.why_not and not apart(r.case)]


def not_counted(results: Sequence[Result]) -> list[Result]:
    """Return the results of schedules of these generations that do not count: their tile or dtype is not stated, or there is a warning."""
    return [r for r in results if r.why_not and not apart(r.case) and r.case.kind in COUNTED]
