"""The model as CANN would run it without tuning: its groups, what stands behind them, and where there is none."""
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import aoec
from aoec.frontend import zoo
from aoec.frontend.translate import onnx as frontend
from aoec.ir.graph.graph import Graph
from aoec.jobs.stock.cover import COVERS, NOTHING, PROXY, RULE
from aoec.jobs.stock.fuse_stated import fuse_stated
from aoec.jobs.stock.stock_model import StockModel, find, stock_model
from aoec.search.stock.fusions import PRODUCTS, fusions, fusions_of, product_of
from aoec.target.machine import load


def residual() -> Graph:
    """conv, relu, conv, add of what came in, relu, max_pool."""
    weights = [numpy_helper.from_array(np.full((32, 32, 3, 3), 0.01, np.float32), f"w{i}") for i in range(2)]
    nodes = [helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
             helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Add", ["c", "x"], ["d"]),
             helper.make_node("Relu", ["d"], ["e"]), helper.make_node("MaxPool", ["e"], ["y"], kernel_shape=[2, 2], strides=[2, 2])]
    return graph_of(nodes, weights, (1, 32, 16, 16), (1, 32, 8, 8))


def block() -> Graph:
    """Queries, keys and values as three products, one head, its projection, addition and LayerNorm, then a product and Gelu's Erf."""
    weights = [numpy_helper.from_array(np.eye(64, dtype=np.float32), f"w{i}") for i in range(5)]
    weights += [numpy_helper.from_array(np.ones(64, np.float32), n) for n in ("g", "b")]
    nodes = [*[helper.make_node("MatMul", ["x", f"w{i}"], [n]) for i, n in enumerate("qkv")],
             helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "kt"], ["s"]),
             helper.make_node("Softmax", ["s"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["o"]),
             helper.make_node("MatMul", ["o", "w3"], ["z"]), helper.make_node("Add", ["z", "x"], ["r"]),
             helper.make_node("LayerNormalization", ["r", "g", "b"], ["h"]), helper.make_node("MatMul", ["h", "w4"], ["u"]),
             helper.make_node("Relu", ["u"], ["y"])]
    return graph_of(nodes, weights, (1, 32, 64), (1, 32, 64))


def graph_of(nodes: list, weights: list, given: tuple[int, ...], made: tuple[int, ...]) -> Graph:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", given), ("y", made))]
    model = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:], weights), opset_imports=[helper.make_opsetid("", 17)])
    return frontend.load(model, {}, "fp16")[0]


def operators(graph: Graph, machine: str) -> list[list[str]]:
    """The operators of each group, but for views and conversions of layouts."""
    zeros = {t.name: np.zeros(t.shape, np.float16 if t.dtype == "fp16" else np.float32) for t in graph.tensors if t.data}
    fused = fuse_stated(graph, zeros, load(machine), fusions_of(product_of(machine)))
    ops = {n.name: n.op.removesuffix("_packed") for n in fused.nodes}
    found = [[ops[n] for n in g.nodes] for g in fused.groups if g.kind != "view"]
    return [g for g in found if "nc1hwc0" not in g[0]]


@pytest.mark.parametrize("machine, groups", [
    ("Ascend910B3", [["conv2d", "relu"], ["conv2d"], ["add", "relu"], ["max_pool"]]),
    ("Ascend310P3", [["conv2d", "relu"], ["conv2d", "add", "relu"], ["max_pool"]])])
def test_convolutions_are_grouped_as_each_product_has_them(machine: str, groups: list[list[str]]) -> None:
    assert operators(residual(), machine) == groups


@pytest.mark.parametrize("machine, last", [
    ("Ascend910B3", [["matmul"], ["add", "layer_norm"], ["matmul"], ["relu"]]),
    ("Ascend310P3", [["matmul", "add"], ["layer_norm"], ["matmul", "relu"]])])
def test_attention_is_single_operators_and_its_products_are_apart(machine: str, last: list[list[str]]) -> None:
    found = operators(block(), machine)
    assert found[:3] == [["matmul"]] * 3 and ["softmax"] in found and found[-len(last):] == last
    assert not any("attention" in g or "slice" in g for g in found)


