"""Plans of models as claims: the key of a model, the plan that a compiled model has, and what can be said of a plan without its model."""
from __future__ import annotations

from dataclasses import replace

from aoec.bank.builtin import Shelf
from aoec.bank.claims import kept_model_plans
from aoec.bank.model_plans import MODEL_PLANS, ModelPlan
from aoec.base.errors import AoecError
from aoec.base.keys import digest
from aoec.ir.graph.graph import Graph
from aoec.ir.text.parse import place_plan
from aoec.ir.text.show import show
from aoec.jobs.choose.slices import asked_us
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.version import model_version
from aoec.target.machine import Machine


def model_key(imported: Graph) -> str:
    """Return the key of a model in a bank. It is a hash of the imported graph's text: names of tensors and nodes count, but neither the
    model's own name nor the values of constants do."""
    tensors = tuple([replace(t, data="constant" if t.data else "") for t in imported.tensors])
    return digest(show(replace(imported, name="model", tensors=tensors)))


def plan_row(ruled: Made, made: Made, machine: Machine, metric: str, searched: int = 0) -> ModelPlan:
    """Return what a bank keeps of a model's plan beside that of the rules. It is the plan's text where that is faster by the metric, else
    that no plan is faster. `searched`: the trials for each group that its search was given."""
    before_ns, after_ns = (max(1, round(1000 * asked_us(m.lines.tuned, metric))) for m in (ruled, made))
    plan = made.model.plan if made is not ruled and after_ns < before_ns else None
    text = show(replace(plan, slices=(), rewrites=())) if plan else ""
    return ModelPlan(model_key(made.stage.graph), machine.name, machine.hash, model_version(), metric, made.model.name[:200], text,
                     before_ns, after_ns if plan else before_ns, searched)


def same_plans(row: ModelPlan, kept: Shelf) -> list[ModelPlan]:
    """Return what a shelf, and those beneath it, have kept under the key of a row."""
    return [p for p in kept_model_plans(kept, row.target, row.graph_key) if MODEL_PLANS.identity(p) == MODEL_PLANS.identity(row)]


def claim_plan(ruled: Made, made: Made, machine: Machine, metric: str, kept: Shelf) -> ModelPlan | None:
    """Return what is claimed of a model's plan. Return None where it has none that is faster than that of the rules. `kept`: what knows how
    much was searched."""
    found = plan_row(ruled, made, machine, metric)
    return replace(found, searched=max((p.searched for p in same_plans(found, kept)), default=0)) if found.is_faster else None


def fault_of(p: ModelPlan) -> str:
    """Return why a plan's text cannot be one of its target. Return "" where it can. What it takes is not known without the model."""
    if not p.plan:
        return ""
    try:
        plan, _ = place_plan(p.plan)
    except AoecError as e:
        return str(e).splitlines()[0]
    return "" if plan.target == p.target else f"its text is of a plan for {plan.target}"
