"""Copies in another order, from some places or again and again: what comes out is what the operator says, for every dtype and either kind
of core; rows that are longer than UB, and single elements."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.run.execute import run_program
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import NUMPY, evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load

DTYPES = ("fp32", "fp16", "int32", "int64", "uint8", "bool")


def moved(op: str, xs: dict[str, np.ndarray], dtypes: tuple[str, ...], target: str = "Ascend910B3", **attributes: Attribute) -> np.ndarray:
    """The result of the default schedules' programs, as a compile makes them, of one operator, of the first tensor's dtype; programs are
    checked against their machine, and of equal ones in a row one is run."""
    machine, shape = load(target), ops.shape(op, [x.shape for x in xs.values()], attributes)
    tensors = (*[Tensor(name, dtype, x.shape) for (name, x), dtype in zip(xs.items(), dtypes)], Tensor("y", dtypes[0], shape))
    graph = Graph("moved", tuple(xs), ("y",), tensors, (OpNode("n", op, tuple(xs), ("y",), tuple(attributes.items())),))
    fused, weights = fuse(graph, {}, machine)
    todo = tasks(fused, machine)
    values = {**weights, **(xs if len(todo) == 1 else evaluate(fused, xs, weights, every=True))}
    for task in todo:
        p = problem(task.func, machine, task.state)
        _, program = emit_trace(task.func, show(p.trace(start(p).best)), machine)
        check(program, machine)
        values |= run_program(program, task.bindings, {t.name: t for t in fused.tensors}, values)
    return values["y"]


def data(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Elements that differ, of a size that only their own dtype holds."""
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) * ((1 << 33) + 1 if dtype == "int64" else 3)).astype(NUMPY[dtype])


def agree(op: str, own: tuple[int, ...], dtype: str, target: str = "Ascend910B3", **attributes: Attribute) -> None:
    x = data(own, dtype)
    np.testing.assert_array_equal(moved(op, {"x": x}, (dtype,), target, **attributes), ops.get(op).reference(x, **attributes))


SHAPES = st.lists(st.sampled_from((1, 2, 3, 8, 17)), min_size=1, max_size=4).map(tuple)