@pytest.fixture(scope="module", params=["Ascend910B3", "Ascend310P3"])
def of_block(request: pytest.FixtureRequest) -> tuple[str, StockModel]:
    machine = load(request.param)
    return request.param, find(block(), machine, product_of(machine.name), False, {})


def test_no_group_is_faster_than_its_bound_and_shares_are_all_of_the_time(of_block: tuple[str, StockModel]) -> None:
    _, found = of_block
    assert found.groups and all(g.us >= g.bound_us * (1 - 1e-9) for g in found.groups)
    assert sum(found.shares.values()) == pytest.approx(1) and tuple(found.shares) == COVERS
    assert found.latency_us <= found.sum_us == pytest.approx(sum(g.count * g.us for g in found.groups))


def test_what_is_closed_is_a_proxy(of_block: tuple[str, StockModel]) -> None:
    machine, found = of_block
    cover = {g.what.split()[0]: g.cover for g in found.groups}
    assert cover["softmax"] == PROXY and all(c == PROXY for what, c in cover.items() if what.startswith("matmul"))
    assert cover.get("add+layer_norm", RULE) == RULE and ("add+layer_norm" in cover) == (machine == "Ascend910B3")


def test_the_same_model_has_the_same_stock_and_is_looked_up_then(of_block: tuple[str, StockModel]) -> None:
    name, found = of_block
    machine = load(name)
    first, second = stock_model(block(), machine), stock_model(block(), machine)
    assert first is not None and second is not None
    assert replace(first, seconds=0.0) == found == second and second.seconds == 0.0


def test_what_has_no_rule_takes_the_default() -> None:
    machine = load("Ascend910B3")
    found = find(residual(), machine, "910B", False, {})
    (pool,) = (g for g in found.groups if g.what.startswith("max_pool"))
    assert (pool.cover, pool.rule) == (NOTHING, "") and found.shares[NOTHING] > 0


@pytest.mark.parametrize("machine", ["Ascend910A", "Ascend310B1", "Ascend950PR_957x"])
def test_products_without_public_rules_have_no_stock(machine: str) -> None:
    assert stock_model(residual(), load(machine)) is None


def test_the_table_has_a_word_and_a_source_for_each_product() -> None:
    for f in fusions():
        assert f.source and set(f.words) == set(f.listed) == set(PRODUCTS) and all(f.words.values())
        assert bool(f.steps) != bool(f.here), f"{f.pattern}: either steps to group by, or why there are none"


def report_of(folder: Path, **options: Any) -> dict[str, Any]:
    """What a compile of a small model says."""
    path = folder / "m.onnx"
    onnx.save(zoo.mlp_softmax(), path)
    return aoec.compile(path, folder / "m.aoec", bank=folder / "b.db", base="none", verify=False, **options).report


def test_a_compile_has_a_stock_time_where_it_is_asked_for(tmp_path: Path) -> None:
    said = report_of(tmp_path, stock=True)
    stock = said["stock"]
    assert stock["product"] == "910B" and stock["latency_us"] > 0 and sum(stock["shares"].values()) == pytest.approx(1)
    assert all(g["us"] >= g["bound_us"] * (1 - 1e-9) and g["cover"] in COVERS for g in stock["groups"])
    assert report_of(tmp_path)["stock"] is None  # a plain compile does not look for one
    other = report_of(tmp_path, stock=True, target="Ascend910A")
    assert other["stock"] is None and any("no stock time: CANN's rules for Ascend910A are not public" in n for n in other["notes"])


def test_a_search_has_one_unless_it_is_told_not_to(tmp_path: Path) -> None:
    assert report_of(tmp_path, tune=True, budget=1)["stock"] is not None
    assert report_of(tmp_path, tune=True, budget=1, stock=False)["stock"] is None


def test_a_gap_above_a_hundred_per_cent_has_its_reason(tmp_path: Path) -> None:
    for g in report_of(tmp_path)["groups"]:
        assert bool(g["why"]) == ((g["gap"] or 0.0) > 1.0), g
        assert not g["why"] or re.fullmatch(r"\w+ \d+%|\d+/\d+ cores|tail \d+\.\dx", g["why"]), g["why"]
