"""Rows that are no whole blocks are packed in UB and leave it as one run: values are those of the operator, and it pays."""
from __future__ import annotations

import numpy as np
import pytest

from aoec import ops
from aoec.ir.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.show import show
from aoec.jobs.execute import run_program
from aoec.jobs.made import emitted
from aoec.jobs.plan import Task, tasks
from aoec.jobs.tuning import problem, start
from aoec.lowering.fuse import fuse
from aoec.ops.run import NUMPY
from aoec.search.sketches import sketches
from aoec.simulate.time import measure
from aoec.target.check import check
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
LONG_ROWS: list[tuple[str, tuple[int, ...], str, dict[str, Attribute]]] = [  # of more than a repeat, which 310P does not pack
    ("transpose", (3, 143, 150), "fp16", {"perm": (0, 2, 1)}), ("softmax", (400, 73), "fp32", {"axis": 1})]
CASES = [*((*r, t) for r in ROWS for t in ("Ascend910B3", "Ascend310P3")), *((*r, "Ascend910B3") for r in LONG_ROWS)]


@pytest.mark.parametrize("op, own, dtype, attributes, target", CASES, ids=[f"{c[0]}-{c[1]}-{c[-1]}" for c in CASES])
def test_ragged_rows_leave_as_one_run(op: str, own: tuple[int, ...], dtype: str, attributes: dict[str, Attribute], target: str) -> None:
    machine = load(target)
    task, tensors = task_of(op, own, dtype, machine, **attributes)
    p = problem(task.func, machine, task.state)
    trace = p.trace(start(p).best)
    _, program = emitted(task.func, show(trace), machine)
    assert "vreducev2" in show(program)
    check(program, machine)
    x = np.random.default_rng(0).standard_normal(own).astype(NUMPY[dtype])
    got = run_program(program, task.bindings, tensors, {"x": x})["y"]
    wanted = ops.get(op).reference(x, **attributes)
    np.testing.assert_allclose(got, wanted, atol=0 if op != "softmax" else 1e-3)
    rows = [line for line in show(trace).replace("_packed", "").splitlines() if "pack(" not in line]
    _, apart = emitted(task.func, "\n".join(rows), machine)
    assert measure(program, machine).ticks < measure(apart, machine).ticks


@pytest.mark.parametrize("target, own, dtype", [
    ("Ascend910A", (400, 37), "fp16"),  # no such instruction
    ("Ascend310P3", (400, 137), "fp16"),  # longer than a repeat, which is all that 310P packs of a row
    ("Ascend910B3", (400, 48), "fp16"),  # whole blocks
    ("Ascend910B3", (60, 37), "fp16"),  # few rows
    ("Ascend910B3", (400, 5), "fp16")])  # rows of no more bytes than an instruction takes for them
def test_other_rows_are_stored_as_they_lie(target: str, own: tuple[int, ...], dtype: str) -> None:
    machine = load(target)
    task, _ = task_of("softmax", own, dtype, machine, axis=1)
    assert not any(s.primitive == "pack" for trace in sketches(task.func, machine) for s in trace.steps)
