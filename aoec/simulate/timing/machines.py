"""Times of rows on several machines at once. Their formulas are the same, and their numbers differ.

A row is one choice of hole values on one machine. The machine is a column like a hole's. So results that depend on no number of a machine
(sizes, footprints, legality) are found once, and formulas are evaluated for all machines together. Only the walk takes one machine's fixed
costs at a time.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from aoec.kernels import timeline as kernel
from aoec.simulate.encode.encode import Encoded, Site
from aoec.simulate.encode.sizes import Array, Choices, Entries, StreamValues
from aoec.simulate.encode.tables import Rates, Tabulator, first_false, fixed_costs, upright
from aoec.simulate.reasons.detail import core_counts, find_rows, fresh_state
from aoec.simulate.timing.state import COLD, State
from aoec.simulate.timing.time import Times, columns_of, join_times, launch_ticks, time_rows
from aoec.target.machine import Machine
from aoec.target.stack import stack_machines, take_rows

MACHINE = "@machine"  # the column that says which machine a row is on; no hole is called so
AT_ONCE = 256  # rows whose tables are made together


def times_on(encoded: Encoded, machines: Sequence[Machine], rows: Mapping[str, Array], state: State = COLD) -> list[Times]:
    """Return the times of rows of hole values (`rows`, as for `time_rows`) on each of the machines, which are the program's with other
    numbers (target/vary.py: varied; calibration's too)."""
    columns, count = columns_of(encoded, rows)
    status = first_false(encoded, columns, count)  # what is legal hangs on counts and sizes, which are the same
    legal = np.flatnonzero(status == 0)
    if not len(legal):
        return [time_rows(encoded, rows, state)] * len(machines)
    some, step = {n: v[legal] for n, v in columns.items()}, max(1, AT_ONCE // len(legal))
    parts = [machines[first:first + step] for first in range(0, len(machines), step)]
    return [join_times([times], legal, status) for part in parts for times in _time_stack(encoded, part, some, len(legal), state)]


def _time_stack(encoded: Encoded, machines: Sequence[Machine], rows: Mapping[str, Array], count: int, state: State) -> list[Times]:
    """Return the times of legal rows on each of the machines."""
    stack, on = stack_machines(tuple(machines)), np.repeat(np.arange(len(machines)), count)
    columns = {name: np.tile(values, len(machines)) for name, values in rows.items()}
    filled = OnMachines(encoded, stack, {**columns, MACHINE: on}, state).fill()
    t = filled.tables
    cores = core_counts(encoded, t)
    launch = launch_ticks(replace(encoded, machine=take_rows(stack, on)), cores, columns)
    ticks, status, s = np.zeros((len(on), 1, 1), np.int64), filled.status, fresh_state(encoded, len(t.cursor_base), cores)
    limits, zeros = np.full(len(on), kernel.NEVER), np.zeros((2, len(encoded.starts)), np.int64)
    spans = list(pairwise(range(0, len(on) + 1, count)))
    for machine, (first, last) in zip(machines, spans):
        find_rows(t._replace(costs=fixed_costs(machine)), s, kernel.TIMES, first, last, zeros[0], zeros[1], ticks, status, limits)
    return [Times(ticks[first:last, 0, 0], launch[first:last], status[first:last], cores[first:last]) for first, last in spans]


class OnMachines(Tabulator):
    """The tables of rows of which each is on a machine of its own: `machine` has a number of that for each row of work."""

    def __init__(self, encoded: Encoded, stack: Machine, rows: Mapping[str, Array], state: State) -> None:
        super().__init__(replace(encoded, work_holes=encoded.work_holes | {MACHINE}), rows, len(rows[MACHINE]), state)
        self.machine = take_rows(stack, self.holes[MACHINE])

    def cost_choices(self, site: Site, stream: StreamValues) -> Choices:
        if site.access:
            return self.everything
        asked = [e for _, e in site.fields] + self.grid_of(site)
        return stream.chosen_by(frozenset((MACHINE,)).union(*map(stream.on.holes_of, asked)))

    def cost_inputs(self, site: Site, at: Choices, entries: Entries) -> tuple[Site, Rates]:
        site, rates = super().cost_inputs(site.on(self.machine), at, entries)
        numbers = tuple((name, upright(value, at.rows, entries)) for name, value in site.numbers)
        return replace(site, numbers=numbers), Rates(*[upright(rate, at.rows, entries) for rate in rates])
