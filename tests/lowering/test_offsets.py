"""Elements taken of rows by an index: rows come into UB whole, and the vector unit gathers there by byte offsets."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import NUMPY
from aoec.target.machine import load
from tests.lowering.test_copies import data, moved

TARGETS = ("Ascend910B3", "Ascend310P3", "Ascend950PR_958x")


@given(st.data(), st.sampled_from(("gather", "gather_elements")), st.sampled_from(("fp16", "fp32", "int32")),
       st.sampled_from(("int32", "int64")), st.sampled_from(TARGETS))
@settings(max_examples=16, deadline=None)
def test_elements_of_rows(draw: st.DataObject, op: str, dtype: str, whole: str, target: str) -> None:
    """Of rows of any length, by indices of either sign, and as few or as many of them; also where the index has fewer rows."""
    lead = tuple(draw.draw(st.lists(st.sampled_from((1, 2, 5, 21)), max_size=2)))
    width, taken = draw.draw(st.sampled_from((3, 16, 77, 300))), draw.draw(st.sampled_from((2, 16, 55, 257, 700)))
    fewer = tuple(draw.draw(st.integers(1, n)) for n in lead) if draw.draw(st.booleans()) else lead
    found = (taken,) if op == "gather" else (*fewer, taken)
    x, index = data((*lead, width), dtype), np.random.default_rng(1).integers(-width, width, found).astype(NUMPY[whole])
    got = moved(op, {"x": x, "i": index}, (dtype, whole), target, axis=len(lead))
    np.testing.assert_array_equal(got, ops.get(op).reference(x, index, axis=len(lead)))


def test_an_index_beyond_a_row_takes_the_nearest() -> None:
    x, index = data((6, 40), "fp16"), np.tile(np.array([41, -41, 3, -1, 39, 2**20]), (6, 3))
    got = moved("gather_elements", {"x": x, "i": index}, ("fp16", "int64"), axis=1)
    np.testing.assert_array_equal(got, x[:, np.tile([39, 0, 3, 39, 39, 39], 3)])


def graph_of(rows: int, width: int, taken: int, dtype: str = "fp16") -> Graph:
    """One operator that takes elements of rows."""
    tensors = (Tensor("x", dtype, (rows, width)), Tensor("i", "int64", (rows, taken)), Tensor("y", dtype, (rows, taken)))
    return Graph("taken", ("x", "i"), ("y",), tensors, (OpNode("n", "gather_elements", ("x", "i"), ("y",), (("axis", 1),)),))


@pytest.mark.parametrize("target, most", [("Ascend910B3", 2.6), ("Ascend310P3", 3.8)])
def test_their_time_is_near_the_bound(target: str, most: float) -> None:
    """DeBERTa's attention at 128 tokens, an element after the other: 39 and 70 times the bound. At 512 tokens these factors are 77 and 62,
    and now less than two. On 310P3 casts of int64 are several calls."""
    machine = load(target)
    (task,) = tasks(fuse(graph_of(12 * 128, 128, 128), {}, machine)[0], machine)
    p = problem(task.func, machine, task.state)
    found = start(p)
    least = p.bound().ticks * machine.us_per_tick
    assert least < found.ticks * machine.us_per_tick < most * least


@pytest.mark.parametrize("target, rows, width, taken, gathers", [
    ("Ascend910B3", 96, 64, 64, True), ("Ascend910A", 96, 64, 64, False), ("Ascend310B1", 96, 64, 64, False),
    ("Ascend910B3", 96, 30000, 1, False), ("Ascend910B3", 2, 40000, 40000, False)])
def test_what_is_gathered_in_ub(target: str, rows: int, width: int, taken: int, gathers: bool) -> None:
    """Where the vector unit gathers, rows fit, and not so little is taken of a row that bursts are cheaper."""
    machine = load(target)
    (task,) = tasks(fuse(graph_of(rows, width, taken), {}, machine)[0], machine)
    p = problem(task.func, machine, task.state)
    program = show(p.program(start(p).best))
    assert ("vgather" in program, "copy_gm_ub_at" in program) == (gathers, not gathers)


def test_constant_indices_are_stored_in_32_bits() -> None:
    machine, places = load("Ascend910B3"), np.arange(64)[None].repeat(96, 0)
    g = graph_of(96, 64, 64)
    tensors = tuple(t if t.name != "i" else Tensor("i", "int64", (96, 64), data="0") for t in g.tensors)
    fused, stored = fuse(Graph("taken", ("x",), ("y",), tensors, g.nodes), {"i": places}, machine)
    ((name, kept),) = stored.items()
    assert kept.dtype == np.int32 and {t.name: t.dtype for t in fused.tensors}[name] == "int32"
    np.testing.assert_array_equal(kept, places)
