"""Laws of the stock rules: tilings fit the chip, schedules of ours for them are legal, and times never fall below their bound."""
from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.base.errors import AoecError
from aoec.ir.func.tir import Func
from aoec.ir.rewrite import normalise
from aoec.ir.text.show import show
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.made import Schedule, realise
from aoec.jobs.tune.tuning import bound_in
from aoec.search.stock.batch_rules import batch_tiling
from aoec.search.stock.conv_rules import best_split
from aoec.search.stock.fit_cube import Fitted, convolution_of, convolution_schedules, product_schedules
from aoec.search.stock.matmul_rules import matmul_tiling
from aoec.search.stock.sizes import Product, chip_of
from aoec.search.vendor.vendor import MatmulTiling
from aoec.target.legality.check import check
from aoec.target.machine import Machine, load

MACHINES = {"910B": load("Ascend910B3"), "910B of 24 cores": load("Ascend910B1"), "310P": load("Ascend310P3")}
SIZES = st.one_of(st.integers(1, 300), st.integers(1, 40).map(lambda x: 128 * x), st.integers(1, 40000))
FLAGS = st.booleans()


@st.composite
def products(draw: st.DrawFn, batch: int = 1) -> Product:
    size = draw(st.sampled_from((2, 2, 4)))
    coupled = draw(FLAGS)
    return Product(draw(SIZES), draw(SIZES), draw(SIZES), size, draw(st.sampled_from((2, 4))) if size == 2 else 4, draw(FLAGS), draw(FLAGS),
                   coupled, coupled, draw(FLAGS), draw(st.integers(1, batch)), draw(FLAGS))


def fits(t: MatmulTiling, p: Product, machine: Machine) -> bool:
    """Whether base blocks fit in L0, in their slots, and depths in L1."""
    size = {name: machine.scope(name).size_bytes for name in ("L1", "L0A", "L0B", "L0C")}
    a, b = t.baseM * t.baseK * p.size_bytes, t.baseN * t.baseK * p.size_bytes
    return (t.dbL0A * a <= size["L0A"] and t.dbL0B * b <= size["L0B"] and 4 * t.dbL0C * t.baseM * t.baseN <= size["L0C"]
            and t.depthA1 * a + t.depthB1 * b <= size["L1"])


@given(products(), st.sampled_from(sorted(MACHINES)))
@settings(max_examples=400, deadline=None)
def test_a_stock_tiling_fits_its_chip(p: Product, name: str) -> None:
    machine = MACHINES[name]
    chip = chip_of(machine, name.split()[0])
    found = matmul_tiling(p, chip)
    t = found.tiling
    assert fits(t, p, machine), found
    if found.template == "base" and not chip.is_coupled:  # a bias lies in L1 too
        blocks = t.depthA1 * t.baseM * t.baseK + t.depthB1 * t.baseN * t.baseK
        assert blocks * p.size_bytes + 1024 * p.bias <= chip.l1
    assert 1 <= t.usedCoreNum <= chip.cores and t.singleCoreK <= max(p.k, 3 * t.baseK)
    assert not (t.baseM % 16 or t.baseN % 16) and min(t.baseK, t.stepKa, t.stepKb, t.depthA1, t.depthB1) >= 1
    large = max(t.stepKa, t.stepKb)
    assert large % min(t.stepKa, t.stepKb) == 0 or large * t.baseK >= p.k  # all of k is a multiple of nothing
    assert matmul_tiling(p, chip) == found


@given(products(batch=3000), st.sampled_from(sorted(MACHINES)))
@settings(max_examples=200, deadline=None)
def test_a_batch_leaves_no_core_more_than_there_are(p: Product, name: str) -> None:
    chip = chip_of(MACHINES[name], name.split()[0])
    found = batch_tiling(p, chip)
    assert 1 <= found.cores <= chip.cores and 1 <= found.at_once <= p.batch
    assert found.tiling.baseM * found.tiling.baseN * 4 <= chip.l0c


def first_legal(func: Func, machine: Machine, schedules: Iterable[Fitted]) -> Schedule:
    """The first schedule that the machine takes."""
    for f in schedules:
        try:
            made = realise(func, show(f.trace), machine, ())
            check(normalise(made.program), machine)
            return made
        except AoecError:
            continue
    raise AssertionError(f"no stock schedule of {func.name} is legal on {machine.name}")


def holds(func: Func, machine: Machine, made: Schedule) -> None:
    """A schedule's program is legal, fits, and takes no less than the bound."""
    check(normalise(made.program), machine)
    assert made.measure.time_us >= bound_in(func, machine, ()).cycles / machine.clock_mhz * (1 - 1e-9)


@given(st.integers(1, 700), st.integers(1, 900), st.integers(1, 1200), FLAGS, FLAGS, FLAGS)
@settings(max_examples=15, deadline=None)
def test_the_stock_schedule_of_a_product_is_legal(m: int, n: int, k: int, bias: bool, turned: bool, coupled: bool) -> None:
    words = [f"m={m}", f"n={n}", f"k={k}", *["bias"] * bias, *["trans_b"] * turned]
    func, machine = lower_operator(f"matmul({', '.join(words)})"), MACHINES["310P" if coupled else "910B"]
    made = first_legal(func, machine, product_schedules(func, machine, chip_of(machine, "310P" if coupled else "910B")))
    holds(func, machine, made)


@pytest.mark.parametrize("name", ["910B", "310P"])
@pytest.mark.parametrize("said", ["conv2d(n=1, c=64, h=56, w=56, co=64, kh=3, kw=3, pad=1)",
                                  "conv2d(n=4, c=32, h=14, w=14, co=96, kh=1, kw=1)"])
def test_the_stock_schedule_of_a_convolution_is_legal(said: str, name: str) -> None:
    func, machine = lower_operator(said), MACHINES[name]
    kernel = 3 if "kh=3" in said else 1
    chip = chip_of(machine, name)
    split = best_split(convolution_of(func, kernel, 1), chip)
    assert split.batch * split.rows * split.channels * split.groups <= chip.cores
    made = first_legal(func, machine, convolution_schedules(func, machine, chip, kernel, 1))
    holds(func, machine, made)
