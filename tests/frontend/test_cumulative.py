"""Sums along an axis of all before: of many rows along their last axis by steps of whole rows between two transposes."""
from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.tune.tuning import problem, start
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load as load_machine

from .models import model, node, operators, run

KINDS = {np.float32: TensorProto.FLOAT, np.int32: TensorProto.INT32, np.int64: TensorProto.INT64}


@pytest.mark.parametrize("reverse, exclusive", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape, axis", [
    ((8, 9, 13), -1), ((70, 2), 1), ((7, 5), 1), ((80, 1), 1), ((19, 70), 0), ((3, 19, 8), 1), ((100,), 0)])
def test_sums_are_those_of_onnxruntime(shape: tuple[int, ...], axis: int, dtype: type, reverse: int, exclusive: int) -> None:
    kind = KINDS[dtype]
    proto = model([node("CumSum", "x a", "y", reverse=reverse, exclusive=exclusive)], {"x": shape}, ["y"], {"a": np.array(axis)},
                  types={"x": kind, "y": kind})
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(dtype)  # sums of reals are exact in any order
    graph, weights, _ = load(proto, precision="fp32")
    np.testing.assert_array_equal(ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x})[0], strict=True)
    turned = axis in (-1, len(shape) - 1) and np.prod(shape[:-1]) >= 64 and shape[-1] > 1 and dtype != np.int64
    assert ("transpose" in operators(graph)) == turned and (not turned or "concat" not in operators(graph))


@pytest.mark.parametrize("target, most_us", [("Ascend310P3", 40), ("Ascend910B3", 31)])
def test_they_take_two_launches_a_step(target: str, most_us: float) -> None:
    """64 columns of 1,024 rows took 117 us on 310P3 and 93 on 910B3 (modelled), most of it copies of a few columns."""
    proto = model([node("CumSum", "x a", "y")], {"x": (1024, 64)}, ["y"], {"a": np.array(1)})
    machine = load_machine(target)
    graph, weights, _ = load(proto)
    found = place_groups(fuse(graph, weights, machine)[0])
    problems = [problem(t.func, machine, t.state) for t in tasks(found.graph, machine, funcs=found.funcs)]
    assert not found.reasons and len(problems) == 14
    assert sum(start(p).ticks for p in problems) * machine.us_per_tick < most_us
