"""Emitted programs, holes kept: rows timed together by the kernel equal the slow simulator on the filled programs."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from aoec.kernels import timeline as kernel

from aoec import primitives
from aoec.ir import rewrite
from aoec.ir.parse import parse_func, parse_trace
from aoec.lowering.emit import emit
from aoec.simulate.encode import encode
from aoec.simulate.time import measure, prepare, time_rows
from aoec.target.machine import load
from tests.oracle.slow_timeline import simulate

FUNCS = Path(__file__).parents[1] / "funcs"


@pytest.mark.parametrize("name", ["matmul", "conv2d", "elementwise", "softmax"])
def test_emitted_programs(name):
    machine = load()
    trace = parse_trace((FUNCS / f"{name}.sched").read_text(encoding="utf-8"))
    program = emit(primitives.apply(parse_func((FUNCS / f"{name}.tir").read_text(encoding="utf-8")), trace), machine)
    random = np.random.default_rng(0)
    rows = {hole: random.choice(choices or (1, 2, 4, 8, 16, 32, 64), 20_000) for hole, choices in rewrite.holes(program).items()}
    times = time_rows(encode(program, machine), rows)
    assert set(np.unique(times.status[times.status < 0])) == set()  # what emission makes can be walked, or a constraint says why not
    legal = np.flatnonzero(times.status == 0)[:3]
    assert len(legal)
    for row in legal:
        filled = rewrite.fill(program, {hole: int(values[row]) for hole, values in rows.items()})
        assert simulate(filled, machine).ticks == times.ticks[row] == measure(filled, machine).ticks


def test_a_prepared_kernel_is_the_one_that_every_program_takes():
    machine = load()
    prepare(machine)
    before = kernel.time_rows.signatures.copy()
    trace = parse_trace((FUNCS / "softmax.sched").read_text(encoding="utf-8"))
    program = emit(primitives.apply(parse_func((FUNCS / "softmax.tir").read_text(encoding="utf-8")), trace), machine)
    time_rows(encode(program, machine), {hole: np.array(choices[:1] or (1,)) for hole, choices in rewrite.holes(program).items()})
    assert before and kernel.time_rows.signatures == before
