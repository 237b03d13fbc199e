"""Differences between kinds of tuning jobs: their options, the result file that each writes, and what it can do alone."""
from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from aoec.jobs.context import Job
    from aoec.jobs.results.result_file import ResultFile, RunPlace, Span
    from aoec.options.compile import CompileOptions

SomeOptions = TypeVar("SomeOptions", bound="CompileOptions")


def keep_options(options: SomeOptions, jobs: Collection[str]) -> SomeOptions:
    """Return the options as they are given."""
    return options


@dataclass(frozen=True)
class Kind:
    """A kind of tuning job. `number` and `title`: AOE's own. `about`: what it does, in words. `settle`: options as the job has them
    among all the jobs of a command (their names), or CheckError where one says nothing to it. `open_result`: its result file.
    `left_behind`: what a Ctrl-C leaves, where that is no bank. `run_alone`: does the job where its options name no model to compile; the
    exit code, or None where they name one."""

    number: str
    title: str
    about: str
    open_result: Callable[[Job, RunPlace, Span], ResultFile]
    settle: Callable[[Any, Collection[str]], Any] = keep_options
    left_behind: str = ""
    run_alone: Callable[[Any], int | None] = lambda options: None
