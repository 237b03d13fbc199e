"""The result file of a gradient tuning job, in the form of AOE's others: JSON, an array of two objects, `basic` and `GDAT`.

AOE documents no result file of this job. The fields of its other result files are kept (model times in ms, `performance_improvement` as
throughput gain). All else is aoec's own (`schemas/gdat.json`). The baseline is a step with DDP's buckets under the same costs. Times of
communication are modelled. Those of compute are modelled or measured, as the trace says.
"""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aoec.base.text import clip_name, in_columns, plural
from aoec.ir.training import SCHEMES, BucketPlan, StepTimeline, StepTrace
from aoec.report.reasons import percent, table
from aoec.report.results.opat import improvement, plain

BASELINE = "ddp"  # whose step the job's gain is against
COLUMNS = 80
COMPUTE = "compute"  # the lane of a timeline that is no channel
SHOWN = 12  # numbers of a line for people


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """A plan of gradients and its step. `title`: its rule in words."""

    title: str
    plan: BucketPlan
    timeline: StepTimeline

    @property
    def communication_us(self) -> float:
        """Return the time of all collectives."""
        return sum(s.end_us - s.begin_us for s in self.timeline.spans if s.lane != COMPUTE)

    @property
    def hidden(self) -> float:
        """Return the share of communication that compute does not wait for."""
        whole = self.communication_us
        return min(1.0, max(0.0, 1 - self.timeline.exposed_us / whole)) if whole else 1.0


@dataclass(frozen=True, slots=True)
class Costs:
    """The system a plan is for. `fit`: how far its costs are off what was measured, in words."""

    name: str
    title: str
    ranks: int
    key: str
    contention: float
    fit: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known of the best plan. `lower_us`: no plan's step is shorter."""

    is_optimal: bool
    lower_us: float
    words: str


@dataclass(frozen=True, slots=True)
class Tuning:
    """A job at its end. `others`: by name, DDP's among them. `lines`: name -> a line to copy. `limits`: what was asked of the plan."""

    name: str
    target: str
    batch: int | None
    trace: StepTrace
    key: str
    best: PlanFigures
    others: Mapping[str, PlanFigures]
    proof: Proof
    costs: Costs
    limits: Mapping[str, Any]
    lines: Mapping[str, str]
    notes: Sequence[str] = ()
    files: Sequence[str] = ()
    seconds: float | None = field(default=None)

    @property
    def before_us(self) -> float:
        """Return the step with DDP's buckets."""
        return self.others[BASELINE].timeline.step_us

    @property
    def after_us(self) -> float:
        """Return the step with the plan."""
        return self.best.timeline.step_us


def text_of_job(name: str) -> str:
    """Return the file of a job that has not ended."""
    return _text([{"basic": {"tuning_name": name}}])


def text(t: Tuning) -> str:
    """Return the file."""
    basic = {"tuning_name": t.name} | ({} if t.seconds is None else {"tuning_time(s)": round(t.seconds, 3)})
    return _text([{"basic": basic}, {"GDAT": facts(t)}])


def facts(t: Tuning) -> dict[str, Any]:
    """Return the job as a program reads it."""
    before, after = round(t.before_us / 1e3, 6), round(t.after_us / 1e3, 6)
    return {
        "model_baseline_performance(ms)": before, "model_result_performance(ms)": after,
        "model_performance_improvement": improvement(before, after), **plain(before, after), "baseline": BASELINE,
        "gdat_tuning_result": "tuning successful", "target": t.target, "batch": t.batch, "times": how_timed(t.trace.source),
        "system": {"name": t.costs.name, "title": t.costs.title, "ranks": t.costs.ranks, "key": t.costs.key,
                   "contention": t.costs.contention, "fit": t.costs.fit},
        "trace": {"gradients": len(t.trace.gradients), "bytes": t.trace.size, "forward_us": _us(t.trace.forward_us),
                  "backward_us": _us(t.trace.backward_us), "optimiser_us": _us(t.trace.optimiser_us), "key": t.key},
        "limits": dict(t.limits), "plan": _plan(t.best, t.trace), "proof": {
            "is_optimal": t.proof.is_optimal, "lower_us": _us(t.proof.lower_us), "words": t.proof.words},
        "other_plans": {name: _plan(p, t.trace) for name, p in t.others.items()},
        "lines": dict(t.lines), "notes": list(t.notes), "files": list(t.files)}


