"""The hand-written programs that other tests use, timed by kernel and slow simulator alike."""
from __future__ import annotations

from pathlib import Path

import pytest

from aoec.ir.text.parse import parse_program
from aoec.simulate.encode.encode import program_holes
from aoec.simulate.timing.time import measure
from aoec.target.machine import load
from tests.oracle.slow_timeline import simulate

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.prog"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_hand_written_programs(path):
    program = parse_program(path.read_text(encoding="utf-8"), path.name)
    assert not program_holes(program)
    machine = load(program.target)
    m, slow = measure(program, machine), simulate(program, machine)
    assert m.ticks == slow.ticks and m.cores == len(slow.cores)
    inputs = {t.name: 0 for t in program.tensors if t.role == "input"}
    warm = measure(program, machine, tuple((name, 1 << 24) for name in inputs))
    assert warm.ticks == simulate(program, machine, tuple((name, 1 << 24) for name in inputs)).ticks
    assert warm.hbm_bytes <= m.hbm_bytes
