"""Choosing slices: regions of groups that run in parts, where the model is faster so."""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import BankError, UnsupportedError
from aoec.base.regions import Slices
from aoec.jobs.bank import embedded
from aoec.jobs.choose import slices
from aoec.jobs.choose.slice_plans import Planned
from aoec.jobs.choose.subgraphs import plan_slices
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.compile.steps.assemble import assemble
from aoec.jobs.compile.steps.group_model import group_model
from aoec.jobs.compile.steps.search_groups import search_groups
from aoec.jobs.context import Job
from aoec.jobs.tune.budget import Until
from aoec.jobs.tune.shares import LOOKING


def choose_slices(made: Made, job: Job) -> Planned:
    """Return the model with those regions in slices that are faster so, and what became of its subgraphs."""
    stage, trial, asked = made.stage, job.trial(slices=Slices()), job.options.slicing
    order = job.runs[0].order

    def cut_model(regions: slices.Asked) -> Made | str:
        try:
            graph = slices.cut_regions(made.model.graph, regions)
            ready = replace(group_model(replace(stage, graph=graph, weights=made.model.weights), trial), stage=stage)
            if made.model.plan is not None:
                ready = replace(ready, model=replace(ready.model, plan=replace(made.model.plan, slices=tuple(regions))))
            embedded.hear(job.bank, ready.tasks, job.machine, order.robust)
            found = search_groups([ready], job.another_run(order), job.trial())[0]
            return assemble(found, job, made.before or made)
        except (BankError, UnsupportedError) as e:  # nothing may be searched, or put on the host
            return str(e).splitlines()[0]

    if not asked.source or stage.funcs or stage.traces or stage.entered:  # a dump or a plan says how groups run
        return Planned(made)
    name, deadline = f"slices {stage.gear}".strip(), job.clock.until(LOOKING)
    had = order.counts.get(name)
    until = Until(lambda: job.clock.seconds_left(deadline), had.asked if had else 0)
    found = plan_slices(made, job, cut_model, until)
    if asked.source == "search" and until.asked:  # an answer that was looked up is no search
        job.runs[0].searched[name] = until.limits
    return found
