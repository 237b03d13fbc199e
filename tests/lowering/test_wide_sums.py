"""Sums that are shared over cores are kept in fp32: their parts are neither rounded nor beyond fp16 where the sum is not."""
from __future__ import annotations

import numpy as np
import pytest

from aoec.base.errors import ScheduleError
from aoec.ir.func.tir import Func
from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.ir.program import Program
from aoec.ir.text.parse import parse_func
from aoec.jobs.choose.wide_sums import wide
from aoec.jobs.tune.tuning import problem
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.wide_sums import widen_sums
from aoec.lowering.lower.lower import lower
from aoec.ops.run import evaluate
from aoec.primitives.add_parts import AddParts
from aoec.simulate.timing.time import zeroing_us
from aoec.target.legality.check import check
from aoec.target.machine import load
from tests.lowering.groups import case, legal

MACHINE = load("Ascend910B3")


def product(m: int, k: int, n: int, bias: str = "", dtype: str = "fp16") -> Graph:
    """x[m, k] * w[k, n], perhaps with a bias of some dtype."""
    tensors = (Tensor("x", dtype, (m, k)), Tensor("w", dtype, (k, n)), *[Tensor("b", bias, (n,))] * bool(bias), Tensor("y", dtype, (m, n)))
    inputs = tuple(t.name for t in tensors[:-1])
    return Graph("product", inputs, ("y",), tensors, (OpNode("mm", "matmul", inputs, ("y",)),))


def opposed(m: int, k: int, n: int) -> dict[str, np.ndarray]:
    """Whole numbers whose products sum up to 65,536 and more in the first half of k, and back to less than 500 in the second."""
    random = np.random.default_rng(5)
    x = random.integers(96, 128, (m, k)).astype(np.float32)
    x[:, k // 2:] = -x[:, :k // 2]
    w = np.ones((k, n), np.float32)
    w[-1] = random.integers(-1, 2, n)
    return {"x": x, "w": w, "b": random.integers(-3, 4, n).astype(np.float32)}


@pytest.mark.parametrize("bias", ["", "fp16", "fp32"])
def test_parts_may_overflow_fp16_where_the_sum_does_not(bias: str) -> None:
    shape = (16, 2048, 16)
    data = opposed(*shape)
    graph, _ = fuse(widen_sums(product(*shape, bias), ("mm",)), {}, MACHINE)
    values = evaluate(graph, data, {}, every=True)
    wanted = data["x"].astype(np.float64) @ data["w"] + (data["b"] if bias else 0)
    assert np.abs(data["x"][:, :1024].sum(1)).min() > 65504 > np.abs(wanted).max() and np.array_equal(values["y"], wanted)
    product_of, rounding = (case(g.name, graph, g.name, values) for g in graph.groups)
    p = problem(product_of.func, MACHINE)
    parts = [i for i, sketch in enumerate(p.sketches) if any(s.primitive == "add_parts" for s in sketch.trace.steps)]
    shared = [c for i in parts for c in legal(p, i, 12) if p.values(c)["sc"] <= 1024]
    for c in shared:
        check(p.program(c), MACHINE)
        assert product_of.agrees(product_of.run(p.program(c))), p.values(c)
        assert zeroing_us(p.program(c), MACHINE, {}) > 16 * 16 * 4 / MACHINE.hbm_bytes_per_cycle / MACHINE.clock_mhz
    assert shared and rounding.agrees(rounding.run(program_of(rounding.func)))


def program_of(func: Func) -> Program:
    """A legal program of a func."""
    p = problem(func, MACHINE)
    return p.program(p.some()[0])


@pytest.mark.parametrize("dtype", ["fp16", "bf16"])
def test_a_widened_sum_means_what_it_did(dtype: str) -> None:
    graph = product(9, 40, 21, dtype, dtype)
    random = np.random.default_rng(6)
    data = {t.name: random.standard_normal(t.shape).astype(np.float32) for t in graph.tensors if t.name in graph.inputs}
    wider = widen_sums(graph, ("mm",))
    assert np.array_equal(*(evaluate(g, data, {})["y"].astype(np.float32) for g in (graph, wider)))
    assert [n.op for n in wider.nodes] == ["matmul", "add"] and wider.tensors[-1].dtype == "fp32"


def test_sums_are_widened_where_that_pays() -> None:
    """A long sum of one block of results, not one that fills the cores; and not where FIXPIPE adds nothing in GM."""
    long, short = product(64, 4096, 128), product(512, 256, 512)
    assert [n.op for n in wide(long, MACHINE).nodes] == ["matmul", "cast"]
    assert wide(short, MACHINE) == short and wide(long, load("Ascend310P3")) == long


def test_a_sum_over_rows_is_shared_where_it_stays_in_fp32() -> None:
    tensors = (Tensor("x", "fp16", (4000, 64)), Tensor("y", "fp16", (1, 64)))
    graph = Graph("rows", ("x",), ("y",), tensors, (OpNode("total", "reduce_sum", ("x",), ("y",), (("axes", (0,)),)),))

    def shares(g: Graph) -> bool:
        p = problem(lower(fuse(g, {}, MACHINE)[0], "g0"), MACHINE)
        return any(s.primitive == "add_parts" for sketch in p.sketches for s in sketch.trace.steps)
    assert shares(widen_sums(graph, ("total",))) and not shares(graph)
    assert [n.op for n in wide(graph, MACHINE).nodes] == ["reduce_sum", "cast"]


def test_a_part_is_not_rounded() -> None:
    func = parse_func("""func f(A: fp32[4, 8]) -> (Y: fp16[4]) {
  local C: fp32[4]
  for k in 8 {
    for i in 4 {
      sum: C[i] += A[i, k]
    }
  }
  for o in 4 {
    out: Y[o] = fp16(C[o])
  }
}
""")
    with pytest.raises(ScheduleError, match="parts would be rounded before they are added"):
        AddParts("out", "k").apply(func)
