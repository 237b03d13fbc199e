"""A plan that a user enters, with the places of its lines: what is refused of it later is shown where it stands."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.base.files.files import read_text
from aoec.ir.plan import Plan
from aoec.ir.text.parse import place_plan
from aoec.ir.text.places import Places
from aoec.jobs.stages.nouns import need


@dataclass(frozen=True)
class Entered:
    """A plan, and where its lines stand."""

    plan: Plan
    at: Places


def read_plan(path: str) -> Entered:
    """The plan in a file; ParseError or CheckError with the place."""
    text = read_text(path)
    need("plan", text, path)
    return Entered(*place_plan(text, path))
