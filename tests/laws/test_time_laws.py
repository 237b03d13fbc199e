"""Laws of the timeline, on generated programs."""
from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from aoec.simulate.encode import encode
from aoec.simulate.time import ERRORS, time_rows
from aoec.target.machine import load
from tests.oracle.pipelines import cases, filled
from tests.oracle.slow_timeline import Illegal, simulate


def columns(rows):
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


@settings(max_examples=60, deadline=None)
@given(cases)
def test_kernel_and_oracle_agree_to_the_tick(case):
    program, rows = case
    machine = load(program.target)
    times = time_rows(encode(program, machine), columns(rows))
    for i, row in enumerate(rows):
        try:
            slow = simulate(filled(program, row), machine)
        except Illegal as e:
            assert times.status[i] < 0, (row, str(e))
            continue
        assert times.status[i] == 0, (row, ERRORS[int(times.status[i])])
        assert times.ticks[i] == slow.ticks, row
