"""Gradient tuning of a user's own trace, without a model: read, plan, write, say."""
from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.errors import CheckError
from aoec.base.files.files import note, say, write_text
from aoec.jobs.gdat.gradient_outputs import FOLDER, write_files
from aoec.jobs.gdat.gradient_report import write_page
from aoec.jobs.gdat.plan_step import plan_file
from aoec.jobs.gdat.tell import tuning_of
from aoec.jobs.results.result_file import RunPlace, results_folder
from aoec.options.shared import DEFAULT_TARGET
from aoec.report.results.gdat import facts, show, text
from aoec.target.machine import load

if TYPE_CHECKING:
    from aoec.options.compile import TuneOptions


def tune_trace(options: TuneOptions) -> int:
    """Plan the gradients of a trace, write the result files, and return 0. Nothing is written before the plan is made."""
    if options.output:
        raise CheckError("-o names a compiled model, and a trace is compiled to none: leave it out")
    begin = time.monotonic()
    found = plan_file(options, load(options.target or DEFAULT_TARGET).name)
    place = RunPlace.begin(results_folder(options.results), datetime.now())
    files = write_files(found, place.folder / FOLDER)
    tuning = tuning_of(found, [*files, str(place.result("gdat"))], time.monotonic() - begin)
    write_text(place.result("gdat"), text(tuning))
    if options.report:
        page = write_page(found, Path(options.report))
        note(f"report {page}")
    say(json.dumps(facts(tuning), indent=2) + "\n" if options.json else show(tuning))
    return 0