@given(st.data(), SHAPES, st.sampled_from(DTYPES), st.sampled_from(("Ascend910B3", "Ascend310P3")))
@settings(max_examples=8)
def test_any_copy_of_any_dtype(draw: st.DataObject, shape: tuple[int, ...], dtype: str, target: str) -> None:
    rank = len(shape)
    agree("transpose", shape, dtype, target, perm=tuple(draw.draw(st.permutations(range(rank)))))
    sizes = tuple(draw.draw(st.integers(1, n)) for n in shape)
    steps = tuple(draw.draw(st.sampled_from((1, -1, (n - 1) // max(m - 1, 1) or 1))) for n, m in zip(shape, sizes))
    starts = tuple(0 if by > 0 else (m - 1) * -by for m, by in zip(sizes, steps))
    agree("slice", shape, dtype, target, starts=starts, sizes=sizes, steps=steps)
    agree("expand", tuple(1 if draw.draw(st.booleans()) else n for n in shape), dtype, target, shape=(2, *shape))
    if dtype not in ("uint8", "bool", "int64"):
        pads = [tuple(draw.draw(st.integers(0, 3)) for _ in shape) for _ in range(2)]
        agree("pad", shape, dtype, target, before=pads[0], after=pads[1], value=7)


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_a_step_that_is_shorter_than_a_burst(target: str) -> None:
    """Windows of an image put side by side: a tile has one of a row, and its rows are one run, so that the loop over windows, whose step
    in UB is a part of that run, is one iteration."""
    agree("transpose", (1, 2, 4, 2, 4, 64), "fp32", target, perm=(0, 1, 3, 2, 4, 5))


@pytest.mark.parametrize("shape, starts, steps", [
    ((2, 100_003), (0, 1), (1, 1)), ((200_003,), (1,), (2,)), ((3, 20_001), (0, 20_000), (1, -1))])
def test_rows_that_are_longer_than_ub(shape: tuple[int, ...], starts: tuple[int, ...], steps: tuple[int, ...]) -> None:
    sizes = tuple((n - 1 - at) // by + 1 if by > 0 else at + 1 for n, at, by in zip(shape, starts, steps))
    agree("slice", shape, "fp32", starts=starts, sizes=sizes, steps=steps)


def test_planes_out_of_others_are_one_run() -> None:
    """However short their rows are: a slice may start, or end, within the axis that it is taken along."""
    graph = Graph("planes", ("x",), ("y",), (Tensor("x", "fp16", (3, 9, 4, 5)), Tensor("y", "fp16", (3, 6, 4, 5))),
                  (OpNode("n", "slice", ("x",), ("y",), (("starts", (0, 2, 0, 0)), ("sizes", (3, 6, 4, 5)), ("steps", (1, 1, 1, 1)))),))
    (task,) = tasks(fuse(graph, {})[0], load("Ascend910B3"))
    assert "c0: Y[i0, i1] = X[i0, i1 + 40]" in show(task.func)
    agree("slice", (3, 9, 4, 5), "fp16", starts=(0, 2, 0, 0), sizes=(3, 6, 4, 5), steps=(1, 1, 1, 1))


@given(st.data(), SHAPES, st.sampled_from(DTYPES), st.sampled_from(("int32", "int64")), st.sampled_from(("Ascend910B3", "Ascend310P3")))
@settings(max_examples=6)
def test_reads_where_an_index_says(draw: st.DataObject, shape: tuple[int, ...], dtype: str, whole: str, target: str) -> None:
    axis, random = draw.draw(st.integers(0, len(shape) - 1)), np.random.default_rng(0)
    other = tuple(n if at != axis else 5 for at, n in enumerate(shape))
    for op, found in (("gather", (draw.draw(st.integers(1, 9)),)), ("gather_elements", other)):
        xs = {"x": data(shape, dtype), "i": random.integers(-shape[axis], shape[axis], found).astype(NUMPY[whole])}
        got = moved(op, xs, (dtype, whole), target, axis=axis)
        np.testing.assert_array_equal(got, ops.get(op).reference(*xs.values(), axis=axis))


def test_an_index_beyond_reads_the_nearest() -> None:
    """The scalar unit does not go astray: what an index of no slice names is the last one, or the first."""
    x, index = data((4, 8), "fp32"), np.array([9, -9, 3])
    np.testing.assert_array_equal(moved("gather", {"x": x, "i": index}, ("fp32", "int64"), axis=0), x[[3, 0, 3]])


@given(st.data(), st.lists(st.sampled_from((2, 5, 17, 33)), min_size=2, max_size=4).map(tuple), st.sampled_from(("fp16", "fp32", "int32")),
       st.sampled_from(("Ascend910B3", "Ascend310P3")))
@settings(max_examples=6)
def test_rows_become_columns(data: st.DataObject, own: tuple[int, ...], dtype: str, target: str) -> None:
    first = data.draw(st.permutations(range(len(own) - 1)))
    agree("transpose", own, dtype, target, perm=(len(own) - 1, *first))


def test_a_matrix_is_turned_in_blocks() -> None:
    """1024 x 1024 numbers of four bytes: an element after the other they would take a core of 40 some 50,000 cycles."""
    machine = load("Ascend910B3")
    tensors = tuple(Tensor(name, "fp32", (1024, 1024)) for name in "xy")
    graph = Graph("turned", ("x",), ("y",), tensors, (OpNode("n", "transpose", ("x",), ("y",), (("perm", (1, 0)),)),))
    (task,) = tasks(fuse(graph, {}, machine)[0], machine)
    p = problem(task.func, machine, task.state)
    (ticks,) = p.cost([start(p).best])
    assert ticks is not None and ticks * machine.us_per_tick < 10
