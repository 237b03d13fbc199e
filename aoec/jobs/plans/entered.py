"""A plan that a user enters, with the places of its lines. Later refusals are shown at these places."""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from aoec.base.files.files import read_text
from aoec.base.text import nearest
from aoec.ir.plan import Plan
from aoec.ir.text.parse import place_plan
from aoec.ir.text.places import Places
from aoec.jobs.stages.nouns import need


@dataclass(frozen=True)
class Entered:
    """A plan, and where its lines stand."""

    plan: Plan
    at: Places

    def refuse_unmet(self, met: Collection[tuple[str, str]], applied: Collection[tuple[str, str]]) -> None:
        """Raise CheckError at the line of a rewrite that is declined and would not have been made. `met`: those that would have been;
        `applied`: those that were made."""
        for rule, tensor in self.plan.declined:
            known = [f"{r} at {t}" for r, t in applied]
            self.at.refuse((rule, tensor) not in met, lambda rule=rule, tensor=tensor, known=known:  # type: ignore[misc]
                           f"rewrite {rule} at {tensor}: no such rewrite is made in this model{nearest(f'{rule} at {tensor}', known)}",
                           ("rewrite", (rule, tensor)), rule)


def read_plan(path: str) -> Entered:
    """Return the plan in a file. Raise ParseError or CheckError with the place."""
    text = read_text(path)
    need("plan", text, path)
    return Entered(*place_plan(text, path))
