"""Images whose channels fill no whole blocks: cores share the images and the blocks of channels, on either kind of core, every element is
in its place, and no two cores write one block of GM on machines that write whole blocks."""
from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.index import evaluate
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.run.execute import run_program
from aoec.jobs.tune.tuning import problem, start
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import to_physical
from aoec.target.legality.footprint import footprints
from aoec.target.machine import load
from tests.lowering.test_conversions import conversion, program_of

TARGETS = ("Ascend910B3", "Ascend310P3", "Ascend310B1", "Ascend910A")


def check_values(op: str, shape: tuple[int, ...], dtype: str, target: str) -> None:
    """AssertionError where the default program is illegal, or an element is not where NumPy has it."""
    task, p, x, y = conversion(op, shape, dtype, target)
    values = np.random.default_rng(0).integers(-90, 100, shape).astype(NUMPY[dtype])
    got = run_program(program_of(p), task.bindings, {"x": x, "y": y}, {"x": to_physical(values, x)})["y"]
    np.testing.assert_array_equal(got.reshape(-1), to_physical(values, y).reshape(-1))


@settings(max_examples=20)
@given(st.sampled_from(("from_nc1hwc0", "to_nc1hwc0")), st.tuples(*[st.integers(1, n) for n in (9, 99, 12, 12)]),
       st.sampled_from(("int8", "fp16", "fp32")), st.sampled_from(TARGETS))
def test_every_element_of_any_images_finds_its_place(op, shape, dtype, target):
    check_values(op, shape, dtype, target)


@pytest.mark.parametrize("shape, dtype, target", [
    ((2, 64, 17, 17), "int8", "Ascend310P3"), ((9, 22, 11, 5), "int8", "Ascend910A"), ((3, 35, 9, 11), "fp16", "Ascend310P3")])
def test_ends_of_rows_read_what_was_turned(shape, dtype, target):
    """Turns of bytes write half a block of each row, and the other half by itself."""
    check_values("from_nc1hwc0", shape, dtype, target)


def test_turns_of_bytes_touch_half_of_each_block():
    fields = dict(repeat=3, dst_stride=3, dst_half=0, src_stride=1, dst_rep=1, src_rep=32, dst_high=0, src_high=1)
    written, read = footprints("vnchwconv", fields, ("int8", "int8"))
    for boxes, stride, rep, high in ((written, 3, 1, 0), (read, 1, 32, 1)):
        touched = {b.start + r * b.stride + i for b in boxes for r in range(b.runs) for i in range(b.length)}
        assert touched == {(row * stride + r * rep) * 32 + high * 16 + i for row in range(16) for r in range(3) for i in range(16)}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("images", (1, 16))
def test_channels_that_fill_no_block_take_little_longer(target, images):
    """Of 16 x 7 x 7 pixels, 232 channels took 1,277 us on 310P3 where 240 took 6.3 (modelled), on one core."""
    def found(channels):
        _, p, *_ = conversion("from_nc1hwc0", (images, channels, 7, 7), "fp16", target)
        best = start(p)
        return p.program(best.best), best.ticks
    program, ticks = found(232)
    cores = prod(int(evaluate(extent, {})) for _, extent in program.streams[0].grid)
    machine = load(target)
    assert cores > 1 or machine.core("core" if "core" in machine.cores else "aiv").count == 1
    assert ticks < 2 * found(240)[1]


@pytest.mark.parametrize("target", ("Ascend910B3", "Ascend310P3"))
@pytest.mark.parametrize("shape", [(3, 20, 5, 7), (1, 40, 7, 7)])
def test_ragged_blocks_of_channels_become_rows_of_pixels(target, shape):
    n, c, h, w = shape
    x, y = Tensor("x", "fp16", shape, "NC1HWC0"), Tensor("y", "fp16", (n, h, w, c), "ND")
    node = OpNode("n", "transpose", ("x",), ("y",), (("perm", (0, 2, 3, 1)),))
    (task,) = tasks(Graph("rows", ("x",), ("y",), (x, y), (node,), (Group("g0", "vector", ("n",)),)), load(target))
    values = np.random.default_rng(0).integers(-90, 100, shape).astype(np.float16)
    program = program_of(problem(task.func, load(target), task.state))
    got = run_program(program, task.bindings, {"x": x, "y": y}, {"x": to_physical(values, x)})["y"]
    np.testing.assert_array_equal(got.reshape(y.shape), values.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("target", ("Ascend310P3", "Ascend910A"))
@pytest.mark.parametrize("shape, dtype", [
    ((16, 2, 116, 196), "fp16"), ((16, 2, 232, 49), "fp16"), ((2, 3, 20, 75), "fp32"), ((2, 3, 20, 75), "int8")])
def test_channels_are_shuffled_in_rows_that_fill_no_block(target, shape, dtype):
    """The ends of rows are turned sixteen at a time: of few rows of a group, those of the other loop."""
    n, groups, each, size = shape
    x, y = Tensor("x", dtype, shape), Tensor("y", dtype, (n, each, groups, size))
    node = OpNode("n", "transpose", ("x",), ("y",), (("perm", (0, 2, 1, 3)),))
    (task,) = tasks(Graph("shuffled", ("x",), ("y",), (x, y), (node,), (Group("g0", "vector", ("n",)),)), load(target))
    values = np.random.default_rng(0).integers(-90, 100, shape).astype(NUMPY[dtype])
    program = program_of(problem(task.func, load(target), task.state))
    got = run_program(program, task.bindings, {"x": x, "y": y}, {"x": values})["y"]
    np.testing.assert_array_equal(got.reshape(y.shape), values.transpose(0, 2, 1, 3))


def test_rows_so_long_that_no_sixteen_fit_are_split():
    """Half of 464 channels of 7 x 7 pixels is 22,736 bytes, and no whole blocks."""
    x, y = Tensor("x", "fp16", (16, 22736)), Tensor("y", "fp16", (16, 11368))
    node = OpNode("n", "slice", ("x",), ("y",), (("starts", (0, 11368)), ("sizes", (16, 11368)), ("steps", (1, 1))))
    machine = load("Ascend310P3")
    (task,) = tasks(Graph("half", ("x",), ("y",), (x, y), (node,), (Group("g0", "vector", ("n",)),)), machine)
    values = np.random.default_rng(0).integers(-90, 100, x.shape).astype(np.float16)
    program = program_of(problem(task.func, machine, task.state))
    got = run_program(program, task.bindings, {"x": x, "y": y}, {"x": values})["y"]
    np.testing.assert_array_equal(got.reshape(y.shape), values[:, 11368:])
