"""Passes that are rules: each applies those of one file of frontend/rewrites."""
from __future__ import annotations

from dataclasses import dataclass

from aoec.frontend.rewrites.apply import Rewriting, apply
from aoec.frontend.rewrites.library import rules
from aoec.ir.graph.draft import Draft


@dataclass(frozen=True)
class ByRules:
    """A pass that applies the rules of a file, one after the other."""

    subject: str

    def __call__(self, draft: Draft, rewriting: Rewriting | None = None) -> None:
        """Apply the rules at every place where they are not declined."""
        apply(rules(self.subject), draft, rewriting if rewriting is not None else Rewriting())
