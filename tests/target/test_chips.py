"""The machines that come with aoec: that each says what its chip is, and that programs run and are timed on it."""
from __future__ import annotations

import math
from pathlib import Path

import pytest

import aoec
from aoec.ir.index import variables
from aoec.jobs.stages import lower_operator
from aoec.jobs.tuning import Problem, problem, start
from aoec.simulate.time import measure
from aoec.target.check import check
from aoec.target.machine import load, targets

ROOT = Path(aoec.__file__).parent

# chip -> (cube cores, vector cores beside them, MHz, L2 MB, memory GB, fp16 and int8 peak in 1e12 operations a second): vendor's
# configuration files, and the peaks that follow from them
CHIPS = {
    "Ascend910B1": (24, 48, 1850, 192, 64, 363.7, 727),
    "Ascend910B2": (24, 48, 1800, 192, 64, 353.9, 708),
    "Ascend910B3": (20, 40, 1800, 192, 64, 294.9, 590),
    "Ascend910B4": (20, 40, 1500, 96, 32, 245.8, 491),
    "Ascend910_9362": (20, 40, 1500, 168, 32, 245.8, 491),
    "Ascend910_9372": (20, 40, 1800, 192, 64, 294.9, 590),
    "Ascend910_9382": (24, 48, 1800, 192, 64, 353.9, 708),
    "Ascend910_9392": (24, 48, 1850, 192, 64, 363.7, 727),
    "Ascend950PR_957x": (28, 56, 1650, 128, 128, 378.5, 757),
    "Ascend950PR_958x": (32, 64, 1650, 128, 128, 432.5, 865),
}


def test_every_chip_is_there():
    assert set(targets()) == {*CHIPS, "toy"}


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_is_what_its_vendor_says(name):
    cubes, vectors, mhz, l2_mb, memory_gb, fp16, int8 = CHIPS[name]
    m = load(name)
    assert (sum(c.count for c in m.cores.values() if "M" in c.pipes), m.cores["aiv"].count if "aiv" in m.cores else 0) == (cubes, vectors)
    assert (m.clock_mhz, m.l2_size_bytes >> 20, m.memory_bytes / 2**30) == (mhz, l2_mb, memory_gb)
    assert [m.peak_ops_per_s(t) / 1e12 for t in ("fp16", "int8")] == pytest.approx([fp16, int8], rel=0.005)
    assert m.l2_usable_bytes < m.l2_size_bytes and 0.7 < m.hbm_bytes_per_s / m.hbm_nominal_bytes_per_s < 1


def test_every_number_is_read_by_a_formula_or_by_code():
    machines = [load(name) for name in CHIPS]
    named = {v for m in machines for t in m.timing.values() for e in (t.busy, t.latency) for v in variables(e)}
    code = "".join(f.read_text(encoding="utf-8") for f in ROOT.rglob("*.py"))
    numbers = {k.removeprefix("numbers.") for m in machines for k in m.sources if k.startswith("numbers.")}
    assert not [n for n in sorted(numbers - named) if f'"{n}"' not in code], "nothing reads these"


def posed(name: str, operator: str) -> Problem:
    return problem(lower_operator(operator), load(name))


@pytest.mark.parametrize("name", [*CHIPS, "toy"])
@pytest.mark.parametrize("operator", ["matmul(m=128, k=64, n=96, fp16)", "softmax(m=40, n=96, fp16)"])
def test_a_program_is_timed_on_every_chip(name, operator):
    p = posed(name, operator)
    first = start(p)
    program = p.program(first.default)
    check(program, p.machine)
    m = measure(program, p.machine)
    assert first.bound_ticks <= first.default_ticks and math.isfinite(m.time_us) and m.time_us > m.launch_us > 0
