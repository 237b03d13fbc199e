"""Sentences on a gradient tuning job for its result file and table."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aoec.jobs.gdat.found import GdatFound
from aoec.jobs.gdat.gradient_outputs import line_notes, lines_of
from aoec.report.results.gdat import Costs, PlanFigures, Proof, Tuning

if TYPE_CHECKING:
    from aoec.collectives.system import System
    from aoec.search.buckets import Planned

TITLES = {"aoe": "AOE's greedy, 8 segments", "aoe_default": "AOE's default 96.54/3.46", "ddp": "DDP, 1 + 25 MiB",
          "horovod": "Horovod, 64 MiB", "mg_wfbp": "MG-WFBP's rule", "one": "one bucket", "alone": "each gradient alone"}
NOT_RUN = "nothing of this has run on an NPU by us"


def tuning_of(found: GdatFound, files: Sequence[str], seconds: float | None) -> Tuning:
    """Return the job as its result file and its table say it."""
    best, system = found.planned, found.system
    return Tuning(
        found.name, found.target, found.batch, found.trace, found.key, figures("this plan", found.planned),
        {name: figures(TITLES.get(name, name), p) for name, p in found.baselines.items()},
        Proof(best.is_optimal, best.lower_bound_us, best.proof), Costs(
            system.name, system.title, system.ranks, system.key, system.contention, fit_words(system)),
        found.options, lines_of(found), (*found.notices, *line_notes(found), NOT_RUN), tuple(files), seconds)


def fit_words(system: System) -> str:
    """Return how far the costs of a system can be believed: where each collective's come from, what its file notes, and its contention."""
    sure: dict[str, list[str]] = {}
    for s in system.statements:
        sure.setdefault(s.confidence, []).append(s.collective)
    parts = [f"{confidence}: {', '.join(dict.fromkeys(names))}" for confidence, names in sure.items()]
    return f"costs {'; '.join(parts)}. {' '.join(system.notes)} Contention with compute {system.contention:g} ({system.contention_source})"


def figures(title: str, planned: Planned) -> PlanFigures:
    """Return a plan's figures."""
    return PlanFigures(title, planned.plan, planned.timeline)
