"""The page of gradient tuning, and its figures as JSON: the step before and after, plans beside each other, and what they are made from.

It stands alone (`index.html`, `report.json`) or beside the page of a model. As there, every number is looked up in the facts and carries
its place (`page.py`). Times are in µs among the facts; `times` says what is modelled and what measured.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from aoec.base.text import plural
from aoec.ir.training import SCHEMES, BucketPlan, StepTimeline, StepTrace
from aoec.report.page import FORMS, Numbers, clean, make_environment
from aoec.report.pictures.step_plots import byte_chart, limit_chart
from aoec.report.pictures.step_timeline import STYLE, Step, milliseconds, picture
from aoec.report.pictures.step_times import collectives, hidden_share
from aoec.report.pictures.step_trace import events
from aoec.report.results.gdat import how_timed

FORMAT = "aoec gradients 1"
PICTURE, TRACE = "step.svg", "step.trace.json"
MOST_PLANS = 40  # of the table
SENT_BY = {"all_reduce": "by all-reduce", "split": "by reduce-scatter, then all-gather (split)",
           "sharded": "by reduce-scatter, then all-gather (sharded)"}
LEAST = 0.0005  # of a step: a smaller change is none


@dataclass(frozen=True)
class PlanRow:
    """A plan and the step that it gives. `name`: one word; `title`: what it is, in words. `proof`: why nothing is faster, in words, ""
    where nothing is proved; `lower_us`: what no plan of its scheme and limits can beat, where that is known."""

    name: str
    title: str
    plan: BucketPlan
    timeline: StepTimeline
    proof: str = ""
    lower_us: float | None = None


@dataclass(frozen=True)
class Cost:
    """µs of one collective of so many bytes (of the whole tensor)."""

    collective: str
    size: int
    us: float


@dataclass(frozen=True)
class SystemRow:
    """The system whose costs were taken. `contention`: compute takes so many times as long while something is sent. `kind`: where its
    costs come from, "modelled" or "measured". `statements`: (collective, what is said of it, source, confidence). `notes`: in words."""

    name: str
    title: str
    ranks: int
    contention: float
    key: str
    kind: str
    statements: tuple[tuple[str, str, str, str], ...]
    costs: tuple[Cost, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class GradientReport:
    """All that the page says. `before`: the name of the plan that ours is drawn beside. `limits`: (buckets at most, buckets that are used,
    step in µs) of the best plan under such a limit. `lines`: what to copy, by where it goes. `tool`: name and version of ours."""

    model: str
    target: str
    trace: StepTrace
    ours: PlanRow
    others: tuple[PlanRow, ...]
    before: str
    limits: tuple[tuple[int, int, float], ...]
    system: SystemRow
    lines: Mapping[str, str]
    notes: tuple[str, ...] = ()
    tool: str = "aoec"

    @property
    def old(self) -> PlanRow:
        """Return the plan that ours is drawn beside."""
        return next(p for p in self.others if p.name == self.before)


def facts(r: GradientReport) -> dict[str, Any]:
    """Return all figures of the page as plain values."""
    t = r.trace
    return {
        "format": FORMAT, "tool": r.tool, "model": r.model, "target": r.target, "sentence": sentence(r),
        "times": {"compute": t.source, "communication": r.system.kind, "step": "modelled"},
        "trace": {"gradients": len(t.gradients), "bytes": t.size, "forward_us": t.forward_us, "backward_us": t.backward_us,
                  "optimiser_us": t.optimiser_us, "compute_us": t.compute_us},
        "saved_us": r.old.timeline.step_us - r.ours.timeline.step_us, "saved_share": gain(r.old, r.ours), "before": r.before,
        "plans": [_plan(t, p, r.ours) for p in (r.ours, *r.others)],
        "limits": [{"most": most, "buckets": used, "step_us": us} for most, used, us in r.limits],
        "system": {**asdict(r.system), "notes": list(r.system.notes), "statements": [
            dict(zip(("collective", "says", "source", "confidence"), said)) for said in r.system.statements], "costs": [
            {"collective": c.collective, "bytes": c.size, "us": c.us, "gb_per_s": c.size / c.us / 1000 if c.us > 0 else None}
            for c in r.system.costs]},
        "lines": dict(r.lines), "notes": list(r.notes),
        "gradients": [{"name": g.name, "bytes": g.size, "ready_us": g.ready_us, "read_us": g.read_us} for g in t.gradients]}


def gain(old: PlanRow, new: PlanRow) -> float:
    """Return which part of the old step the new one saves."""
    return (old.timeline.step_us - new.timeline.step_us) / old.timeline.step_us if old.timeline.step_us > 0 else 0.0


def _plan(t: StepTrace, p: PlanRow, ours: PlanRow) -> dict[str, Any]:
    sent = collectives(p.timeline)
    sizes = [sum(t.gradients[i].size for i in numbers) for numbers in p.plan.ranges()]
    return {"name": p.name, "title": p.title, "scheme": p.plan.scheme, "channels": p.plan.channels, "buckets": len(p.plan.ends),
            "step_us": p.timeline.step_us, "exposed_us": p.timeline.exposed_us, "hidden_share": hidden_share(p.timeline),
            "sending_us": sum(s.end_us - s.begin_us for s in sent), "saved_by_ours": gain(p, ours), "proof": p.proof,
            "lower_us": p.lower_us, "ends": list(p.plan.ends), "bytes": sizes}


def sentence(r: GradientReport) -> str:
    """Return the result in a line."""
    ours, old = r.ours.timeline, r.old.timeline
    hidden = hidden_share(ours)
    so = "" if hidden is None else f"; {hidden:.0%} of the communication is hidden"
    size = f"{plural(len(r.trace.gradients), 'gradient')}, {FORMS['bytes'](r.trace.size)}"
    share = gain(r.old, r.ours)
    by = "no change" if abs(share) < LEAST else f"{-share:+.1%}"
    change = f"{milliseconds(old.step_us)} → {milliseconds(ours.step_us)} ms ({by})"
    return (f"{clean(r.model)} on {clean(r.system.title)}: {size}; a step {change} against {clean(r.old.title)}, with "
            f"{plural(len(r.ours.plan.ends), 'bucket')}{so}; {how_timed(r.trace.source)}")


def steps(r: GradientReport) -> tuple[Step, Step]:
    """Return the step before and after, as they are drawn."""
    count = len(r.ours.plan.ends)
    return (Step(f"before: {r.old.title}, {plural(len(r.old.plan.ends), 'bucket')}", r.old.plan, r.old.timeline),
            Step(f"after: {r.ours.title}, {plural(count, 'bucket')}, {SENT_BY[r.ours.plan.scheme]}", r.ours.plan, r.ours.timeline))


def files(r: GradientReport, said: Mapping[str, Any], figures: str, back: Mapping[str, str]) -> dict[str, str]:
    """Return file name -> text of what lies beside the page, and of the page itself under "". `figures`: the name of the file of the facts;
    `back`: address by title, of other pages of the model."""
    environment = make_environment()
    both = steps(r)
    near = [(p.title, len(p.plan.ends), p.timeline.step_us) for p in r.others]
    limits = [(most, us) for most, _, us in r.limits]
    drawn = {"step": picture(r.trace, both, alone=False), "bytes": byte_chart(r.trace, r.ours.plan),
             "limits": limit_chart(limits, r.trace.compute_us, near) if limits else ""}
    order = sorted(range(len(said["plans"])), key=lambda i: (said["plans"][i]["step_us"], i))[:MOST_PLANS]
    frame = {"facts": said, "n": Numbers(said), "drawn": drawn, "order": order, "schemes": SCHEMES, "figures": figures, "beside": back,
             "step_style": STYLE, "pictures": {"the drawing as a file": PICTURE, "the same for Perfetto": TRACE},
             "costs": cost_rows(said["system"]["costs"])}
    about = {"model": r.model, "system": r.system.title, "tool": r.tool}
    return {"": environment.get_template("gradients.html").render(**frame), PICTURE: picture(r.trace, both),
            TRACE: events(r.trace, both, about)}


def cost_rows(costs: Sequence[Mapping[str, Any]]) -> list[tuple[int, dict[str, int]]]:
    """Return (bytes, place of the cost by collective) of each size, in order."""
    rows: dict[int, dict[str, int]] = {}
    for place, c in enumerate(costs):
        rows.setdefault(c["bytes"], {})[c["collective"]] = place
    return sorted(rows.items())
