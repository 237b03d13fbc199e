"""Products of tensors quantised by their own range: what is found of them, and values against onnxruntime's."""
from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph
from aoec.lowering.arrange.fuse import fuse
from aoec.target.machine import load as load_machine

from .models import run

SHAPE, COLUMNS = (2, 40, 48), 64


def model(products: int = 1, scales: int = COLUMNS, zero: int = 0, behind: str = "") -> onnx.ModelProto:
    """Products of one tensor as onnxruntime's dynamic quantisation writes them, each with a bias, summed up. `scales`: of a weight; `zero`:
    its zero point; `behind`: what reads a result before it is summed, products ("heads") or nothing."""
    random = np.random.default_rng(5)
    constants: dict[str, np.ndarray] = {}
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"])]
    for i in range(products):
        weight = random.integers(-127, 128, (SHAPE[-1], COLUMNS)).astype(np.int8)
        constants |= {f"w{i}": weight, f"ws{i}": (random.uniform(0.001, 0.01, scales)).astype(np.float32),
                      f"wz{i}": np.full(scales, zero, np.int8), f"b{i}": random.standard_normal(COLUMNS).astype(np.float32)}
        nodes += [helper.make_node("MatMulInteger", ["q", f"w{i}", "zero", f"wz{i}"], [f"s{i}"]),
                  helper.make_node("Cast", [f"s{i}"], [f"c{i}"], to=TensorProto.FLOAT),
                  helper.make_node("Mul", ["scale", f"ws{i}"], [f"m{i}"]), helper.make_node("Mul", [f"c{i}", f"m{i}"], [f"r{i}"]),
                  helper.make_node("Add", [f"b{i}", f"r{i}"], [f"a{i}"])]
    if behind == "heads":
        nodes += [helper.make_node("Transpose", ["a1"], ["t"], perm=[0, 2, 1]), helper.make_node("MatMul", ["a0", "t"], ["y"])]
    else:
        nodes.append(helper.make_node("Sum", [f"a{i}" for i in range(products)], ["y"]))
    shape = (*SHAPE[:2], SHAPE[1] if behind else COLUMNS)
    graph = helper.make_graph(nodes, "dynamic", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def images(kind: str) -> np.ndarray:
    """Numbers of a range, in one of which 0 is not."""
    x = np.random.default_rng(6).standard_normal(SHAPE).astype(np.float32)
    return {"both signs": x, "above": np.abs(x) + 3, "below": -np.abs(x) - 2, "zeros": x * 0}[kind]


def names_of(graph: Graph) -> list[str]:
    """The operators of a graph, moves left out."""
    return [n.op for n in graph.nodes if n.op not in ("reshape", "slice", "transpose")]


@pytest.mark.parametrize("scales", [1, COLUMNS])
@pytest.mark.parametrize("kind", ["both signs", "above", "below", "zeros"])
def test_results_are_those_of_onnxruntime(kind: str, scales: int) -> None:
    proto, data = model(scales=scales), {"x": images(kind)}
    graph, weights, _ = load(proto, precision="fp32")
    assert names_of(graph) == ["range_high", "range_low", "quantise_range", "matmul", "dequantise_range", "add"]
    wanted = run(proto, data)[0]
    step = np.ptp(np.append(data["x"], 0)) / 255 * 0.01 * 127  # of the tensor, times the most that a weight is
    np.testing.assert_allclose(ops.evaluate(graph, data, weights)["y"], wanted, atol=step + 1e-5, rtol=1e-5)
    assert np.abs(ops.evaluate(graph, data, weights)["y"] - wanted).mean() < 1e-4 * max(1.0, np.abs(wanted).max())


def test_a_weight_with_a_zero_point_has_the_same_results() -> None:
    proto, data = model(zero=3), {"x": images("both signs")}
    graph, weights, _ = load(proto, precision="fp32")
    assert "dequantise_range" not in names_of(graph)
    np.testing.assert_allclose(ops.evaluate(graph, data, weights)["y"], run(proto, data)[0], atol=2e-2)


def test_products_that_products_read_are_one() -> None:
    proto, data = model(2, behind="heads"), {"x": images("both signs")}
    graph, weights, _ = load(proto, precision="fp32")
    assert names_of(graph) == ["range_high", "range_low", "quantise_range", "matmul", "dequantise_range", "add", "matmul"]
    wanted = run(proto, data)[0]
    np.testing.assert_allclose(ops.evaluate(graph, data, weights)["y"], wanted, atol=2e-3 * np.abs(wanted).max())


@pytest.mark.parametrize("precision", ["fp16", "fp32", "mixed"])
def test_a_range_is_fp32_in_every_precision(precision: str) -> None:
    graph, *_ = load(model(), precision=precision)
    made = {o for n in graph.nodes if n.op.startswith("range_") for o in n.outputs}
    made |= {n.inputs[4] for n in graph.nodes if n.op == "dequantise_range"}
    assert {t.dtype for t in graph.tensors if t.name in made} == {"fp32"}


@pytest.mark.parametrize("machine", ["Ascend910B3", "Ascend310P3", "Ascend950PR_957x"])
def test_a_range_is_known_before_a_launch_that_quantises_by_it(machine: str) -> None:
    graph, weights, _ = load(model(), precision="fp16")
    fused, _ = fuse(graph, weights, load_machine(machine))
    ops_of = {n.name: n.op for n in fused.nodes}
    groups = [[ops_of[n] for n in g.nodes] for g in fused.groups if g.kind != "view"]
    assert ["range_high", "range_low"] in groups and ["dequantise_range", "add"] in groups
    assert not any("quantise_range" in g and "range_high" in g for g in groups)
