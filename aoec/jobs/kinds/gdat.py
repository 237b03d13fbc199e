"""Gradient tuning (GDAT)."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from aoec.base.errors import CheckError
from aoec.jobs.kind import Kind

if TYPE_CHECKING:
    from aoec.jobs.context import Job
    from aoec.jobs.results.result_file import ResultFile, RunPlace, Span
    from aoec.options.compile import CompileOptions, TuneOptions

SomeOptions = TypeVar("SomeOptions", bound="CompileOptions")
SEARCHES = ("opat", "sgat")  # what else may search in the same run


def settle(options: SomeOptions, jobs: Collection[str]) -> SomeOptions:
    """Return the options of a job that plans gradients. Its compile searches only what other jobs of the run search. Alone, it checks
    values only where that is asked for: to check a whole step takes far longer than the plan, and no schedule is new."""
    from aoec.jobs.gdat.plan_step import check_options
    check_options(options, alone=not set(SEARCHES) & set(jobs))
    if set(SEARCHES) & set(jobs):
        return options
    if options.effort not in (None, "none"):
        raise CheckError("--job gdat searches no schedules, so --effort says nothing: --job opat,gdat does, and plans with the tuned times")
    return replace(options, effort="none", verify=bool(options.verify),
                   advice="schedules are those of the bank and the defaults; --job opat,gdat tunes them first")


def run_alone(options: TuneOptions) -> int | None:
    """Plan a user's own trace, which needs no model. Return None where there is a model, or no trace."""
    if options.trace is None or options.model:
        return None
    from aoec.jobs.gdat.trace_job import tune_trace
    return tune_trace(options)


def open_result(job: Job, place: RunPlace, span: Span) -> ResultFile:
    """Return the result file of a job, there from its begin."""
    from aoec.jobs.results.gdat_file import GdatFile
    return GdatFile(place, job, span)


KIND = Kind("4", "gradient tuning", "find which gradients of a training step are sent together, for a system of several devices",
            open_result, settle, "what was compiled so far is kept; the same command with --resume goes on from there", run_alone)
