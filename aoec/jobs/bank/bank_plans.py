"""Plans of slices and of models for `aoec bank which` and `verify`: which plans a compile tries, and what can be said of a plan without its
model."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import Any

from aoec.bank.bank import Bank
from aoec.bank.builtin import Shelf
from aoec.bank.claims import kept_model_plans, kept_plans
from aoec.bank.model_plans import ModelPlan
from aoec.bank.plans import METRICS, SlicePlan
from aoec.bank.record import Key
from aoec.base.text import plural
from aoec.ir.text.show import show
from aoec.jobs.bank.bank import COLUMNS, NO_PLAN, SHOWN_DIGITS, Plan, title_of
from aoec.jobs.bank.bank_which import Asked
from aoec.jobs.bank.plan_claims import fault_of, model_key
from aoec.jobs.bank.shelf import Machines, age_of, beneath
from aoec.jobs.choose.model_tasks import Task
from aoec.jobs.choose.subgraphs import Subgraph, plan_of, subgraphs
from aoec.jobs.tune.order import keys
from aoec.lowering.arrange.slices import in_slices
from aoec.options.exchange import WhichOptions
from aoec.target.machine import Machine, load, targets

TRIED = "tried: a compile times the model with it, and takes it where that is faster"


@dataclass(frozen=True)
class PlanSaid:
    """A plan with what a compile does with it (`state`: tried, not used, unknown, illegal or stale) and why. `groups`: the first and the
    last group of its subgraph in the model that was asked about, if one was."""

    plan: Plan
    state: str
    why: str
    groups: tuple[str, ...] = ()


def check_plans(plans: Iterable[Plan], machines: Machines) -> list[PlanSaid]:
    """Return what is known of plans without their models. A plan must be of the present machine and model version, and a model's plan must
    parse."""
    return [PlanSaid(p, *_without_model(p, machines)) for p in plans]


def _without_model(p: Plan, machines: Machines) -> tuple[str, str]:
    """Return (state, why) of a plan."""
    old = age_of(p, machines)
    if isinstance(p, ModelPlan) and (wrong := fault_of(p)):
        return "illegal", f"{old}; {wrong}" if old else wrong
    return "stale" if old.startswith("stale") else "unknown", old or "only a compile of its model times it again"


def which(options: WhichOptions, machines: Machines, model: Asked | None) -> list[PlanSaid]:
    """Return the plans of a key (its beginning), or of the model that was asked about and of its subgraphs. Each has what a compile does
    with it."""
    own = Bank.open(options.bank_path, create=False, writable=False) if options.bank_path.exists() else None
    if model is None:
        names = [options.target] if options.target else targets()
        kept = [p for shelf in (own, *(beneath(options.base, n) for n in names))
                for p in kept_model_plans(shelf, options.target, options.subject)]
        found: list[Plan] = [*(own.plans.list(options.target, options.subject) if own else ()), *dict.fromkeys(kept)]
        return [PlanSaid(p, *_of_key(p, machines)) for p in found]
    lower = beneath(options.base, model.target)
    whole = [PlanSaid(p, *_of_key(p, machines)) for p in plans_of_model(model, own, lower)]
    plans = [*kept_plans(own, model.target), *kept_plans(lower, model.target)]
    there = in_model(model, machines, own, lower) if plans else []
    cut = [x for s in there for metric in METRICS for x in of_subgraph(s, [p for p in plans if p.metric == metric], machines)]
    return [*cut, *whole]


def plans_of_model(model: Asked, own: Bank | None, lower: Shelf | None) -> list[ModelPlan]:
    """Return the plans that are kept of an ONNX model; of a compiled one it is not known how it was imported."""
    if model.imported is None:
        return []
    key = model_key(model.imported)
    return list(dict.fromkeys(p for shelf in (own, lower) for p in kept_model_plans(shelf, model.target, key)))


def _of_key(p: Plan, machines: Machines) -> tuple[str, str]:
    """Return (state, why) of a plan that is asked of by its key."""
    if old := age_of(p, machines):
        return "not used", old
    if p.is_faster:
        return "tried", TRIED
    return "not used", "nothing is faster in slices" if isinstance(p, SlicePlan) else f"{NO_PLAN} in {plural(p.searched, 'trial')} a group"


def of_subgraph(s: Subgraph, plans: Sequence[SlicePlan], machines: Machines) -> list[PlanSaid]:
    """Return what a compile makes of the plans of one metric: that of the same schedules first, else what gained most."""
    mine = [p for p in plans if p.graph_key == s.graph_key]
    first = plan_of(s, [p for p in mine if not age_of(p, machines)])
    groups = (s.groups[0], s.groups[-1])

    def describe(p: SlicePlan) -> PlanSaid:
        if p != first:
            other = "that of the same schedules, or of more gain, is tried" if first else "none is tried"
            return PlanSaid(p, "not used", age_of(p, machines) or other, groups)
        same = "" if p.schedules == s.schedules else "; it was found for other schedules of the same groups"
        return PlanSaid(p, *(("tried", TRIED + same) if p.is_faster else ("not used", "nothing is faster in slices" + same)), groups)

    return sorted(map(describe, dict.fromkeys(mine)), key=lambda x: (x.plan != first, x.plan))


def in_model(model: Asked, machines: Machines, own: Bank | None, lower: Shelf | None) -> list[Subgraph]:
    """Return the subgraphs of an ONNX model by the schedules of the banks, or of a compiled model by its own. The subgraphs of a compiled
    model that runs in slices are not known."""
    whole = [a for a in model.gears if not in_slices(a.graph)]
    found = [s for a in whole for s in subgraphs(a.graph, {g.group: show(g.trace) for g in a.groups if g.trace})]
    if model.graph:
        found += subgraphs(model.graph, traces(model.tasks, machines.get(model.target) or load(model.target), own, lower))
    return found


def traces(plan: Sequence[Task], machine: Machine, own: Bank | None, lower: Shelf | None) -> dict[str, str]:
    """Return the schedules of a model's groups as the banks have them: tuned, or the default one."""
    wanted: list[tuple[str, Key, Key]] = [(t.group.name, *keys(t, machine)) for t in plan]
    every = [k for _, *pair in wanted for k in pair]
    claims = own.over(lower).claims(every) if own else lower.all_of(every) if lower else {}
    return {name: claims[k].trace for name, default, best in wanted for k in [best if best in claims else default] if k in claims}


def facts(found: Iterable[PlanSaid]) -> list[dict[str, Any]]:
    """Return the plans as a program reads them."""
    return [{"result": x.state, "why": x.why, "groups": list(x.groups), **asdict(x.plan)} for x in found]


def describe_plans(found: Iterable[PlanSaid]) -> str:
    """Return a line for each plan. Return "" where there are none."""
    return "".join(map(_line, found))


def _line(x: PlanSaid) -> str:
    """Return what is said of a plan; of one of a model in lines of 80 columns."""
    p, of = x.plan, f" of {x.groups[0]}..{x.groups[-1]}" if x.groups else ""
    times = f"{p.graph_key[:SHOWN_DIGITS]}  {x.state:8} {p.before_ns / 1e3:,.1f} -> {p.after_ns / 1e3:,.1f} us modelled"
    if isinstance(p, SlicePlan):
        return f"{times}  {p.target}, {p.label}, {title_of(p)} {p.regions or 'none'} by {p.metric}{of} ({x.why})\n"
    said = f"{times}  {p.target}, {p.label}, {title_of(p)} by {p.metric} ({x.why})"
    return fill(said, COLUMNS, subsequent_indent=" " * (SHOWN_DIGITS + 2)) + "\n"
