"""`aoec search`: the space of a func, and a fast schedule of it."""
from __future__ import annotations

from pathlib import Path

from aoec.base.errors import CheckError
from aoec.cli.command import Command
from aoec.options.func import SearchOptions
from aoec.report.trials import FORMS


def check_trials(options: SearchOptions) -> None:
    """Raises CheckError where the trials cannot be written as their file's ending says."""
    if options.trials and Path(options.trials).suffix not in FORMS:
        raise CheckError(f"--trials {options.trials} ends in none of {', '.join(FORMS)}, which say how the table is written")
    if options.space and options.trials:
        raise CheckError("--space searches nothing, so there are no trials to write; leave out one of them")


def run(options: SearchOptions) -> int:
    """Searches the space, or shows it."""
    from aoec.jobs.stages.search import search_func
    return search_func(options)


COMMAND = Command("search", "search the design space of a func for a fast schedule", SearchOptions, run, "research", 290,
                  "aoec search g.tir --budget 2000 -o g.sched", check_trials)
