"""Subgraph tuning (SGAT)."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from aoec.base.errors import CheckError
from aoec.base.regions import Slices
from aoec.jobs.kind import Kind

if TYPE_CHECKING:
    from aoec.jobs.context import Job
    from aoec.jobs.results.result_file import ResultFile, RunPlace, Span
    from aoec.options.compile import CompileOptions

SomeOptions = TypeVar("SomeOptions", bound="CompileOptions")


def settle(options: SomeOptions, jobs: Collection[str]) -> SomeOptions:
    """Return the options of a job that searches slices, and schedules only where operators are tuned in the same run."""
    if options.slicing.regions or not options.slicing.source:
        raise CheckError("--job sgat finds the groups that run in slices; --slices is for compile, and for --job opat")
    if options.plan is not None:
        raise CheckError("--job sgat finds the groups that run in slices, and --plan says them: --plan is for compile, and for --job opat")
    searching = replace(options, slices=Slices(source="search"), plans=options.plans or "auto", verify=options.verify is not False)
    if "opat" in jobs:
        return searching
    if options.effort not in (None, "none"):
        raise CheckError("--job sgat searches no schedules, so --effort says nothing: aoec tune --job opat does, with the plan")
    return replace(searching, effort="none", advice="")


def open_result(job: Job, place: RunPlace, span: Span) -> ResultFile:
    """Return the result file of a job, there from its begin."""
    from aoec.jobs.results.sgat_file import SgatFile
    return SgatFile(place, job.title, job.machine, span)


KIND = Kind(
    "1", "subgraph tuning", "find groups that run faster in slices that stay in L2, with the schedules of the bank and the defaults",
    open_result, settle, "what was timed so far is kept in the cache folder; the same command goes on from there")
