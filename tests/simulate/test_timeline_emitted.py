"""Emitted programs, holes kept: rows timed together by the kernel equal the slow simulator on the filled programs."""
from __future__ import annotations

import numpy as np
import pytest
from aoec.kernels import columns, registers
from aoec.kernels import timeline as kernel

from aoec.ir import rewrite
from aoec.jobs import kernels
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem
from aoec.search.space.draws import some
from aoec.simulate.compile_kernels import PARTS
from aoec.simulate.encode.encode import encode
from aoec.simulate.encode.tables import Tabulator
from aoec.simulate.timing.time import measure, time_rows
from aoec.target.legality.deal import dealt
from aoec.target.machine import load
from tests.oracle.slow_timeline import simulate
from tests.primitives.funcs import emitted, random_rows


@pytest.mark.parametrize("name", ["matmul", "conv2d", "elementwise", "softmax"])
def test_emitted_programs(name):
    machine = load()
    program = emitted(name, machine)
    rows = random_rows(program)
    times = time_rows(encode(program, machine), rows)
    assert set(np.unique(times.status[times.status < 0])) == set()  # what emission makes can be walked, or a constraint says why not
    legal = np.flatnonzero(times.status == 0)[:3]
    assert len(legal)
    for row in legal:
        filled = rewrite.fill(program, {hole: int(values[row]) for hole, values in rows.items()})
        assert simulate(filled, machine).ticks == times.ticks[row] == measure(filled, machine).ticks


def test_cores_to_which_an_iteration_more_is_dealt_are_as_many_as_they_are():
    """Blocks of a product dealt out over cores of which the first few, and not only the very first, get one more."""
    machine = load("Ascend910B3")
    p = problem(lower_operator("matmul(m=1024, k=32, n=1024, fp16)"), machine)
    told = 0
    for i, (sketch, grid) in enumerate(zip(p.sketches, p.space.grids)):
        if not any(dealt(stream) for stream in sketch.encoded.program.streams):
            continue
        rows = np.array(some(grid, p.constraints(i), 300), np.int64).reshape(-1, len(grid.names))
        named = {name: rows[:, k].copy() for k, name in enumerate(grid.names)}
        t = Tabulator(sketch.encoded, named, len(rows), p.state).fill().tables
        heads, extents = t.head[t.work], t.extent[t.work]
        times = time_rows(sketch.encoded, named, p.state)
        for row in np.flatnonzero(((heads > 1) & (heads < extents)).any(axis=1) & (times.status == 0))[:2]:
            program = p.program((i, tuple(rows[row].tolist())))
            assert simulate(program, machine).ticks == times.ticks[row]
            told += 1
    assert told


def test_a_prepared_kernel_is_the_one_that_every_program_takes():
    machine = load()
    for part in kernels.TIMES:
        PARTS[part]()
    taken = kernel.find_rows.compiled, columns.fill, registers.distinct, registers.settle
    before = [k.signatures.copy() for k in taken]
    program = emitted("softmax", machine)
    encoded = encode(program, machine)
    time_rows(encoded, {hole: np.full(64, (choices or (1,))[0]) for hole, choices in rewrite.holes(program).items()})
    assert encoded.fillers and all(before) and [k.signatures for k in taken] == before
