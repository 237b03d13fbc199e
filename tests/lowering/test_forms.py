"""Every structure that a matrix product's schedule can have, beyond those that the search lays out: values, order, time."""
from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from aoec.ir.rewrite import fill
from aoec.jobs.tune.tuning import Problem, problem
from aoec.search.sketches.nests import find_product
from aoec.search.sketches.sketches_matmul import FORMS, Form, matmul_sketch
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from tests.lowering.groups import Case, cases, legal, machine_named
from tests.oracle.slow_timeline import simulate

MODELS = ("matmul", "matmul_nd", "matmul_turned", "matmul_even")
MACHINE = machine_named("Ascend910B3")
SPREADS = {"grid": ("parts", "single"), "dealt": ("deal m", "turn n", "deal n", "turn m"),
           "walked": ("walk diagonal", "walk columns", "walk rows")}
WALKED = [{"sm": 16, "sn": 32, "bm": 2, "bn": 1, "cores": 3}, {"sm": 32, "sn": 16, "bm": 1, "bn": 2, "cores": 2}]  # a walk is of numbers
STRUCTURES = [
    Form(resident, inside, larger, steps, l2) for (resident, steps), inside, larger, l2 in product(
        (("none", ""), ("left", "m"), ("right", "n"), ("both", "mn")), ("m", "n"), ("left", "right", ""), ("", "m", "nm"))
    if resident == "none" or larger == "left"]


ROTATED = [Form("none", inside, "left" if parts else "", "", "", spread, True, parts) for inside, spread, parts in product(
    ("m", "n"), ("parts", "deal m"), (False, True))]
PARTS = [Form("none", "n", "right", "", "m", "single", False, True), Form("both", "m", "left", "mn", "", "parts", False, True)]


def forms(spread: str) -> list[Form]:
    """Each structure with one of the ways to share it, all of them in turn."""
    if spread == "along k":
        return ROTATED + PARTS
    ways = SPREADS[spread]
    return [Form(f.resident, f.inside, f.larger, f.steps, "" if spread != "grid" else f.l2, ways[i % len(ways)])
            for i, f in enumerate(STRUCTURES)]


@cache
def posed(model: str, spread: str) -> tuple[Case, Problem]:
    """A product with the sketches of all structures."""
    case = cases(model)[-1]
    chosen = list(dict.fromkeys(forms(spread)))
    mm = find_product(case.func)
    assert mm is not None
    made = [matmul_sketch(case.func, mm, MACHINE, f) for f in chosen]
    if spread == "walked":
        made = [fill(sketch, WALKED[i % len(WALKED)]) for i, sketch in enumerate(made)]
    return case, problem(case.func, MACHINE, (), made)


def some(model: str, spread: str) -> list[int]:
    """Numbers of sketches, a third of them for each model, so that together they show all."""
    count = len(posed(model, spread)[1].sketches)
    return list(range(MODELS.index(model) % 3, count, 3)) if spread != "along k" else list(range(count))


GRIDS = [(m, "grid") for m in MODELS] + [("matmul_nd", "walked"), ("matmul_even", "walked"), ("matmul_even", "dealt"),
                                        ("matmul_even32", "along k")]


@pytest.mark.parametrize("model, spread", GRIDS)
def test_every_structure_can_be_emitted(model: str, spread: str) -> None:
    _, p = posed(model, spread)
    assert p.refused == []


@pytest.mark.parametrize("model, spread", GRIDS)
def test_every_structure_means_the_operator_and_orders_its_accesses(model: str, spread: str) -> None:
    case, p = posed(model, spread)
    for sketch in some(model, spread):
        for c in legal(p, sketch, 1, seed=11):
            program = p.program(c)
            check(program, p.machine)
            assert case.agrees(case.run(program)), (p.sketches[sketch].trace, p.values(c))


@pytest.mark.parametrize("model, spread", [
    ("matmul_nd", "grid"), ("matmul_even", "dealt"), ("matmul_even", "walked"), ("matmul_even32", "along k")])
def test_every_core_takes_as_long_as_its_class(model: str, spread: str) -> None:
    """Blocks that are dealt out leave some cores with one more; the slow oracle times every core on its own."""
    _, p = posed(model, spread)
    for sketch in some(model, spread)[:6]:
        for c in legal(p, sketch, 1, seed=12):
            program = p.program(c)
            assert measure(program, p.machine).ticks == simulate(program, p.machine).ticks, p.values(c)


def test_dealt_blocks_come_out_uneven_on_some_cores() -> None:
    """The case that makes the law above worth asking: 6 blocks on 4 cores are 2, 2, 1, 1."""
    _, p = posed("matmul_even", "dealt")
    values = {"sm": 32, "sn": 32, "so": 1, "cores": 4}
    sketch = next(i for i, g in enumerate(p.space.grids) if "rk" not in g.names and "pm" not in g.names)
    c = next(c for c in legal(p, sketch, 40, seed=13))
    grid = p.space.grids[sketch]
    uneven = (sketch, tuple(values.get(n, v) for n, v in zip(grid.names, c[1])))
    program = p.program(uneven)
    check(program, p.machine)
    assert measure(program, p.machine).cores == 4
    assert measure(program, p.machine).ticks == simulate(program, p.machine).ticks


def test_the_search_lays_out_structures_of_these() -> None:
    assert set(FORMS) <= {Form(f.resident, f.inside, f.larger, f.steps, f.l2) for f in STRUCTURES} | {Form("left", "n"), Form("right", "m")}
