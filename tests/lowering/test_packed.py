"""Rows that are no whole blocks are packed in UB and leave it as one run: values are those of the operator, and it pays."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import ops
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import Task, tasks
from aoec.jobs.run.execute import run_program
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import NUMPY
from aoec.ops.words.layout import to_physical
from aoec.search.sketches.sketches import sketches
from aoec.simulate.timing.time import measure
from aoec.target.legality.check import check
from aoec.target.machine import Machine, load


def task_of(op: str, own: tuple[int, ...], dtype: str, machine: Machine, **attributes: Attribute) -> tuple[Task, dict[str, Tensor]]:
    """The one task of an operator."""
    made = (Tensor("x", dtype, own), Tensor("y", dtype, ops.shape(op, [own], attributes)))
    graph = Graph("rows", ("x",), ("y",), made, (OpNode("n", op, ("x",), ("y",), tuple(attributes.items())),))
    fused, _ = fuse(graph, {}, machine)
    (task,) = tasks(fused, machine)
    return task, {t.name: t for t in fused.tensors}


ROWS: list[tuple[str, tuple[int, ...], str, dict[str, Attribute]]] = [
    ("transpose", (2, 85, 333), "fp16", {"perm": (0, 2, 1)}),
    ("transpose", (41, 500), "fp32", {"perm": (1, 0)}),
    ("slice", (150, 3, 90), "fp16", {"starts": (0, 0, 5), "sizes": (150, 3, 85), "steps": (1, 1, 1)}),
    ("softmax", (400, 37), "fp16", {"axis": 1}),
    ("softmax", (130, 2, 61), "fp32", {"axis": 2})]
LONG_ROWS: list[tuple[str, tuple[int, ...], str, dict[str, Attribute]]] = [  # of more than a repeat, each with a mask of its own on 310P
    ("transpose", (3, 143, 150), "fp16", {"perm": (0, 2, 1)}), ("transpose", (150, 230), "fp32", {"perm": (1, 0)}),
    ("softmax", (400, 73), "fp32", {"axis": 1}), ("softmax", (400, 197), "fp16", {"axis": 1}), ("softmax", (400, 481), "fp16", {"axis": 1})]
CASES = [(*r, t) for r in (*ROWS, *LONG_ROWS) for t in ("Ascend910B3", "Ascend310P3")]
BYTES: list[tuple[str, tuple[int, ...], str, dict[str, Attribute]]] = [  # two by two
    ("slice", (150, 3, 90), "int8", {"starts": (0, 0, 5), "sizes": (150, 3, 82), "steps": (1, 1, 1)}),
    ("slice", (150, 2, 300), "uint8", {"starts": (0, 0, 2), "sizes": (150, 2, 298), "steps": (1, 1, 1)})]
CASES += [(*r, t) for r in BYTES for t in ("Ascend910B3", "Ascend310P3")]
IMAGES = [("int8", (1, 128, 14, 14)), ("int32", (1, 128, 14, 14)), ("fp32", (2, 48, 7, 7)),
          ("fp16", (1, 96, 14, 14)), ("fp16", (5, 32, 7, 7))]


@pytest.mark.parametrize("op, own, dtype, attributes, target", CASES, ids=[f"{c[0]}-{c[1]}-{c[-1]}" for c in CASES])
def test_ragged_rows_leave_as_one_run(op: str, own: tuple[int, ...], dtype: str, attributes: dict[str, Attribute], target: str) -> None:
    machine = load(target)
    task, tensors = task_of(op, own, dtype, machine, **attributes)
    p = problem(task.func, machine, task.state)
    trace = p.trace(start(p).best)
    _, program = emit_trace(task.func, show(trace), machine)
    assert "vreducev2" in show(program) or "end_blocks(" in show(trace)
    check(program, machine)
    x = (np.random.default_rng(0).standard_normal(own) * (1 if dtype[:2] == "fp" else 40)).astype(NUMPY[dtype])
    got = run_program(program, task.bindings, tensors, {"x": x})["y"]
    wanted = ops.get(op).reference(x, **attributes)
    np.testing.assert_allclose(got, wanted, atol=0 if op != "softmax" else 1e-3)
    lines, ways = show(trace).replace("_packed", "").splitlines(), (" pack(", "end_blocks(", "_ends,")
    rows = [line for line in lines if not any(w in line for w in ways)]
    _, apart = emit_trace(task.func, "\n".join(rows), machine)
    assert measure(program, machine).ticks < measure(apart, machine).ticks


@pytest.mark.parametrize("target, own, dtype", [
    ("Ascend910A", (400, 197), "fp16"),  # no such instruction, and too long to be turned
    ("Ascend910B3", (400, 48), "fp16"),  # whole blocks
    ("Ascend910B3", (60, 37), "fp16"),  # few rows
    ("Ascend910B3", (400, 5), "fp16")])  # rows of no more bytes than an instruction takes for them
def test_other_rows_are_stored_as_they_lie(target: str, own: tuple[int, ...], dtype: str) -> None:
    machine = load(target)
    task, _ = task_of("softmax", own, dtype, machine, axis=1)
    assert not any(s.primitive == "pack" for trace in sketches(task.func, machine) for s in trace.steps)


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
@pytest.mark.parametrize("dtype, shape", IMAGES, ids=str)
def test_channels_of_images_leave_as_one_run(dtype: str, shape: tuple[int, ...], target: str) -> None:
    """Rows of a result that two loops number, blocks of channels and the channels in each."""
    machine = load(target)
    task, tensors = converted(dtype, shape, machine)
    p = problem(task.func, machine, task.state)
    trace = p.trace(start(p).best)
    _, program = emit_trace(task.func, show(trace), machine)
    assert "vreducev2" in show(program)
    check(program, machine)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(NUMPY[dtype])
    got = run_program(program, task.bindings, tensors, {"x": to_physical(x, tensors["x"])})[dict(task.bindings)["Y"]]
    np.testing.assert_array_equal(got.reshape(shape), x)
    rows = [line for line in show(trace).replace("_packed", "").splitlines() if "pack(" not in line]
    _, apart = emit_trace(task.func, "\n".join(rows), machine)
    assert measure(program, machine).ticks < measure(apart, machine).ticks


def converted(dtype: str, shape: tuple[int, ...], machine: Machine) -> tuple[Task, dict[str, Tensor]]:
    """The one task of an image that leaves NC1HWC0, for it is read in rows."""
    made = (Tensor("x", dtype, shape, "NC1HWC0"), Tensor("y", dtype, shape))
    fused, _ = fuse(Graph("image", ("x",), ("y",), made, (OpNode("n", "reshape", ("x",), ("y",), (("shape", shape),)),)), {}, machine)
    (task,) = tasks(fused, machine)
    return task, {t.name: t for t in fused.tensors}


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_long_ragged_rows_are_near_their_bound(target: str) -> None:
    """One by one they were 5 to 9 times above it: at 2 bytes a cycle."""
    machine = load(target)
    rows, image = task_of("softmax", (2364, 197), "fp16", machine, axis=1)[0], converted("int32", (1, 1024, 14, 14), machine)[0]
    for task, factor in ((rows, 3.3), (image, 2)):
        found = start(problem(task.func, machine, task.state))
        assert found.default_ticks < factor * found.bound_ticks


def test_masks_of_long_rows_have_room() -> None:
    """On 310P each repeat of a row has a block of mask in UB, and the repeats of a row are whole blocks apart."""
    task, _ = task_of("softmax", (400, 197), "fp16", load("Ascend310P3"), axis=1)
    p = problem(task.func, load("Ascend310P3"), task.state)
    _, program = emit_trace(task.func, show(p.trace(start(p).best)), load("Ascend310P3"))
    (packing,) = [line for line in show(program).splitlines() if "vreducev2" in line]
    assert "lanes=197" in packing and "src_rep=14)" in packing  # 13 blocks, and one more for two repeats
