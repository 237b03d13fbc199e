"""Operator tuning (OPAT)."""
from __future__ import annotations

from typing import TYPE_CHECKING

from aoec.jobs.kind import Kind

if TYPE_CHECKING:
    from aoec.jobs.context import Job
    from aoec.jobs.results.result_file import ResultFile, RunPlace, Span


def open_result(job: Job, place: RunPlace, span: Span) -> ResultFile:
    """Return the result file of a job, there from its begin."""
    from aoec.jobs.results.opat_file import OpatFile
    return OpatFile(place, job.title, job.machine, span)


KIND = Kind("2", "operator tuning", "tune the tiles and structure of each operator", open_result)
