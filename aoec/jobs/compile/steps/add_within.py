"""`--within`: modelled times of the closing table with the range that they may be off by."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aoec.jobs.choose import rounds
from aoec.jobs.compile.compiled_model import Choice, Made
from aoec.jobs.tune.solve import total_ticks
from aoec.jobs.tune.trust import program_ticks
from aoec.report.spread import Within, range_about, sum_of
from aoec.report.table import Report
from aoec.target.machine import Machine


def add_within(report: Report, made: Made, machine: Machine) -> Report:
    """Return the report with a range beside the time of each row and of the whole model. Groups are timed on the seeded machines."""
    often = rounds.passes_of_groups(made.model.graph)
    found: dict[str, tuple[Within, Sequence[float]]] = {}
    known: dict[tuple[str, str], tuple[Within, Sequence[float]]] = {}
    for c in made.choices:
        at = c.task.func_key, c.task.state_text
        if at not in known:
            known[at] = range_of_choice(c, machine)
        found[c.task.group.name] = known[at]
    if not found:
        return report
    parts = [(float(often[name]), *range_and_times) for name, range_and_times in found.items()]
    rows = tuple(replace(r, within=found[r.name][0]) if r.name in found else r for r in report.rows)
    whole = {name: sum_of(times.tuned_us, parts) for name, times in (("latency", report.latency), ("isolated", report.isolated))
             if times.tuned_us is not None}
    return replace(report, rows=rows, within=whole)


def range_of_choice(c: Choice, machine: Machine) -> tuple[Within, list[float]]:
    """Return (the range of a group's chosen schedule, its microseconds on each seeded machine)."""
    us = machine.us_per_tick
    ticks = c.trust.best if c.trust else program_ticks(c.best.program, machine, c.task.state)
    times = [t * us for t in ticks]
    return range_about(total_ticks(c.best.measure, machine) * us, times), times
