"""Conversions between rows of pixels and blocks of channels: every element in its place, zeros in the channels that are missing, for
elements of one, two and four bytes on either kind of core; images whose rows are too long for UB."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.program import Program
from aoec.jobs.choose.model_tasks import Task, tasks
from aoec.jobs.run.execute import run_program
from aoec.jobs.tune.tuning import Problem, problem, start
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import to_physical
from aoec.target.legality.check import check
from aoec.target.machine import load


def conversion(op: str, shape: tuple[int, ...], dtype: str, target: str = "Ascend910B3") -> tuple[Task, Problem, Tensor, Tensor]:
    """The task of one conversion, its problem, and the tensors before and after."""
    machine, layouts = load(target), ("ND", "NC1HWC0") if op == "to_nc1hwc0" else ("NC1HWC0", "ND")
    x, y = (Tensor(name, dtype, shape, layout) for name, layout in zip("xy", layouts))
    graph = Graph("turned", ("x",), ("y",), (x, y), (OpNode("n", op, ("x",), ("y",), ()),), (Group("g0", "vector", ("n",)),))
    (task,) = tasks(graph, machine)
    return task, problem(task.func, machine, task.state), x, y


def program_of(p: Problem) -> Program:
    """The default program, checked against its machine."""
    program = p.program(start(p).best)
    check(program, p.machine)
    return program


@pytest.mark.parametrize("op", ("to_nc1hwc0", "from_nc1hwc0"))
@pytest.mark.parametrize("shape, dtype, target", [
    ((2, 35, 9, 11), "int8", "Ascend910B3"), ((1, 64, 5, 7), "uint8", "Ascend310P3"), ((1, 3, 1, 17), "bool", "Ascend910B3"),
    ((1, 40, 3, 97), "fp16", "Ascend910B3"), ((2, 9, 20, 15), "fp32", "Ascend310P3"),
    ((1, 40, 7, 8), "int32", "Ascend910B3")])
def test_every_element_finds_its_place(op, shape, dtype, target):
    task, p, x, y = conversion(op, shape, dtype, target)
    values = np.random.default_rng(0).integers(-90, 100, shape).astype(NUMPY[dtype])
    got = run_program(program_of(p), task.bindings, {"x": x, "y": y}, {"x": to_physical(values, x)})["y"]
    np.testing.assert_array_equal(got.reshape(-1), to_physical(values, y).reshape(-1))


@pytest.mark.parametrize("op, shape, dtype", [
    ("from_nc1hwc0", (1, 64, 128, 128), "fp16"), ("from_nc1hwc0", (1, 2, 572, 572), "fp32"), ("from_nc1hwc0", (1, 96, 128, 128), "int8"),
    ("to_nc1hwc0", (1, 64, 572, 572), "int8")])
def test_rows_that_are_too_long_for_ub_are_cut(op, shape, dtype):
    program_of(conversion(op, shape, dtype)[1])


@pytest.mark.parametrize("op", ("to_nc1hwc0", "from_nc1hwc0"))
def test_bytes_take_no_longer_than_twice_as_many(op):
    """They are turned in bursts as all others are, not an element after the other."""
    problems = [conversion(op, (1, 64, 56, 56), dtype)[1] for dtype in ("int8", "fp16")]
    narrow, wide = (p.cost([start(p).best])[0] for p in problems)
    assert narrow <= 1.05 * wide


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A", "Ascend950PR_958x"])
@pytest.mark.parametrize("shape, dtype", [
    ((1, 1, 30, 33), "fp16"), ((2, 3, 9, 11), "fp32"), ((1, 19, 7, 13), "fp16"), ((2, 5, 9, 8), "int8")])
def test_few_channels_of_blocks_come_with_their_blocks(shape, dtype, target):
    """What a convolution gives one mask or three colours in: a burst of two bytes for each pixel before."""
    task, p, x, y = conversion("from_nc1hwc0", shape, dtype, target)
    values = np.random.default_rng(0).integers(-90, 100, shape).astype(NUMPY[dtype])
    program = program_of(p)
    got = run_program(program, task.bindings, {"x": x, "y": y}, {"x": to_physical(values, x)})["y"]
    np.testing.assert_array_equal(got.reshape(-1), values.reshape(-1))


@pytest.mark.parametrize("target, few_us", [("Ascend910B3", 9), ("Ascend310P3", 90)])
def test_few_channels_take_little_longer_than_all(target, few_us):
    """Of 388 x 388 pixels, cold: 2 channels took 9.1 us on 910B3 and 37 on 310P3 where they lay in L2, and 16 took 5 and 8 (modelled)."""
    def us(channels):
        _, p, *_ = conversion("from_nc1hwc0", (1, channels, 388, 388), "fp16", target)
        return start(p).ticks * p.machine.us_per_tick
    assert us(2) < us(16) < few_us
