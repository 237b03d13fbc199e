"""Plans of whole models: how a model is put together where that is faster than by the rules, kept beside the records. Like these a plan is
a claim: it is parsed when it is used, and the model with it is timed before it is taken.

A model is named by the text of its imported graph with names, without the values of constants: a plan names nodes and tensors.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from aoec.bank.plans import METRICS
from aoec.bank.rows import Kind, any_of, block, hex_digits

KEY = ("graph_key", "target", "machine_hash", "model_version", "metric")
PLAN_LIMIT = 1 << 20  # characters


@dataclass(frozen=True, order=True)
class ModelPlan:
    """`graph_key`: a hash of the imported graph. `metric`: by what plans were compared. `plan`: text of a plan; "" where none was found
    that is faster than that of the rules. `before_ns`, `after_ns`: modelled, of the whole model in one inference, or of the time between
    two, by the metric: by the rules' plan, and by this one. `searched`: the most trials a group that any search of a plan of this key
    was given; 0: groups had their default schedules."""

    graph_key: str
    target: str
    machine_hash: str
    model_version: str
    metric: str
    label: str
    plan: str
    before_ns: int
    after_ns: int
    searched: int
    tool: str = ""
    created: str = ""

    @property
    def is_faster(self) -> bool:
        """Return whether a plan was found that is faster than that of the rules; one without says that it was looked for in vain."""
        return bool(self.plan)


def faster_model(a: ModelPlan, b: ModelPlan) -> ModelPlan:
    """Return what stays of two plans of one key: the faster, then always the same. What was spent on either counts, as it does of
    records."""
    return replace(min(a, b, key=_order), searched=max(a.searched, b.searched))


def _order(p: ModelPlan) -> tuple[object, ...]:
    """Return which of two of one key stays, the lesser one."""
    return p.after_ns, p.plan, p.before_ns, p.label, p.tool, not p.created, p.created


def _fault(p: ModelPlan) -> str:
    """Return why the times of a plan cannot be; "" where they can."""
    if p.plan:
        return "" if p.after_ns < p.before_ns else f"is faster than that of the rules: {p.before_ns}, {p.after_ns}"
    return "" if p.after_ns == p.before_ns else f"without a text takes what that of the rules takes: {p.before_ns}, {p.after_ns}"


def _good_plan(text: str) -> bool:
    """Return whether a text can be that of a plan: printable lines of ASCII, as a plan is written (base/text.py: `quote`)."""
    return text.isascii() and block(PLAN_LIMIT)(text)


MODEL_PLANS = Kind(ModelPlan, KEY, "model_plans", "model plan", 1, "a plan of a model",
                   {"graph_key": hex_digits(64), "metric": any_of(METRICS), "plan": _good_plan}, {"before_ns": 1, "after_ns": 1},
                   _fault, faster_model)
