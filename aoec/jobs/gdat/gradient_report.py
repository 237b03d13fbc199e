"""The report of a gradient tuning job as files of a folder: the page, its figures as JSON, and the drawing as SVG and for Perfetto."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from aoec.base.errors import BackendError, CheckError
from aoec.base.files.files import reason, write_text
from aoec.jobs.gdat.found import GdatFound
from aoec.jobs.gdat.gradient_outputs import line_notes, lines_of
from aoec.jobs.gdat.tell import NOT_RUN, TITLES
from aoec.report.gradients.gradient_page import Cost, GradientReport, PlanRow, SystemRow, facts, files
from aoec.report.page import as_json
from aoec.search.buckets import Limits, plan

if TYPE_CHECKING:
    from aoec.collectives.system import System
    from aoec.search.buckets import Planned

BEFORE = "ddp"  # the plan that ours is drawn beside: the baseline of the result file
SHARED = "channels are taken not to slow each other: where they share a link, the step takes longer than this"
PROVED = ("ours", "whole", "segments")
MOST_LIMITS, MOST_LIMITED = 16, 1000  # buckets of the chart; gradients up to which it is drawn, for each point is a search
LEAST_BYTES, STEP_BYTES = 1 << 12, 4  # of the table of costs: its first size, and the factor to the next
ALONE, BESIDE = ("index.html", "report.json"), ("gradients.html", "gradients.json")  # the page and its figures


def report_of(found: GdatFound) -> GradientReport:
    """Return what the page says of a job."""
    ours = plan_row("ours", "our plan", found.planned)
    others = tuple(plan_row(name, TITLES.get(name, name), p) for name, p in found.baselines.items())
    if found.whole.plan != found.planned.plan:
        others += (plan_row("whole", "our plan by all-reduce", found.whole),)
    if found.segments.plan not in (found.whole.plan, found.planned.plan):
        others += (plan_row("segments", "our plan for AOE's strategies", found.segments),)
    shared = (SHARED,) * (found.planned.plan.channels > 1)
    notes = (*found.notices, *shared, *line_notes(found), NOT_RUN)
    return GradientReport(found.name, found.target, found.trace, ours, others, BEFORE, limits_of(found), system_row(found.system, found),
                          lines_of(found), notes, "aoec " + version("aoec"))


def plan_row(name: str, title: str, planned: Planned) -> PlanRow:
    """Return a plan as the page has it; where a rule made it, nothing is proved."""
    proof, bound_us = (planned.proof, planned.lower_bound_us) if name in PROVED else ("", None)
    return PlanRow(name, title, planned.plan, planned.timeline, proof, bound_us)


def limits_of(found: GdatFound) -> tuple[tuple[int, int, float], ...]:
    """Return (buckets at most, buckets used, step in µs) of the best plan of the same scheme under each limit. A limit that leaves no
    plan has none. None at all of many gradients, and of several channels, on which a search takes seconds (161 gradients on two: 5 s)."""
    if len(found.trace.gradients) > MOST_LIMITED or found.planned.plan.channels > 1:
        return ()
    asked = Limits(None, found.options["max_bucket_bytes"], found.planned.plan.scheme, found.planned.plan.channels)
    out: list[tuple[int, int, float]] = []
    best = found.planned.timeline.step_us
    for most in range(1, min(MOST_LIMITS, len(found.trace.gradients)) + 1):
        if out and out[-1][2] <= best * (1 + 1e-9):  # more buckets bring nothing
            out.append((most, *out[-1][1:]))
            continue
        try:
            p = plan(found.trace, found.system, replace(asked, most_segments=most))
        except CheckError:
            continue
        out.append((most, len(p.plan.ends), p.timeline.step_us))
    return tuple(out)


def system_row(system: System, found: GdatFound) -> SystemRow:
    """Return the system with what its collectives cost, in steps up to all gradients of the trace."""
    sizes = [LEAST_BYTES]
    while sizes[-1] * STEP_BYTES < found.trace.size:
        sizes.append(sizes[-1] * STEP_BYTES)
    sizes += [found.trace.size] * (found.trace.size > sizes[-1])
    costs = tuple(Cost(name, size, float(us)) for name in system.curves for size, us in zip(sizes, system.us(name, sizes)))
    said = tuple((s.collective, s.says, s.source, s.confidence) for s in system.statements)
    measured = bool(said) and all(confidence == "measured" for *_, confidence in said)
    notes = (*system.notes, f"contention: {system.contention_source}")
    return SystemRow(system.name, system.title, system.ranks, system.contention, system.key, "measured" if measured else "modelled",
                     said, costs, notes)


def page_files(found: GdatFound, alone: bool) -> dict[str, str]:
    """Return file name -> text of the report. `alone`: as the report itself, else as a page beside that of a model."""
    page, figures = ALONE if alone else BESIDE
    r = report_of(found)
    said = facts(r)
    made = files(r, said, figures, {} if alone else {"the model": "index.html"})
    return {(name or page): text for name, text in made.items()} | {figures: as_json(said)}


def write_page(found: GdatFound, folder: Path, alone: bool = True) -> Path:
    """Write the report into a folder, and return the page's path. Raise BackendError where the folder cannot be made."""
    texts: Mapping[str, str] = page_files(found, alone)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise BackendError(f"cannot write the report to {folder}: {reason(e)}") from e
    for name, text in texts.items():
        write_text(folder / name, text)
    return folder / (ALONE if alone else BESIDE)[0]
