"""Choice of a plan: its groups and its named fusion decisions, by the time of the whole model with the schedules that it gets."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from types import MappingProxyType

from aoec.bank.model_plans import ModelPlan
from aoec.bank.record import Key
from aoec.base.errors import AoecError
from aoec.base.text import plural
from aoec.ir.graph.graph import Graph
from aoec.ir.plan import LISTS, Plan
from aoec.ir.text.parse import place_plan
from aoec.ir.text.places import Places
from aoec.jobs.bank import embedded
from aoec.jobs.bank.plan_claims import plan_row, same_plans
from aoec.jobs.choose.model_tasks import Task, place_groups, tasks
from aoec.jobs.choose.slices import asked_us, faster
from aoec.jobs.compile import models
from aoec.jobs.compile.compiled_model import Made, Ready
from aoec.jobs.compile.models import Weights
from aoec.jobs.compile.steps.assemble import assemble
from aoec.jobs.compile.steps.group_model import enter_plan
from aoec.jobs.compile.steps.search_groups import search_groups
from aoec.jobs.context import Job
from aoec.jobs.plans.entered import Entered
from aoec.jobs.plans.find_plan import FoundPlan, PlanFinder, PlannedGraph
from aoec.jobs.plans.plan_prices import At, PlanPrices
from aoec.jobs.tune.budget import Until
from aoec.jobs.tune.order import Solved, budget_trials, keys
from aoec.jobs.tune.shares import LOOKING
from aoec.jobs.tune.solve import solve
from aoec.lowering.arrange.planned import enter

Chosen = tuple[Made, tuple[str, ...]]  # a model, and what is said of its plan
FEW = 8  # launches that are scheduled in this process: to begin another takes longer


def choose_plan(made: Made, job: Job) -> Chosen:
    """Return the model by the plan with which it is faster, from the bank or from a search. Return the model itself where there is none.
    The bank then keeps the plan, or that none was found."""
    stage, options = made.stage, job.options
    if made.model.plan is None or stage.entered or stage.funcs or stage.traces or stage.graph.groups or stage.graph.bodies:
        return made, ()
    kept = same_plans(plan_row(made, made, job.machine, options.metric), job.bank)
    best, why = made, ""
    for plan in kept if not options.repeat else ():
        found = try_kept(plan, made, job) if plan.is_faster else None
        if found is not None and faster(best.lines.tuned, found.lines.tuned, options.metric):
            best, why = found, "by the bank's plan"
    said: tuple[str, ...] = ()
    if options.planning == "auto" and (options.repeat or all(p.searched < budget_trials(job.runs[0].order) for p in kept)):
        planning = Planning(made, job)
        found_plan = planning.find()
        planned = put_together(found_plan.plan, made, job, known=planning.solved) if found_plan.is_faster else ""
        if not isinstance(planned, str) and faster(best.lines.tuned, planned.lines.tuned, options.metric):
            best, why = planned, describe_proof(found_plan)
        elif best is made:
            why_not = planned if isinstance(planned, str) else "it is no faster as a model"
            proof = f"the plan that was found is not taken: {why_not}" if found_plan.is_faster else describe_proof(found_plan)
            said = (f"plan: {plural(len(made.model.graph.groups), 'group')} as they are, {proof}",)
        if not planning.over:
            keep_plan(made, best, job)
    if best is not made:
        old, new = (asked_us(m.lines.tuned, options.metric) for m in (made, best))
        said = (f"plan: {old:,.1f} -> {new:,.1f} us modelled, {describe_changes(made.model.plan, best)}, {why}",)
    for line in said:
        job.voice.say(line)
    return best, said


def describe_changes(before: Plan, made: Made) -> str:
    """Return what a plan has otherwise than another, in words."""
    plan = made.model.plan
    assert plan is not None
    changed = sum(len(set(getattr(before, f)) ^ set(getattr(plan, f))) for f in LISTS.values())
    launches = [sum(g.kind != "view" for g in groups) for groups in (before.groups, plan.groups)]
    words = f"{launches[0]} -> {launches[1]} launches" if launches[0] != launches[1] else f"{launches[1]} launches"
    return f"{plural(changed, 'decision')} of fusion otherwise, {words}" if changed else words


def describe_proof(found: FoundPlan) -> str:
    """Return how far the deciding of a plan went, as a clause."""
    of = f"{found.paths:,}" if found.paths < 1_000_000 else f"{Decimal(found.paths):.1e}"  # may be larger than any float
    if found.is_proved:
        return f"and no other of {of} plans is faster (proved)"
    if found.is_decided:
        return f"and no other of {of} plans is faster with the schedules that were found (bound {found.bound_us:,.1f} us)"
    return f"the fastest found of {of} plans (bound {found.bound_us:,.1f} us)"


def put_together(plan: Plan, made: Made, job: Job, at: Places | None = None,
                 known: Mapping[Key, Solved] = MappingProxyType({})) -> Made | str:
    """Return the model by a plan, or why it cannot be had: `made` is it by the rules' plan. `known`: what this run found of launches; the
    bank alone would say that nothing was searched."""
    trial, stage = job.trial(), made.stage
    try:
        model, funcs = enter_plan(stage, Entered(replace(plan, slices=()), at or Places()), trial)
        ready = Ready(stage, model, tasks(model.graph, job.machine, job.options.metric == "throughput", funcs))
        embedded.hear(job.bank, ready.tasks, job.machine, job.runs[0].order.robust)
        known = {c.solved.best.key: c.solved for c in made.choices} | dict(known)
        ready, solved = search_groups([ready], job.another_run(job.runs[0].order), trial)[0]
        return assemble((ready, {name: known.get(s.best.key, s) for name, s in solved.items()}), job, made.before or made)
    except AoecError as e:
        return str(e).splitlines()[0]


class Planning:
    """The search of one model's plan."""

    def __init__(self, made: Made, job: Job) -> None:
        self.made, self.job, self.stage, self.machine = made, job, made.stage, job.machine
        self.solved: dict[Key, Solved] = {}
        self.over = False  # whether time ended the search
        self.deadline = job.clock.until(LOOKING)
        self.hosts = sum(g.kind == "host" for g in made.model.graph.groups)

    def find(self) -> FoundPlan:
        """Return the plan that was found."""
        job, made = self.job, self.made
        prices = PlanPrices(self.machine, self.solve)
        for c in made.choices:
            prices.learn(c.task, c.solved)
        name = f"plan {self.stage.gear}".strip()
        had = job.runs[0].order.counts.get(name)
        until = Until(lambda: job.clock.seconds_left(self.deadline), had.asked if had else 0)
        finder = PlanFinder(self.stage.graph, self.machine, prices, self.make, until.ends, job.options.metric == "throughput")
        assert made.model.plan is not None
        plan = replace(made.model.plan, groups=(), slices=())
        own = self.make(plan)
        found = finder.find(plan, PlannedGraph(made.model.graph, own.asked if own else frozenset()))
        self.over = until.over
        if until.asked:
            job.runs[0].searched[name] = until.limits
        return found

    def make(self, plan: Plan) -> PlannedGraph | None:
        """Return the graph of a plan in groups that can all be lowered. Return None where there is none, or more would run on the host."""
        asked = frozenset[str]()

        def fuse(graph: Graph, apart: frozenset[str]) -> tuple[Graph, Weights, frozenset[str]]:
            nonlocal asked
            made, stored, asked = models.fuse_model(graph, self.stage.weights, self.machine, self.job.pool, apart)
            return made, stored, asked | apart

        try:
            graph, _ = enter.apply_plan(self.stage.graph, plan, Places(), self.machine, fuse)
        except AoecError:
            return None
        placed = place_groups(graph)
        hosts = sum(g.kind == "host" for g in placed.graph.groups)
        return PlannedGraph(placed.graph, asked) if hosts <= self.hosts else None

    def share_of_time(self) -> float | None:
        """Return when the searches of a round are to end: half of the time that is left goes to the rounds that follow."""
        left = self.job.clock.seconds_left(self.deadline)
        return None if self.deadline is None or left is None else self.deadline - left / 2

    def solve(self, asked: Sequence[Task]) -> Mapping[At, Solved | str]:
        """Return the schedules of launches, of which the bank keeps what it does not have."""
        job, machine = self.job, self.machine
        order = job.runs[0].order.by(self.share_of_time())
        run = job.another_run(order if len(asked) > FEW else replace(order, jobs=1))
        of = {keys(t, machine, order.robust)[1]: t for t in asked}
        run.begin(list(of))
        with job.voice.progress("planning", len(of)) as line:
            ended = 0

            def tell(task: Task, solved: Solved) -> None:
                nonlocal ended
                ended += 1
                line(f"{task.label} {solved.best.ticks * machine.us_per_tick:.2f} us modelled", ended, None)
            found, reasons = solve(asked, machine, job.options.target or machine.name, run.bank, run.order, tell, run)
        run.note(found)
        self.solved |= found
        return {(t.func_key, t.state_text): found[key] if key in found else reasons[key] for key, t in of.items()}


# ---------------------------------------------------------------- the bank

def try_kept(kept: ModelPlan, made: Made, job: Job) -> Made | None:
    """Return the model by a plan of a bank, which is a claim. Return None where it cannot be had, which is said."""
    try:
        plan, at = place_plan(kept.plan, f"{job.bank.path}: plan of {kept.label}")
        found = put_together(replace(plan, name=made.stage.graph.name), made, job, at)
    except AoecError as e:
        found = str(e).splitlines()[0]
    if isinstance(found, str):
        job.voice.say(f"plan: the bank's plan of {kept.label} cannot be used: {found}")
        return None
    return found


def keep_plan(made: Made, best: Made, job: Job) -> None:
    """Record the plan in the bank, or that none was found. Do nothing where the bank cannot be written."""
    if job.bank.writable:
        row = plan_row(made, best, job.machine, job.options.metric, budget_trials(job.runs[0].order))
        job.bank.model_plans.put_all([replace(row, tool=f"aoec {version('aoec')}", created=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")])
