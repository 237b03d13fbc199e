"""Rows made of other rows through their columns in UB: concats of boxes, transpositions that move pairs, padding within a block."""
from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops, primitives
from aoec.base.errors import ScheduleError, UnsupportedError
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import Task, tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.emit.emit import emit
from aoec.target.machine import Machine, load
from tests.lowering.test_copies import agree, data, moved

TARGETS = ("Ascend910B3", "Ascend310P3", "Ascend910A")
Shapes = list[tuple[int, ...]]


def task_of(op: str, shapes: Shapes, machine: Machine, **attributes: Attribute) -> Task:
    """The one task of an operator on tensors of fp16."""
    names = [f"x{at}" for at in range(len(shapes))]
    tensors = (*[Tensor(n, "fp16", s) for n, s in zip(names, shapes)], Tensor("y", "fp16", ops.shape(op, shapes, attributes)))
    graph = Graph("columns", tuple(names), ("y",), tensors, (OpNode("n", op, tuple(names), ("y",), tuple(attributes.items())),))
    (task,) = tasks(fuse(graph, {}, machine)[0], machine)
    return task


@given(st.lists(st.integers(1, 5), min_size=2, max_size=3), st.sampled_from((256, 301, 1030)), st.sampled_from(("fp16", "fp32", "int32")),
       st.sampled_from(TARGETS))
@settings(max_examples=8, deadline=None)
def test_a_concat_of_narrow_rows(widths: list[int], rows: int, dtype: str, target: str) -> None:
    xs = {f"x{at}": data((2, rows, w), dtype) + np.array(at).astype(np.int8) for at, w in enumerate(widths)}
    got = moved("concat", xs, (dtype,) * len(xs), target, axis=2)
    np.testing.assert_array_equal(got, np.concatenate(list(xs.values()), 2))


def test_a_tensor_that_stands_twice() -> None:
    x, y = data((500, 2), "fp16"), data((500, 1), "fp16") + 7
    machine = load("Ascend910B3")
    tensors = (Tensor("x", "fp16", x.shape), Tensor("y", "fp16", y.shape), Tensor("z", "fp16", (500, 5)))
    graph = Graph("twice", ("x", "y"), ("z",), tensors, (OpNode("n", "concat", ("x", "y", "x"), ("z",), (("axis", 1),)),))
    (task,) = tasks(fuse(graph, {}, machine)[0], machine)
    assert [b.name for b in task.func.inputs] == ["X0", "X1"]
    (got,) = evaluate_func(task.func, {"X0": x, "X1": y[:, 0]}).values()
    np.testing.assert_array_equal(got, np.concatenate([x, y, x], 1))


@given(st.sampled_from((1, 3, 40, 70)), st.sampled_from((8, 16, 48, 256)), st.sampled_from((2, 3)), st.sampled_from((1, 2, 3)),
       st.sampled_from(("fp16", "fp32")), st.sampled_from(TARGETS))
@settings(max_examples=8, deadline=None)
def test_pairs_change_places(lead: int, far: int, near: int, last: int, dtype: str, target: str) -> None:
    agree("transpose", (lead, far, near, last), dtype, target, perm=(0, 2, 1, 3))


@given(st.sampled_from((1, 2)), st.sampled_from((16, 37, 144)), st.sampled_from((3, 16, 50)), st.sampled_from((2, 3, 4, 8)),
       st.sampled_from(("fp16", "fp32", "int8")), st.sampled_from(TARGETS))
@settings(max_examples=8, deadline=None)
def test_a_short_last_axis_is_turned_with_the_one_before(lead: int, along: int, far: int, across: int, dtype: str, target: str) -> None:
    agree("transpose", (lead, along, far, across), dtype, target, perm=(0, 3, 2, 1))


@given(st.sampled_from((64, 100, 391)), st.sampled_from((5, 31, 130, 499)), st.integers(1, 5), st.integers(0, 20),
       st.sampled_from((0.0, 1.5)), st.sampled_from(("fp16", "fp32")), st.sampled_from(TARGETS))
@settings(max_examples=10, deadline=None)
def test_rows_padded_within_a_block(rows: int, width: int, before: int, after: int, value: float, dtype: str, target: str) -> None:
    agree("pad", (rows, width), dtype, target, before=(0, before), after=(0, after), value=value)


def test_images_are_padded_row_by_row_first() -> None:
    machine, shape = load("Ascend310P3"), (1, 64, 20, 21)
    ends = {"before": (0, 0, 1, 1), "after": (0, 0, 1, 1), "value": 0.0}
    tensors = (Tensor("x", "fp16", shape), Tensor("y", "fp16", ops.shape("pad", [shape], ends)))
    fused, _ = fuse(Graph("image", ("x",), ("y",), tensors, (OpNode("n", "pad", ("x",), ("y",), tuple(ends.items())),)), {}, machine)
    assert [n.attribute("before") for n in fused.nodes] == [(0, 0, 1, 0), (0, 0, 0, 1)]
    agree("pad", shape, "fp16", "Ascend310P3", **ends)


