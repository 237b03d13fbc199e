"""Choosing a plan: groups, and what fusion decides by name, by the time of the whole model with the schedules that it gets."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aoec.base.errors import AoecError
from aoec.base.text import plural
from aoec.ir.plan import Plan
from aoec.ir.text.places import Places
from aoec.jobs.choose import slices
from aoec.jobs.choose.model_tasks import Task, place_groups
from aoec.jobs.compile import models
from aoec.jobs.compile.compiled_model import Made, Ready
from aoec.jobs.compile.steps.assemble import assemble
from aoec.jobs.compile.steps.group_model import group_model
from aoec.jobs.compile.steps.search_groups import search_groups
from aoec.jobs.context import Job
from aoec.jobs.plans.find_plan import FoundPlan, PlanFinder
from aoec.jobs.plans.plan_prices import At, PlanPrices
from aoec.jobs.stages.stage import Stage
from aoec.jobs.tune.budget import Until
from aoec.jobs.tune.order import Order, Solved, keys
from aoec.jobs.tune.shares import LOOKING
from aoec.jobs.tune.solve import solve
from aoec.lowering.arrange.planned import enter

FEW = 8  # launches that are scheduled in this process: another would take longer to begin
