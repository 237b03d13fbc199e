"""Choosing layouts: matrices between products in NZ, where the model is faster so."""
from __future__ import annotations

from dataclasses import replace

from aoec.base.errors import BankError, UnsupportedError
from aoec.ir.graph.graph import Graph
from aoec.jobs.bank import embedded
from aoec.jobs.choose import formats
from aoec.jobs.choose.wide_sums import widen
from aoec.jobs.compile.compiled_model import Made
from aoec.jobs.compile.steps.assemble import assemble
from aoec.jobs.compile.steps.group_model import group_model, lay_out
from aoec.jobs.compile.steps.search_groups import Found, search_groups
from aoec.jobs.context import Job


def choose_layouts(found: Found, made: Made, job: Job) -> Made:
    """Return the model in the layouts that are faster as tuned. It is the same model where none is, or where layouts are a dump's or a
    plan's.

    Without --tune only what the bank knows is asked.
    """
    stage, machine, options = found[0].stage, job.machine, job.options
    if stage.graph.groups or stage.entered:
        return made

    def find(graph: Graph, tune: bool) -> Found | None:
        order, trial = job.runs[0].order, job.trial()
        how = order if tune else replace(order, tune=False, repeat=False, frozen=False, resume=False)
        try:
            graph, weights, plan = lay_out(replace(stage, graph=graph), job, widened)
            if not options.tune and not formats.heard_of(graph, job.bank):
                return None
            other = replace(group_model(replace(stage, graph=graph, weights=weights), trial), stage=stage)
            other = replace(other, model=replace(other.model, plan=plan))
            embedded.hear(job.bank, other.tasks, machine, how.robust)
            if not options.tune and not formats.are_known(other.tasks, machine, job.bank, tune):
                return None
            return search_groups([other], job.another_run(how), trial)[0]
        except (BankError, UnsupportedError):  # nothing may be searched, or put on the host
            return None

    widened = widen(stage.graph, machine)
    changes, every, last = formats.choose_formats(widened.graph, found, find)
    if not changes:
        return made
    job.voice.say(formats.sentence(changes, machine))
    if job.results:
        job.results.hear_layouts(changes, every)
    ready, solved = last
    if (plan := ready.model.plan) is not None:
        plan = replace(plan, nz=tuple(r.matrix for c in changes for r in c.regions))
    return assemble((replace(ready, model=replace(ready.model, plan=plan)), solved), job, made)
