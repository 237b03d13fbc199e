"""The result file of a subgraph tuning job, as AOE writes it: JSON, an array of two objects, `basic` and `SGAT`.

Fields, units (ms) and counters are those of AOE's documentation ("tuning results" of CANN's AOE guide), which counts subgraphs.
Percentages are AOE's too (report/results/opat.py). Times are those of one inference. For a job for throughput they are the time between
two. Beside them are unambiguous fields, and the groups that run in slices. All times are modelled, and the file says so.
"""
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aoec.report.results.opat import Outcome, Policy, bank_entries, improvement, model, plain, summary, whose
from aoec.report.shares import Shares


@dataclass(frozen=True)
class Subgraph:
    """What tuning did about one: `key` is its hash, `groups` how many it has, `regions` those of its groups, g0 and on, that run in
    slices. Times in ms, modelled: with what was in use before (the bank's plan, else none) and now."""

    key: str
    groups: int
    regions: str
    before_ms: float
    after_ms: float
    outcome: Outcome

    @property
    def repo_key(self) -> str:
        """Return AOE's form of a key: a decimal number of 64 bits."""
        return str(int(self.key[:16], 16))


@dataclass(frozen=True)
class Tuning:
    """A job as far as it has come. `seconds` and the model's times (ms, modelled) are there where it has ended."""

    name: str
    subgraphs: tuple[Subgraph, ...] = ()
    seconds: float | None = None
    baseline_ms: float | None = None
    result_ms: float | None = None
    gears: tuple[dict[str, Any], ...] = field(default=())  # of a model for several shapes: the same three figures for each
    shares: Shares | None = None  # what of the compiled model's gain is whose
    layouts: tuple[Policy, ...] = ()  # changes of layouts, of a job that tunes operators too: a job of operators alone has them there


def document(t: Tuning) -> list[dict[str, Any]]:
    """Return the contents of the file. Before the job has ended, and where there is no subgraph, that is its name alone."""
    basic: dict[str, Any] = {"tuning_name": t.name} | ({} if t.seconds is None else {"tuning_time(s)": round(t.seconds, 3)})
    if not t.subgraphs and not t.layouts:
        return [{"basic": basic}]
    kinds = {f"{o.value}_repo_subgraphs": subgraph_entries(t.subgraphs, o) for o in (Outcome.ADD, Outcome.UPDATE)}
    return [{"basic": basic}, {"SGAT": {
        **model(t.baseline_ms, t.result_ms), **whose(t.shares), **({"gears": list(t.gears)} if t.gears else {}),
        "repo_modified_subgraphs": {name: found for name, found in kinds.items() if found},
        **({"repo_modified_layouts": layouts} if (layouts := bank_entries(t.layouts)) else {}),
        "repo_summary": summary(t.subgraphs), "times": "modelled"}}]


def subgraph_entries(found: Sequence[Subgraph], outcome: Outcome) -> list[dict[str, Any]]:
    """Return an entry for each subgraph whose plan the bank took up so."""
    out = []
    for s in found:
        if s.outcome is outcome:
            before, after = round(s.before_ms, 6), round(s.after_ms, 6)
            out.append({"performance_before_tune(ms)": before, "performance_after_tune(ms)": after,
                        "performance_improvement": improvement(before, after), "repo_key": s.repo_key, **plain(before, after),
                        "graph_key": s.key, "groups": s.groups, "slices": s.regions})
    return out


def text(t: Tuning) -> str:
    """Return the file."""
    return json.dumps(document(t), indent=2) + "\n"