def _plan(p: PlanFigures, trace: StepTrace) -> dict[str, Any]:
    sizes = [sum(trace.gradients[n].size for n in r) for r in p.plan.ranges()]
    return {"title": p.title, "scheme": p.plan.scheme, "channels": p.plan.channels, "buckets": len(p.plan.ends),
            "ends": list(p.plan.ends), "bucket_bytes": sizes, "step_us": _us(p.timeline.step_us), "exposed_us": _us(p.timeline.exposed_us),
            "communication_us": _us(p.communication_us), "hidden_share": round(p.hidden, 6)}


def headline(t: Tuning) -> str:
    """Return the result in one sentence. The gain is that of the whole step."""
    batch = f" batch {t.batch}" if t.batch else ""
    change = (t.after_us - t.before_us) / t.before_us if t.before_us else 0.0
    proved = "proved" if t.proof.is_optimal else "not proved"
    ranks = f" x{t.costs.ranks}" if t.costs.ranks else ""
    place = f"{t.target}{ranks} ({t.costs.name})" if t.trace.source == "modelled" else f"{t.costs.name}{ranks}"
    return (f"{clip_name(t.name)}{batch} on {place}: step {ms(t.before_us)} -> {ms(t.after_us)} ms "
            f"({_show_change(change)}) against DDP's buckets; {how_timed(t.trace.source)}; {proved}")


def how_timed(source: str) -> str:
    """Return where the times come from."""
    return "modelled" if source == "modelled" else f"compute {source}, communication modelled"


def show(t: Tuning, columns: int = COLUMNS) -> str:
    """Return the job for people, in lines of at most so many characters: a sentence, all plans, lines to copy, how far to believe."""
    rows = [_row(p, t.after_us) for p in (t.best, *sorted(t.others.values(), key=lambda p: p.timeline.step_us))]
    plans = table(("plan", "buckets", "step, ms", "hidden", "of ours"), rows)
    out = [headline(t), "", *plans, "", f"hidden: share of communication under compute. of ours: step against this plan's. "
           f"{plural(len(t.trace.gradients), 'gradient')}, {size_words(t.trace.size)}; "
           f"compute {ms(t.trace.compute_us)} ms a step.", f"scheme: {SCHEMES[t.best.plan.scheme]}.", f"proof: {t.proof.words}",
           f"system: {t.costs.title}; {t.costs.fit}", *(f"note: {n}" for n in t.notes)]
    copied = ["", *(f"{name}:\n  {clip_line(line)}" for name, line in t.lines.items())]
    files = ["", *(f"wrote {f}" for f in t.files)] if t.files else []
    return "\n".join([in_columns("\n".join(out), columns), *copied, *files]) + "\n"


def clip_line(line: str) -> str:
    """Return a line to copy, of many numbers the first ones: the file has all."""
    numbers = line.split(", ")
    return line if len(numbers) <= 2 * SHOWN else f"{', '.join(numbers[:SHOWN])}, ... ({len(numbers):,} numbers, whole in the file)"


def _row(p: PlanFigures, ours_us: float) -> tuple[str, ...]:
    versus = p.timeline.step_us / ours_us if ours_us else 1.0
    return p.title, f"{len(p.plan.ends):,}", ms(p.timeline.step_us), percent(p.hidden), f"{100 * versus:.1f} %"


def ms(us: float) -> str:
    """Return a time in ms with four digits, or more where it is long."""
    value = us / 1e3
    if value < 1:
        return f"{value:.4f}"
    return f"{value:,.{0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3}f}"


def size_words(size: int) -> str:
    """Return bytes in the largest unit of ten's powers that is not above them."""
    unit, scale = next(((u, s) for u, s in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)) if size >= s), ("bytes", 1.0))
    return f"{size / scale:,.1f} {unit}" if scale > 1 else f"{size:,} bytes"


def _show_change(change: float) -> str:
    """Return a change as a percentage with its sign. A change that rounds to nothing is "no change"."""
    return "no change" if abs(change) < 0.0005 else f"{100 * change:+.1f} %"


def _us(us: float) -> float:
    return round(us, 6)


def _text(said: Any) -> str:
    return json.dumps(said, indent=2) + "\n"