@pytest.mark.parametrize("op, shapes, attributes", [
    ("pad", [(1, 4, 99, 197)], {"before": (0, 0, 0, 1), "after": (0, 0, 0, 0), "value": 0.0}),
    ("concat", [(1, 2100, 2), (1, 2100, 2)], {"axis": 2}), ("concat", [(900, 4), (900, 1)], {"axis": 1}),
    ("transpose", [(1152, 8, 2, 2)], {"perm": (0, 2, 1, 3)}), ("transpose", [(1024, 3, 2)], {"perm": (1, 0, 2)}),
    ("transpose", [(144, 256, 4)], {"perm": (2, 1, 0)}), ("transpose", [(8, 144, 256, 4)], {"perm": (0, 3, 2, 1)})])
@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3"])
def test_their_time_is_near_the_bound(op: str, shapes: Shapes, attributes: dict[str, Attribute], target: str) -> None:
    """In bursts of a row each, 5 to 15 times the bound."""
    machine = load(target)
    task = task_of(op, shapes, machine, **attributes)
    p = problem(task.func, machine, task.state)
    found = start(p)
    assert found.ticks < 2.5 * p.bound().ticks and "vnchwconv" in show(p.program(found.best))


@pytest.mark.parametrize("op, shapes, attributes", [
    ("concat", [(255, 2), (255, 2)], {"axis": 1}), ("concat", [(900, 8), (900, 8)], {"axis": 1}),
    ("transpose", [(70, 7, 3, 2)], {"perm": (0, 2, 1, 3)}), ("transpose", [(70, 16, 8, 2)], {"perm": (0, 2, 1, 3)}),
    ("pad", [(20, 300)], {"before": (0, 1), "after": (0, 0), "value": 0.0}),
    ("pad", [(200, 300)], {"before": (0, 16), "after": (0, 0), "value": 0.0})])
def test_what_is_left_in_bursts(op: str, shapes: Shapes, attributes: dict[str, Attribute]) -> None:
    """Few rows, whole blocks of them, and rows that would leave within a block; padding of whole blocks."""
    task = task_of(op, shapes, load("Ascend910B3"), **attributes)
    assert "columns" not in [b.name for b in task.func.locals]


PARTS = """func f(X0: fp32[10], X1: fp32[10, 2]) -> (Y: fp32[10, 3]) {
  local C: fp32[3, 10]
  for i in 10 {
    a: C[0, i] = X0[i]
  }
  for w in 2 {
    for j in 10 {
      b: C[w + FIRST, j] = X1[j, w]
    }
  }
  for n in 10 {
    for k in 3 {
      c: Y[n, k] = C[k, n]
    }
  }
}
"""
INTO = """sched {
  split(loop=n, factor=4, outer=no, inner=ni)
  compute_at(block=b, loop=no)
  compute_at(block=a, loop=no)
  set_scope(buffer=C, scope=UB)
}
"""


def test_makers_of_parts_of_a_buffer_move_one_by_one() -> None:
    func = parse_func(PARTS.replace("FIRST", "1"))
    xs = {"X0": data((10,), "fp32"), "X1": data((10, 2), "fp32") + 100}
    done = primitives.apply(func, parse_trace(INTO))
    assert prod(int(n.value) for n in done.buffer("C").shape) == 12  # type: ignore[attr-defined]
    for f in (func, done):
        np.testing.assert_array_equal(evaluate_func(f, xs)["Y"], np.concatenate([xs["X0"][:, None], xs["X1"]], 1))


BEHIND = """func f(X: fp16[64, 32]) -> (Y: fp16[64, 34]) {
  local R: fp16[64, 32]
  local C: fp16[34, 64]
  local T: fp16[64, 34]
  for lr in 64 {
    for lj in 32 {
      load: R[lr, lj] = X[lr, lj]
    }
  }
  FIRST
  SECOND
  for br in 64 {
    for bj in 34 {
      back: T[br, bj] = C[bj, br]
    }
  }
  for sr in 64 {
    for sj in 34 {
      store: Y[sr, sj] = T[sr, sj]
    }
  }
}
"""
TURN = "for tj in 32 { for tr in 64 { turn: C[tj, tr] = R[tr, tj] } }"
END = "for ej in 2 { for er in 64 { end: C[ej + 32, er] = 1.0 } }"
PLAIN = """sched {
  set_scope(buffer=R, scope=UB)
  set_scope(buffer=C, scope=UB)
  set_scope(buffer=T, scope=UB)
  tensorize(loop=lr, instr=copy)
  tensorize(loop=tj, instr=vector)
  tensorize(loop=ej, instr=vector)
  tensorize(loop=br, instr=vector)
  tensorize(loop=sr, instr=copy)
}
"""


def test_what_lies_behind_a_turn_comes_after_it() -> None:
    """It writes whole blocks of rows: another order would be wrong, and is refused."""
    machine = load("Ascend910B3")
    right, wrong = (parse_func(BEHIND.replace("FIRST", a).replace("SECOND", b)) for a, b in ((TURN, END), (END, TURN)))
    emit(primitives.apply(right, parse_trace(PLAIN)), machine)
    with pytest.raises(UnsupportedError, match="what end writes there comes after it"):
        emit(primitives.apply(wrong, parse_trace(PLAIN)), machine)


def test_makers_of_parts_that_meet_stay() -> None:
    func = parse_func(PARTS.replace("FIRST", "0").replace("c: Y[n, k] = C[k, n]", "c: Y[n, k] = C[k % 2, n]"))
    with pytest.raises(ScheduleError, match="several writers"):
        primitives.apply(func, parse_trace(INTO))
