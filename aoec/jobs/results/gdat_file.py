"""Result file of gradient tuning for a job, and the files of its plan. They are written whole when the models are compiled."""
from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.files.files import write_text
from aoec.jobs.gdat.found import GdatFound
from aoec.jobs.gdat.gradient_outputs import FOLDER, write_files
from aoec.jobs.gdat.gradient_report import write_page
from aoec.jobs.gdat.plan_step import plan_model
from aoec.jobs.gdat.tell import tuning_of
from aoec.jobs.results.result_file import WHOLE, Ended, Further, ResultFile, RunPlace, Searched, Span
from aoec.report.results.gdat import Tuning, facts, show, text, text_of_job

if TYPE_CHECKING:
    from aoec.jobs.context import Job


class GdatFile(ResultFile):
    """The result file of one run."""

    def __init__(self, place: RunPlace, job: Job, span: Span = WHOLE) -> None:
        super().__init__(place, "gdat", span)
        self._job, self._tuning = job, None
        write_text(self.path, text_of_job(job.title))

    _tuning: Tuning | None
    _found: GdatFound | None = None

    def close(self, ended: Ended, searched: Searched) -> str:
        self._found = found = plan_model(ended.models, self._job)
        files = write_files(found, self.place.folder / FOLDER)
        self._tuning = tuning_of(found, [*files, str(self.path)], ended.seconds)
        write_text(self.path, text(self._tuning))
        return ""  # what is new stands below the table

    def write_page(self, folder: Path) -> tuple[str, str] | None:
        return None if self._found is None else ("gradient tuning", write_page(self._found, folder, alone=False).name)

    def further(self) -> Further | None:
        return Further("gdat", show(self._tuning), facts(self._tuning)) if self._tuning is not None else None
