"""Rows that are no whole blocks, on machines that write whole blocks alone: they are packed, taken apart and joined in UB, and ends of
longer rows are stored as blocks of their own. Values are NumPy's, no program is refused, and many cores take part."""
from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.ir.graph.graph import Attribute, Graph, OpNode, Tensor
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.made import emit_trace
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.lowering.arrange.fuse import fuse
from aoec.ops.run import NUMPY
from aoec.search.sketches.sketches import sketches
from aoec.target.legality.check import check
from aoec.target.machine import Machine, load
from tests.laws.turns import examples, in_turn
from tests.lowering.test_copies import moved
from tests.lowering.test_packed import task_of

TARGETS = ("Ascend310P3", "Ascend910A", "Ascend310")
WIDTHS = st.sampled_from((1, 2, 3, 4, 5, 7, 9, 12, 15, 16, 17, 20, 31, 33, 47, 50, 65, 131))
LEADS = st.lists(st.sampled_from((1, 2, 3, 7, 16, 40, 100, 300)), min_size=1, max_size=3).map(tuple)
DTYPES = st.sampled_from(("fp16", "fp32", "int32", "uint8", "int8", "bool"))
MOST = 60000  # elements


def values(shape: tuple[int, ...], dtype: str, first: int = 0) -> np.ndarray:
    """Elements of which no two near ones are equal, all of them numbers of the dtype."""
    return ((np.arange(first, first + prod(shape)) * 7) % {"bool": 2}.get(dtype, 127)).reshape(shape).astype(NUMPY[dtype])


def hold(op: str, shape: tuple[int, ...], dtype: str, target: str, **attributes: Attribute) -> None:
    """Raises where a result is not the reference's."""
    x = values(shape, dtype)
    np.testing.assert_array_equal(moved(op, {"x": x}, (dtype,), target, **attributes), ops.get(op).reference(x, **attributes))


