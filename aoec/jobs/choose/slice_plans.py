"""Results for the subgraphs of a model: their plans of slices, and the model with these plans."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aoec.bank.plans import SlicePlan
from aoec.jobs.compile.compiled_model import Made
from aoec.report.results.opat import Outcome


@dataclass(frozen=True)
class Tuned:
    """The outcome for a subgraph of so many groups: the plan that is kept for it, its modelled time before, and the outcome as AOE counts
    it."""

    groups: int
    plan: SlicePlan
    before_us: float
    outcome: Outcome


@dataclass(frozen=True)
class Planned:
    """A model with those regions in slices that are faster so, itself where none are. `tuned`: what became of its subgraphs, none where
    nothing was asked. `banked`: the model with the regions that the bank's plan has, where it has some. `over`: time ended the looking."""

    made: Made
    tuned: Sequence[Tuned] = ()
    banked: Made | None = None
    over: bool = False

    @property
    def plans_to_keep(self) -> Sequence[Tuned]:
        """Return what a bank keeps: where time ended the looking, nothing is said of subgraphs for which none was found."""
        return [t for t in self.tuned if t.plan.is_faster or not self.over]
