"""Reductions and softmax: what can be scheduled, how far from the bound, and that parts and folds pay. Times are modelled."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.jobs.stages.stages import lower_operator
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.lower.lower import lower
from aoec.ops.run import evaluate
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import case, cases, legal, tuning

MACHINE = load("Ascend910B3")


def func_of(op: str, shape: tuple[int, ...], dtype: str = "fp32", to: str = "", **attributes):  # type: ignore[no-untyped-def]
    out = shape if op == "softmax" else tuple(1 if a in attributes["axes"] else n for a, n in enumerate(shape))
    graph = Graph(op, ("x",), ("y",), (Tensor("x", dtype, shape), Tensor("y", to or dtype, out)),
                  (OpNode(op, op, ("x",), ("y",), tuple(attributes.items())),), (Group("g0", "vector", (op,)),))
    return lower(graph, "g0")


def default(op: str, shape: tuple[int, ...], dtype: str = "fp32", **attributes):  # type: ignore[no-untyped-def]
    p = problem(func_of(op, shape, dtype, **attributes), MACHINE)
    return p, start(p)


@pytest.mark.parametrize("op, shape, attributes, most", [
    ("reduce_sum", (4096, 2048), {"axes": (1,)}, 1.7),    # rows in UB
    ("reduce_min", (64, 65536), {"axes": (1,)}, 1.9),     # rows that UB does not hold
    ("reduce_mean", (1024, 4096), {"axes": (0,)}, 1.25),  # columns: many rows an instruction
    ("reduce_sum", (64, 1024, 64), {"axes": (1,)}, 1.25),
    ("reduce_sum", (1000003,), {"axes": (0,)}, 1.7),      # one element: parts of the sum are added in GM
    ("reduce_sum", (65536, 16), {"axes": (0,)}, 1.7),
    ("softmax", (2048, 2048), {"axis": 1}, 2.2),
    ("softmax", (4608, 384), {"axis": 1}, 3.2),           # short rows: many an instruction
])
def test_the_default_is_near_the_bound(op: str, shape: tuple[int, ...], attributes: dict[str, object], most: float) -> None:
    _, first = default(op, shape, **attributes)
    assert first.bound_ticks <= first.ticks <= most * first.bound_ticks


def test_rows_are_summed_by_cores_that_each_take_whole_blocks_of_some() -> None:
    """Cores that shared out the columns read bursts of 96 bytes and cast row by row: 1147 us on 910A, where the bound is 89."""
    first = start(problem(func_of("reduce_sum", (16384, 3072), "fp16", to="fp32", axes=(0,)), load("Ascend910A")))
    assert first.bound_ticks <= first.ticks <= 1.1 * first.bound_ticks


@pytest.mark.parametrize("text, most_us", [("global_avg_pool(n=1, c=2048, h=7, w=7)", 3.0),
                                           ("global_avg_pool(n=32, c=1280, h=7, w=7)", 7.0)])
def test_the_pixels_of_a_plane_are_added_some_at_a_time(text: str, most_us: float) -> None:
    """One pixel an instruction took 3.84 and 16.05 us."""
    first = start(problem(lower_operator(text), MACHINE))
    assert first.ticks * MACHINE.us_per_tick < most_us


def test_a_window_s_rows_are_added_a_part_of_all_rows_at_a_time() -> None:
    """A row of 17 x 16 fp32 took two instructions; a repeat of each of 17 rows takes five for all of them: 448 us before, on 910A."""
    window = {"kernel": (3, 3), "stride": (1, 1), "pad": (1, 1, 1, 1), "dilation": (1, 1)}
    tensors = tuple(Tensor(name, "fp16", (32, 768, 17, 17), "NC1HWC0") for name in "xy")
    graph = Graph("pool", ("x",), ("y",), tensors, (OpNode("p", "avg_pool", ("x",), ("y",), tuple(window.items())),),
                  (Group("g0", "vector", ("p",)),))
    machine = load("Ascend910A")
    assert start(problem(lower(graph, "g0"), machine)).ticks * machine.us_per_tick < 448 / 2


def test_a_softmax_row_that_ub_does_not_hold_is_read_once_for_each_pass() -> None:
    p, first = default("softmax", (40, 50000), axis=1)
    moved = measure(p.program(first.default), MACHINE, ()).bytes_by_path
    assert moved["GM->UB"] == 3 * 40 * 50000 * 4 and moved["UB->GM"] == 40 * 50000 * 4


def test_longer_rows_cost_less_an_element_than_a_whole_reduce_would() -> None:
    """Seven cycles for 64 elements is the whole reduce's rate (asc-devkit); a tree is published at 172 against 242 for 30000 of them."""
    p = problem(func_of("reduce_max", (40, 16384), axes=(1,)), MACHINE)
    grid = p.space.grids[0]
    chosen = {"t0": 1, "g0": 40, "di": 1}
    whole_row = tuple(chosen.get(name, choices[0]) for name, choices in zip(grid.names, grid.choices))
    busy = measure(p.program((0, whole_row)), MACHINE, ()).busy_cycles["V"]
    assert busy < 172 / 242 * 7 * np.ceil(16384 / 64)


@pytest.mark.parametrize("model", ["softmax_rows", "softmax_far", "reduce_rows", "reduce_tall", "scale_rows", "scale_rows16"])
def test_many_rows_at_once_give_what_rows_one_by_one_give(model: str) -> None:
    """Of the widest tiles that fit, with whole rows in UB: turned, folded and spread rows mean the operator."""
    (case,), p = cases(model), tuning(model, 0)
    grid = p.space.grids[0]
    wide = [tuple(row if n == "t0" else choices[0] for n, choices in zip(grid.names, grid.choices)) for row in grid.choices[0]]
    legal = [c for c in ((0, values) for values in wide) if p.cost([c])[0] is not None]
    assert grid.names[0] == "t0" and len(legal) > 0
    for c in {legal[-1], legal[len(legal) // 2]}:
        program = p.program(c)
        check(program, p.machine)
        assert case.agrees(case.run(program)), p.values(c)


def test_a_sum_of_one_number_that_is_made_before_has_a_schedule() -> None:
    """Its blocks each have a loop, though all of their axes are of one element."""
    graph = Graph("sum", ("x", "z"), ("y",), tuple(Tensor(n, "fp32", (1,)) for n in "xzty"),
                  (OpNode("mul", "mul", ("x", "z"), ("t",)), OpNode("sum", "reduce_sum", ("t",), ("y",), (("axes", (0,)),))),
                  (Group("g0", "vector", ("mul", "sum")),))
    x, z = np.float32([3]), np.float32([-2])
    found = case("sum", graph, "g0", evaluate(graph, {"x": x, "z": z}, {}, every=True))
    p = problem(found.func, MACHINE)
    assert p.refused == [] and all(found.agrees(found.run(p.program(c))) for c in legal(p, 0, 2))