@given(LEADS, WIDTHS, DTYPES, st.sampled_from(TARGETS), st.data())
@settings(max_examples=examples(12), deadline=None)
def test_moves_of_narrow_rows(lead: tuple[int, ...], width: int, dtype: str, target: str, draw: st.DataObject) -> None:
    shape = (*lead, width)
    assume(prod(shape) <= MOST)
    hold("transpose", shape, dtype, target, perm=tuple(draw.draw(st.permutations(range(len(shape))))))
    sizes = tuple(draw.draw(st.integers((n + 1) // 2, n)) for n in shape)
    starts = tuple(draw.draw(st.integers(0, n - m)) for n, m in zip(shape, sizes))
    hold("slice", shape, dtype, target, starts=starts, sizes=sizes, steps=(1,) * len(shape))


@pytest.mark.parametrize("dtype, width", [("uint8", 47), ("uint8", 300), ("fp16", 21), ("fp16", 197), ("fp32", 19), ("fp16", 7),
                                          ("fp32", 5), ("bool", 3), ("fp16", 1)])
@pytest.mark.parametrize("target", ["Ascend310P3", "Ascend910A"])
def test_each_way_out(dtype: str, width: int, target: str) -> None:
    """Rows of a slice: packed ones of one, two and four bytes an element, and ends of longer ones from either half of a block."""
    hold("slice", (600, 320), dtype, target, starts=(0, 0), sizes=(600, width), steps=(1, 1))


@given(LEADS, st.lists(WIDTHS, min_size=2, max_size=4), DTYPES, st.sampled_from(TARGETS))
@settings(max_examples=examples(12), deadline=None)
def test_concats_of_narrow_rows(lead: tuple[int, ...], widths: list[int], dtype: str, target: str) -> None:
    assume(prod(lead) * sum(widths) <= MOST)
    xs = {f"x{at}": values((*lead, w), dtype, at) for at, w in enumerate(widths)}
    got = moved("concat", xs, (dtype,) * len(xs), target, axis=len(lead))
    np.testing.assert_array_equal(got, np.concatenate(list(xs.values()), len(lead)))


def graph_of(op: str, shape: tuple[int, ...], dtype: str) -> Graph:
    """A graph of one operator, or of two where its name says so."""
    x, last = Tensor("x", dtype, shape), len(shape) - 1
    if op.startswith("reduce"):
        axes = (0,) if op.endswith("first") else (last,)
        word = op.removesuffix("_first")
        made = Tensor("y", dtype, ops.shape(word, [shape], {"axes": axes}))
        return Graph("rows", ("x",), ("y",), (x, made), (OpNode("n", word, ("x",), ("y",), (("axes", axes),)),))
    if op == "softmax":
        node = OpNode("n", "softmax", ("x",), ("y",), (("axis", last),))
        return Graph("rows", ("x",), ("y",), (x, Tensor("y", dtype, shape)), (node,))
    z, row = Tensor("z", dtype, shape), Tensor("b", dtype, (shape[-1],))
    to = {"cast": "uint8", "compare": "bool"}.get(op, dtype)
    word, read = ("greater", ("z", "x")) if op == "compare" else (op, ("z",))
    second = OpNode("n", word, read, ("y",))
    first = OpNode("m", "add", ("x", "b"), ("z",))
    return Graph("rows", ("x", "b"), ("y",), (x, row, z, Tensor("y", to, shape)), (first, second))


OPS = ("softmax", "reduce_sum", "reduce_max", "reduce_max_first", "relu", "cast", "compare")


@given(st.sampled_from(OPS), LEADS, WIDTHS, st.sampled_from(("fp16", "fp32")), st.sampled_from(TARGETS))
@settings(max_examples=examples(24), deadline=None)
def test_results_of_narrow_rows(op: str, lead: tuple[int, ...], width: int, dtype: str, target: str) -> None:
    shape = (*lead, width)
    assume(prod(shape) <= MOST and (width > 1 or op not in ("softmax", "reduce_sum", "reduce_max")) and lead[0] > 1)
    machine = load(target)
    graph, weights = fuse(graph_of(op, shape, dtype), {}, machine)
    for task in tasks(graph, machine):
        p = problem(task.func, machine, task.state)
        program = p.program(start(p).best)
        check(program, machine)
        assert verify_group(graph, task.group, program, task.bindings, weights) == []


# `make test` asks each case of one machine, in turn; make test-all asks both
@pytest.mark.parametrize("op, shape, dtype, target", in_turn([
    ("slice", (4096, 16), "fp16"), ("slice", (4096, 32), "uint8"), ("softmax", (4096, 10), "fp16"), ("softmax", (1600, 197), "fp16"),
    ("reduce_sum", (4096, 64), "fp16"), ("transpose", (3, 50176), "uint8"), ("transpose", (127, 250), "fp32")],
    ["Ascend310P3", "Ascend910A"]))
def test_such_rows_are_written_by_many_cores(op: str, shape: tuple[int, ...], dtype: str, target: str) -> None:
    machine = load(target)
    attributes = {"slice": {"starts": (0, 1), "sizes": (shape[0], 7), "steps": (1, 1)}, "softmax": {"axis": 1},
                  "reduce_sum": {"axes": (1,)}, "transpose": {"perm": (1, 0)}}[op]
    task, _ = task_of(op, shape, dtype, machine, **attributes)
    p = problem(task.func, machine, task.state)
    _, program = emit_trace(task.func, show(p.trace(start(p).best)), machine)
    check(program, machine)
    assert cores_of(show(program)) > 2


def cores_of(program: str) -> int:
    """The cores that a program's first stream takes."""
    found = re.search(r"grid \[([^\]]*)\]", program)
    return prod(int(n) for n in re.findall(r" in (\d+)", found.group(1))) if found else 0


def ways(op: str, shape: tuple[int, ...], dtype: str, machine: Machine, **attributes: object) -> set[str]:
    """The primitives of all sketches of an operator."""
    task, _ = task_of(op, shape, dtype, machine, **attributes)  # type: ignore[arg-type]
    return {s.primitive for trace in sketches(task.func, machine) for s in trace.steps}


def test_only_such_machines_have_these_ways() -> None:
    for target in ("Ascend910B3", "Ascend950PR_958x", "Ascend310B1"):
        assert not {"end_blocks", "unpack", "join_rows"} & ways("softmax", (4096, 21), "fp16", load(target), axis=1)
    found = ways("softmax", (4096, 21), "fp16", load("Ascend910A"), axis=1)
    assert {"end_blocks", "unpack", "pack"} <= found
    assert not {"end_blocks", "unpack", "pack"} & ways("softmax", (4096, 32), "fp16", load("Ascend910A"), axis=1)  # whole blocks


@pytest.mark.parametrize("target, most_us", [("Ascend310P3", 12), ("Ascend910A", 9)])
def test_parts_of_rows_are_no_longer_stored_by_one_core(target: str, most_us: float) -> None:
    """Rows of 50, 14 and 1 elements: 2,102 and 2,228 us, of one core."""
    machine = load(target)
    tensors = [Tensor(f"x{w}", "fp16", (2048, w)) for w in (50, 14, 1)]
    names = tuple(t.name for t in tensors)
    node = OpNode("n", "concat", names, ("y",), (("axis", 1),))
    graph = Graph("rows", names, ("y",), (*tensors, Tensor("y", "fp16", (2048, 65))), (node,))
    (task,) = tasks(fuse(graph, {}, machine)[0], machine)
    p = problem(task.func, machine, task.state)
    assert start(p).ticks * machine.us_per_tick < most_us
    assert cores_of(show(p.program(start(p).best))) > 4
