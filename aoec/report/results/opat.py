"""The result file of an operator tuning job, as AOE writes it: JSON, an array of two objects, `basic` and `OPAT`.

Field names and counters are those of AOE's documentation ("tuning results" of CANN's AOE guide). Its percentages say how much the
throughput grows: before / after - 1, cut off after two decimals. Every published sample agrees with that reading, and with no other.
These percentages are kept as they are. The fields `speedup` and `time_reduction_percent` beside them are unambiguous. All times are
modelled, and the file says so.
"""
from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from enum import Enum
from typing import Any, Protocol

from aoec.base.text import plural
from aoec.report.shares import Shares, as_dict

KINDS = ("Schedule", "Impl", "Format")  # tiles; another structure, such as another operand that stays; layouts


class Outcome(Enum):
    """What became of a policy, in the words of AOE's counters.

    ADD: the bank had none, and what was found is faster than the default. UPDATE: the bank's was replaced by a faster one. RESERVED: the
    bank's is kept. UNSATISFIED: the bank had none, and nothing faster than the default was found.
    """

    ADD = "add"
    UPDATE = "update"
    RESERVED = "reserved"
    UNSATISFIED = "unsatisfied"


class Counted(Protocol):
    """What tuning did about something."""

    @property
    def outcome(self) -> Outcome: ...


@dataclass(frozen=True)
class Policy:
    """What tuning did about one kind of choice of an operator; `types`: of the operators that are fused in it. Times in µs, modelled:
    with what was in use before (the bank's, else the default) and now."""

    name: str
    types: tuple[str, ...]
    kind: str
    before_us: float
    after_us: float
    outcome: Outcome


@dataclass(frozen=True)
class Tuning:
    """A job as far as it has come. `seconds` and the model's times (ms, modelled) are there where it has ended."""

    name: str
    policies: tuple[Policy, ...] = ()
    failed: tuple[str, ...] = ()
    seconds: float | None = None
    baseline_ms: float | None = None
    result_ms: float | None = None
    gears: tuple[dict[str, Any], ...] = field(default=())  # of a model for several shapes: the same three figures for each
    searches: Mapping[str, Any] = field(default_factory=dict)  # what repeats the searches of the job (jobs/tune/counts.py)
    shares: Shares | None = None  # what of the compiled model's gain is whose
    left: tuple[Policy, ...] = ()  # what was tuned on the way, and is not in the compiled model


def improvement(before: float, after: float) -> str:
    """Return AOE's percentage of two times: before / after - 1, cut off after two decimals; "0.00%" where there is no time."""
    if not after:
        return "0.00%"
    grown = (Decimal(repr(before)) / Decimal(repr(after)) - 1) * 100
    return f"{grown.quantize(Decimal('0.01'), ROUND_DOWN)}%"


def plain(before: float, after: float) -> dict[str, float]:
    """Return the same without doubt: how many times as fast, and the share of the time that is saved in percent."""
    return {"speedup": round(before / after, 6) if after else 1.0,
            "time_reduction_percent": round(100 * (before - after) / before, 4) if before else 0.0}


def summary(policies: Sequence[Counted]) -> dict[str, int]:
    """Return AOE's counters; hit = update + reserved, total = add + hit + unsatisfied."""
    n = Counter(p.outcome for p in policies)
    hit = n[Outcome.UPDATE] + n[Outcome.RESERVED]
    out = {"repo_add_num": n[Outcome.ADD], "repo_hit_num": hit, "repo_reserved_num": n[Outcome.RESERVED],
           "repo_unsatisfied_num": n[Outcome.UNSATISFIED], "repo_update_num": n[Outcome.UPDATE],
           "total_num": n[Outcome.ADD] + hit + n[Outcome.UNSATISFIED]}
    assert out["total_num"] == len(policies)
    return out


def found_new(policies: Sequence[Counted], what: str, before_ms: float, after_ms: float) -> str:
    """Return the new finds of a job, which the bank did not have, in words. `what`: a word for each thing tuned. Times are modelled."""
    n = Counter(p.outcome for p in policies)
    had = f"{n[Outcome.RESERVED]:,} as the bank had them, {n[Outcome.UNSATISFIED]:,} with nothing faster than the default"
    if not n[Outcome.ADD] and not n[Outcome.UPDATE]:
        return f"nothing new was found: of {plural(len(policies), what)} {had}"
    return (f"new in this run: {n[Outcome.ADD]:,} added to the bank and {n[Outcome.UPDATE]:,} improved there, of "
            f"{plural(len(policies), what)} ({had}). Against a build with the bank as it was: "
            f"{before_ms * 1e3:,.2f} -> {after_ms * 1e3:,.2f} µs modelled")


def document(t: Tuning) -> list[dict[str, Any]]:
    """Return the contents of the file. Without `seconds` the job has not ended: "tuning incomplete", and no figures of the whole model."""
    basic: dict[str, Any] = {"tuning_name": t.name} | ({} if t.seconds is None else {"tuning_time(s)": round(t.seconds, 3)})
    if not t.policies and not t.failed:
        return [{"basic": basic}]
    return [{"basic": basic}, {"OPAT": {
        **model(t.baseline_ms, t.result_ms), **whose(t.shares), **({"gears": list(t.gears)} if t.gears else {}),
        "opat_tuning_result": status(t),
        "repo_modified_operators": bank_entries(t.policies), **({"operators_not_in_model": left} if (left := bank_entries(t.left)) else {}),
        "repo_summary": summary(t.policies), **({"tuning_failed_operators": list(t.failed)} if t.failed else {}), "times": "modelled"}}]


def bank_entries(policies: Sequence[Policy]) -> list[dict[str, Any]]:
    """Return entries for those that a bank took up."""
    return [policy_entry(p) for p in policies if p.outcome in (Outcome.ADD, Outcome.UPDATE)]


def whose(shares: Shares | None) -> dict[str, Any]:
    """Return the shares of a model's gain by their cause. Return nothing where a job has not computed them yet."""
    return {"shares": as_dict(shares)} if shares else {}


def model_of_gear(gear: str, before_ms: float, after_ms: float, shares: Shares | None) -> dict[str, Any]:
    """Return the figures of one gear."""
    return {"gear": gear, **model(before_ms, after_ms), **whose(shares)}


def status(t: Tuning) -> str:
    """Return AOE's word for how a job stands."""
    if t.seconds is None:
        return "tuning incomplete"
    return "tuning successful" if t.policies or not t.failed else "tuning failed"


def model(baseline_ms: float | None, result_ms: float | None) -> dict[str, Any]:
    """Return the figures of a whole model. Return none where a job has not computed them yet."""
    if baseline_ms is None or result_ms is None:
        return {}
    return {"model_baseline_performance(ms)": round(baseline_ms, 6), "model_result_performance(ms)": round(result_ms, 6),
            "model_performance_improvement": improvement(round(baseline_ms, 6), round(result_ms, 6)), **plain(baseline_ms, result_ms)}


def policy_entry(p: Policy) -> dict[str, Any]:
    """Return an entry for what a bank took up."""
    before, after = round(p.before_us, 4), round(p.after_us, 4)
    figures = {"performance_before_tune(us)": before, "performance_after_tune(us)": after,
               "performance_improvement": improvement(before, after), "update_mode": p.outcome.value, **plain(before, after)}
    return {"op_name": p.name, "op_type": p.types[0] if len(p.types) == 1 else list(p.types), "tune_performance": {p.kind: figures}}


def text(t: Tuning) -> str:
    """Return the file."""
    return json.dumps(document(t), indent=2) + "\n"
