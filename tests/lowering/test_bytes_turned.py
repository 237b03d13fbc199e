"""Bytes are turned by halves of blocks, sixteen rows at a time: values are NumPy's on every family, times a fraction of bursts'."""
from __future__ import annotations

import copy

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from aoec.jobs.choose.model_tasks import tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.jobs.verify.verify import verify_group
from aoec.ops.run import evaluate
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.test_turned_moves import FAMILIES, fused, repeat, transpose

INT8, UINT8, BOOL = TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL
SHAPES = [((5, 37), (1, 0), UINT8), ((33, 17), (1, 0), BOOL), ((2, 100, 48), (0, 2, 1), INT8), ((3, 50, 7, 70), (0, 3, 1, 2), UINT8),
          ((2, 3, 64, 65), (1, 3, 0, 2), INT8), ((16, 16), (1, 0), INT8), ((4, 1, 9), (2, 1, 0), INT8), ((2, 16, 15), (0, 2, 1), INT8),
          ((24, 20, 3), (2, 0, 1), UINT8), ((3, 24, 20), (1, 2, 0), UINT8)]


def of(proto: onnx.ModelProto, dtype: int) -> onnx.ModelProto:
    """The model with inputs and results of that type."""
    made = copy.deepcopy(proto)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.elem_type = dtype
    return made


def total_us(proto: onnx.ModelProto, target: str) -> float:
    """µs of all groups by default schedules, modelled."""
    machine = load(target)
    problems = [problem(t.func, machine, t.state) for t in tasks(fused(proto, target)[0], machine)]
    return sum(start(p).ticks for p in problems) * machine.us_per_tick


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("shape, perm, dtype", SHAPES)
def test_programs_turn_them(shape: tuple[int, ...], perm: tuple[int, ...], dtype: int, target: str) -> None:
    graph, weights = fused(of(transpose(shape, perm), dtype), target)
    machine = load(target)
    x = np.arange(np.prod(shape)).reshape(shape).astype({INT8: np.int8, UINT8: np.uint8, BOOL: np.bool_}[dtype])
    np.testing.assert_array_equal(evaluate(graph, {"x": x}, weights)["y"], x.transpose(perm))
    for task in tasks(graph, machine):
        p = problem(task.func, machine, task.state)
        program = p.program(start(p).best)
        check(program, machine)
        assert verify_group(graph, task.group, program, task.bindings, weights) == []


@pytest.mark.parametrize("proto, target, most_us", [  # bursts: 493, 128, 169, 97, 3,832; a gather of single bytes 2,941, 375
    (transpose((1024, 768), (1, 0)), "Ascend310P3", 10), (transpose((1, 64, 56, 56), (0, 2, 3, 1)), "Ascend310P3", 6),
    (transpose((3, 224, 224), (1, 2, 0)), "Ascend310P3", 4), (transpose((224, 224, 3), (2, 0, 1)), "Ascend310P3", 4),
    (transpose((1024, 512, 2), (1, 0, 2)), "Ascend310P3", 24), (transpose((1024, 768), (1, 0)), "Ascend910B3", 6),
    (repeat((1, 128, 40, 40), [1, 1, 2, 2]), "Ascend310P3", 80), (repeat((1, 128, 40, 40), [1, 1, 2, 2]), "Ascend910B3", 40)])
def test_they_are_faster(proto: onnx.ModelProto, target: str, most_us: float) -> None:
    assert total_us(of(proto, UINT8), target) < most_us


@pytest.mark.parametrize("shape, nodes", [((512, 128, 3), 2), ((1024, 512, 8), 1)])
def test_short_rows_of_bytes_are_turned_where_they_are_very_short(shape: tuple[int, ...], nodes: int) -> None:
    graph, _ = fused(of(transpose(shape, (1, 0, 2)), UINT8), "Ascend310P3")
    assert len([n for n in graph.nodes if n.op == "transpose"]) == nodes
