"""Operator tuning (OPAT)."""
from __future__ import annotations

from typing import TYPE_CHECKING

from aoec.jobs.kind import Kind

if TYPE_CHECKING:
    from aoec.jobs.context import Job
    from aoec.jobs.results.result_file import ResultFile


def open_results(job: Job) -> ResultFile:
    """The result file of a job, there from its begin."""
    from datetime import datetime

    from aoec.jobs.results.opat_file import OpatFile
    from aoec.jobs.results.result_file import results_folder
    return OpatFile(results_folder(job.options.results), job.title, job.machine, datetime.now())


KIND = Kind("2", "operator tuning", "tune the tiles and structure of each operator", open_results)
