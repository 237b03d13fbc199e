"""The machines that come with aoec: that each says what its chip is, and that programs run and are timed on it."""
from __future__ import annotations

import math
from pathlib import Path

import pytest

import aoec
from aoec.ir.index import variables
from aoec.ir.text.parse import parse_program
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.simulate.timing.time import measure
from aoec.target.isa.instructions import INSTRUCTIONS
from aoec.target.legality.check import check
from aoec.target.machine import load, targets

ROOT = Path(aoec.__file__).parent

# chip -> (cube cores, vector cores beside them, MHz, L2 MB, memory GB, fp16 and int8 peak in 1e12 operations a second): vendor's
# configuration files, and the peaks that follow from them
CHIPS = {
    "Ascend310": (2, 0, 680, 8, 8, 11.1, 22.3),
    "Ascend310B1": (1, 0, 1224, 4, 32, 10.0, 20),
    "Ascend310B4": (1, 0, 500, 4, None, 4.1, 8.2),
    "Ascend310P3": (8, 7, 1060, 16, 22.35, 69.5, 139),
    "Ascend910A": (32, 0, 1000, 32, 32, 262, 524),
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
    """A further one has a test of its own."""
    assert set(CHIPS) <= set(targets())


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_is_what_its_vendor_says(name):
    cubes, vectors, mhz, l2_mb, memory_gb, fp16, int8 = CHIPS[name]
    m = load(name)
    assert (sum(c.count for c in m.cores.values() if "M" in c.pipes), m.cores["aiv"].count if "aiv" in m.cores else 0) == (cubes, vectors)
    assert (m.clock_mhz, m.l2_size_bytes >> 20, m.memory_bytes and round(m.memory_bytes / 2**30, 2)) == (mhz, l2_mb, memory_gb)
    assert [m.peak_ops_per_s(t) / 1e12 for t in ("fp16", "int8")] == pytest.approx([fp16, int8], rel=0.006)
    assert m.l2_usable_bytes < m.l2_size_bytes and 0.7 < m.hbm_bytes_per_s / m.hbm_nominal_bytes_per_s < 1


@pytest.mark.parametrize("name", CHIPS)
def test_img2col_of_single_pixels_goes_at_the_rate_of_plain_loads(name):
    """asc-devkit performance appendix, 2201: 512 / (2 * stride + further kernel rows) where plain loads go at 256."""
    machine = load(name)
    assert machine.constants["img2col_a"] / 2 == machine.paths["l1_l0a"].bytes_per_cycle


def test_every_number_is_read_by_a_formula_or_by_code():
    machines = [load(name) for name in CHIPS]
    named = {v for m in machines for t in m.timing.values() for e in (t.busy, t.latency, t.granule) for v in variables(e)}
    code = "".join(f.read_text(encoding="utf-8") for f in ROOT.rglob("*.py"))
    numbers = {k.removeprefix("numbers.") for m in machines for k in m.sources if k.startswith("numbers.")}
    assert not [n for n in sorted(numbers - named) if f'"{n}"' not in code], "nothing reads these"


def test_numbers_have_units():
    """By their keys, and those that formulas name under [units]; a factor's is x."""
    for name in CHIPS:
        numbers = {p: n.unit for p, n in load(name).sources.items()}
        assert not [p for p, unit in numbers.items() if not (unit or p.startswith("numbers."))]
        assert {numbers[f"numbers.{k}"] for k in ("bus_bytes", "mmad_head", "unaligned", "load_gap")} == {"B", "cycles", "x", "cycles/B"}
    named = load("Ascend910B3").merged.raw["units"]
    assert not named.keys() - load("Ascend910B3").merged.raw["numbers"].keys()


def posed(name: str, operator: str) -> Problem:
    return problem(lower_operator(operator), load(name))


COUPLED = """program p for {chip} {{
  input A: fp16[4096]
  output Y: fp16[1024]
  space A1: fp16 in L1 at 0 size 8192
  space A0: fp16 in L0A at 0 size 2048
  space B0: fp16 in L0B at 0 size 2048
  space C: fp32 in L0C at 0 size 4096
  space U: fp16 in UB at 0 size 2048
  stream s core grid [c in 1] {{
    copy_gm_l1(dst=A1[0], src=A[0], bursts=1, length=256, src_gap=0, dst_gap=0)
    set(MTE2, MTE1, 0)
    wait(MTE2, MTE1, 0)
    load_l0a(dst=A0[0], src=A1[0], repeat=4, src_stride=1, dst_gap=0, transpose=0)
    load_l0b(dst=B0[0], src=A1[1024], repeat=4, src_stride=1, dst_gap=0, transpose=0)
    set(MTE1, M, 0)
    wait(MTE1, M, 0)
    mmad(dst=C[0], a=A0[0], b=B0[0], m=32, n=32, k=32, init=1, unit=0)
    set(M, V, 0)
    wait(M, V, 0)
    copy_l0c_ub(dst=U[0], src=C[0], bursts=1, length=4, src_gap=0, dst_gap=0, relu=1)
    set(V, MTE3, 0)
    wait(V, MTE3, 0)
    copy_ub_gm(dst=Y[0], src=U[0], bursts=1, length=2048, src_gap=0, dst_gap=0{atomic})
  }}
}}
"""


@pytest.mark.parametrize("name", [n for n in CHIPS if load(n).has("copy_l0c_ub")])
def test_a_product_leaves_by_the_vector_unit_where_the_core_is_coupled(name):
    m = load(name)
    atomic = ", atomic=0" if "atomic" in INSTRUCTIONS["copy_ub_gm"].fields() else ""
    program = parse_program(COUPLED.format(chip=name, atomic=atomic))
    check(program, m)
    busy = measure(program, m).busy_cycles
    assert {"MTE2", "MTE1", "M", "V", "MTE3"} <= busy.keys()
    assert busy["V"] == pytest.approx(m.constants["vec_head"] + 4096 / m.paths["l0c_ub"].bytes_per_cycle, abs=1)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name, operator", [("toy", "matmul(m=128, k=64, n=96, fp16)")] + [
    (name, operator) for name in CHIPS for operator in ("matmul(m=128, k=64, n=96, fp16)", "softmax(m=40, n=96, fp16)")])
def test_a_program_is_timed_on_every_chip(name, operator):
    p = posed(name, operator)
    first = start(p)
    program = p.program(first.default)
    check(program, p.machine)
    m = measure(program, p.machine)
    assert first.bound_ticks <= first.default_ticks and math.isfinite(m.time_us) and m.time_us > m.launch_us > 0
