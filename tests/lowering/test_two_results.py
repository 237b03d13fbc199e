"""Groups with two results: elementwise work that others read too, with the norm of its rows."""
from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from aoec.base.errors import ScheduleError
from aoec.frontend.translate.onnx import load as read
from aoec.ir.func.evaluate import evaluate_func
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph
from aoec.ir.schedule import Trace
from aoec.ir.text.parse import parse_func, parse_trace
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import place_groups, tasks
from aoec.jobs.tune.order import Order
from aoec.jobs.tune.solve import attempt
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.emit.emit import emit
from aoec.lowering.lower.lower import lower, operands
from aoec.ops.run import evaluate
from aoec.primitives import apply
from aoec.search.sketches.nests import step
from aoec.simulate.values.values import execute
from aoec.target.machine import load
from tests.frontend.written import written

TEXT = """<ir_version: 8, opset_import: ["": 17]>
net (float[ROWS,WIDTH] x, float[ROWS,WIDTH] r, float[WIDTH] g, float[WIDTH] b, float[WIDTH,32] w)
    => (float[ROWS,WIDTH] y, float[ROWS,32] z) {
  h = Add(x, r) n = LayerNormalization<axis=-1>(h, g, b) z = MatMul(n, w) s = Sigmoid(h) y = Mul(h, s)
}"""


@cache
def net(rows: int, width: int, precision: str, target: str) -> tuple[Graph, dict[str, np.ndarray]]:
    random = np.random.default_rng(1)
    text = TEXT.replace("ROWS", str(rows)).replace("WIDTH", str(width))
    model = written(text, lambda name, shape: None if name in "xr" else random.normal(0, 0.5, shape).astype(np.float32))
    graph, weights, _ = read(model, {}, precision)
    return fuse(graph, weights, load(target))


def two_results(graph: Graph) -> Func:
    """The func of the group with two results."""
    (group,) = [g for g in graph.groups if len(operands(graph, g)[1]) == 2 and g.kind == "vector"]
    return lower(graph, group)


@pytest.mark.parametrize("target", ["Ascend910B3", "Ascend310P3", "Ascend950PR_957x"])
@pytest.mark.parametrize("rows, width, precision", [(40, 64, "fp16"), (7, 100, "fp16"), (33, 48, "fp32")])
def test_a_sum_and_its_norm_are_one_launch(rows: int, width: int, precision: str, target: str) -> None:
    machine = load(target)
    graph, weights = net(rows, width, precision, target)
    task = next(t for t in tasks(place_groups(graph).graph, machine) if len(t.func.outputs) == 2)
    assert parse_func(show(task.func)) == task.func
    solved = attempt(task, machine, Order(tune=False))
    assert not isinstance(solved, str), solved
    random = np.random.default_rng(3)
    feeds = {name: random.normal(0, 1, (rows, width)).astype(np.float32) for name in graph.inputs}
    values = evaluate(graph, feeds, weights, every=True)
    program = emit(apply(task.func, parse_trace(solved.default.trace)), machine)
    made = execute(program, {n: values[t] for n, t in task.bindings if n in {b.name for b in task.func.inputs}})
    for name, tensor in task.bindings:
        if name in {b.name for b in task.func.outputs}:
            near = 1e-5 if precision == "fp32" else 4e-3
            np.testing.assert_allclose(made[name].astype(np.float32), values[tensor].astype(np.float32), rtol=near, atol=near)


def test_results_of_another_shape_are_not_moved_beside() -> None:
    func = parse_func("""func f(X: fp32[4, 8]) -> (Z: fp32[8], Y: fp32[4, 8]) {
      for a in 8 {
        other: Z[a] = X[0, a]
      }
      for i in 4 {
        for j in 8 {
          out: Y[i, j] = X[i, j]
        }
      }
    }""")
    with pytest.raises(ScheduleError, match="neither around every reader"):
        apply(func, Trace((step("compute_at", block="other", loop="i"),)))


def test_a_result_is_written_beside_another_part_by_part() -> None:
    func = two_results(net(40, 64, "fp16", "Ascend910B3")[0])
    beside = next(b.name for b in func.outputs if b is not func.outputs[-1])
    block = show(func).split(f": {beside}[")[0].split()[-1]
    loop = show(func).split("  out: ")[0].split("for ")[-2].split()[0]
    moved = apply(func, Trace((step("split", loop=loop, factor=16, outer="o", inner="i"), step("compute_at", block=block, loop="o"))))
    x = np.random.default_rng(0).normal(0, 1, (40, 64)).astype(np.float16)
    given = {b.name: x if len(b.shape) == 2 else x[0] for b in func.inputs}
    for name, value in evaluate_func(func, given).items():
        np.testing.assert_array_equal(evaluate_func(moved, given)[name], value)
