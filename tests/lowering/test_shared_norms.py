"""Norms of few long rows, whose sums cores share: what they mean, what their programs give, and where they are chosen."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aoec.ir.graph.graph import Graph, OpNode, Tensor
from aoec.jobs.choose.alone import time_us
from aoec.jobs.choose.wide_sums import wide
from aoec.jobs.tune.tuning import problem
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.shared_norms import common_shape
from aoec.lowering.arrange.wide_sums import widen_sums
from aoec.ops.run import NUMPY, evaluate
from aoec.ops.words.layout import to_logical
from aoec.target.machine import load
from tests.laws.turns import in_turn
from tests.lowering.groups import case, legal

EPSILON = 1e-5


def norm(op: str, rows: int, width: int, dtype: str, factors: int = 0) -> Graph:
    """A norm of rows, perhaps with a scale and a bias of columns."""
    names = ("x", "scale", "bias")[:1 + factors]
    tensors = (Tensor("x", dtype, (rows, width)), *(Tensor(n, dtype, (width,)) for n in names[1:]), Tensor("y", dtype, (rows, width)))
    return Graph("norm", names, ("y",), tensors, (OpNode("n", op, names, ("y",), (("epsilon", EPSILON),)),))


def groups_of_channels(shape: tuple[int, ...], groups: int, dtype: str, behind: bool = True) -> Graph:
    """A norm of groups of channels of an image, with factors of channels and a residual behind, or none of these."""
    batch, channels, *_ = shape
    rows = (batch, groups, int(np.prod(shape[1:])) // groups)
    column = (channels, *[1] * len(shape[2:]))
    tensors = [Tensor("x", dtype, shape), Tensor("v", dtype, rows), Tensor("t", dtype, rows), Tensor("u", dtype, shape)]
    nodes = [OpNode("v", "reshape", ("x",), ("v",), (("shape", rows),)), OpNode("n", "layer_norm", ("v",), ("t",), (("epsilon", EPSILON),)),
             OpNode("u", "reshape", ("t",), ("u",), (("shape", shape),))]
    if not behind:
        return Graph("groups", ("x",), ("u",), tuple(tensors), tuple(nodes))
    tensors += [Tensor(n, dtype, column) for n in ("scale", "bias")] + [Tensor(n, dtype, shape) for n in ("m", "a", "y")]
    nodes += [OpNode("m", "mul", ("u", "scale"), ("m",)), OpNode("a", "add", ("m", "bias"), ("a",)), OpNode("y", "add", ("a", "x"), ("y",))]
    return Graph("groups", ("x", "scale", "bias"), ("y",), tuple(tensors), tuple(nodes))


def feeds(graph: Graph, mean: float) -> dict[str, np.ndarray]:
    """Normal numbers around a mean for x, and numbers around 1 for factors, as the graph's dtypes hold them."""
    random = np.random.default_rng(7)
    tensors = {t.name: t for t in graph.tensors}
    return {i: random.normal(mean if i == "x" else 1.0, 1.0 if i == "x" else 0.3, tensors[i].shape).astype(np.float32)
            .astype(NUMPY[tensors[i].dtype]).astype(np.float32) for i in graph.inputs}


def wanted(op: str, data: dict[str, np.ndarray], rows: tuple[int, ...]) -> np.ndarray:
    """The normalised rows in double."""
    x = data["x"].astype(np.float64).reshape(rows)
    far = x - x.mean(-1, keepdims=True) if op == "layer_norm" else x
    return far / np.sqrt((far ** 2).mean(-1, keepdims=True) + EPSILON)


def run_groups(graph: Graph, data: dict[str, np.ndarray], machine: str) -> list[np.ndarray]:
    """What a program of each group gives of the values that the groups before it should give; these values must be near. Cores share the
    terms of each sum."""
    chip = load(machine)
    fused, _ = fuse(graph, {}, chip)
    values = evaluate(fused, data, {}, every=True)
    ops, out = {n.name: n.op for n in fused.nodes}, []
    for g in (g for g in fused.groups if g.kind != "view"):
        c = case("shared", fused, g.name, values)
        p = problem(c.func, chip)
        shared = [i for i, sketch in enumerate(p.sketches) if any(s.primitive == "add_parts" for s in sketch.trace.steps)]
        assert bool(shared) == ("reduce_sum" in [ops[n] for n in g.nodes])
        for candidate in [q for i in shared for q in legal(p, i, 3)] or p.some()[:1]:
            out.append(to_logical(c.run(p.program(candidate)).reshape(-1)[:c.wanted.size], c.result))
            error = np.abs(out[-1].astype(np.float64) - c.wanted.astype(np.float64)).max()
            assert error <= (2e-3 if c.result.dtype == "fp16" else 2e-5) * max(1.0, np.abs(c.wanted.astype(np.float64)).max()), g
    return out


NORMS = [("layer_norm", 2, 100.0), ("layer_norm", 0, 0.0), ("rms_norm", 1, 0.0)]


# `make test` asks each norm in each dtype of one machine, in turn, and each shape below of one dtype; make test-all asks all
@pytest.mark.parametrize("op, factors, mean, dtype, machine", in_turn([(*n, d) for n in NORMS for d in ("fp16", "fp32")],
                                                                      ["Ascend910B3", "Ascend310P3"]))
def test_programs_of_a_split_norm(op: str, factors: int, mean: float, dtype: str, machine: str) -> None:
    """Rows of an odd length, and a mean a hundred deviations from 0: as near as rows that one core has."""
    graph = norm(op, 3, 3001, dtype, factors)
    data = feeds(graph, mean)
    split = widen_sums(graph, ("n",))
    assert [n.op for n in split.nodes].count("reduce_sum") == (2 if op == "layer_norm" else 1)
    got = run_groups(split, data, machine)[-1]
    exact = wanted(op, data, (3, 3001)) * data.get("scale", 1.0) + data.get("bias", 0.0)
    assert np.abs(got - exact).max() <= (5e-3 if dtype == "fp16" else 5e-5)


def test_squares_are_summed_of_differences() -> None:
    """A variance as a difference of large means would have no digit left: of 1 at 4,000, it would be a few eighths off."""
    graph = norm("layer_norm", 2, 20_000, "fp32")
    data = feeds(graph, 4000.0)
    got = evaluate(widen_sums(graph, ("n",)), data, {})["y"]
    assert np.abs(got - wanted("layer_norm", data, (2, 20_000))).max() < 3e-3


@pytest.mark.parametrize("shape, groups, dtype", in_turn([((1, 6, 31, 7), 2), ((2, 8, 12, 16), 4), ((1, 5, 301), 5)], ["fp16", "fp32"]))
def test_what_follows_a_view_joins(shape: tuple[int, ...], groups: int, dtype: str) -> None:
    graph = groups_of_channels(shape, groups, dtype)
    split = widen_sums(graph, ("n",))
    fused, _ = fuse(split, {}, load("Ascend910B3"))
    ops = {n.name: n.op for n in fused.nodes}
    assert [tuple(ops[n] for n in g.nodes) for g in fused.groups if g.kind != "view"] == [
        ("reduce_sum",), ("axpy", "mul", "reduce_sum"), ("axpy", "over_root", "mul", "add", "add")]
    data = feeds(graph, 10.0)
    run_groups(split, data, "Ascend910B3")
    scale, bias = data["scale"], data["bias"]
    exact = wanted("layer_norm", data, (shape[0], groups, -1)).reshape(shape) * scale + bias + data["x"]
    got = evaluate(split, data, {})["y"]
    assert got.shape == shape and np.abs(got - exact).max() <= (2e-2 if dtype == "fp16" else 2e-5)


def test_a_view_of_which_nothing_is_made_stays() -> None:
    graph = groups_of_channels((1, 6, 31, 7), 2, "fp32", behind=False)
    split = widen_sums(graph, ("n",))
    assert [n.name for n in split.nodes][-1] == "u" and {t.name for t in split.tensors} >= {"t", "u"}
    other = groups_of_channels((1, 6, 31, 7), 2, "fp32")
    two_readers = replace(other, outputs=("y", "u"))
    assert [n.op for n in widen_sums(two_readers, ("n",)).nodes][-5:] == ["over_root", "reshape", "mul", "add", "add"]


@pytest.mark.parametrize("a, b, common", [((1, 4, 72), (1, 8, 3, 12), (4, 2, 3, 12)), ((6,), (2, 3), (2, 3)), ((4, 6), (6, 4), None),
                                          ((2, 3), (2, 3), (2, 3)), ((1, 1), (1,), ())])
def test_common_shapes(a: tuple[int, ...], b: tuple[int, ...], common: tuple[int, ...] | None) -> None:
    assert common_shape(a, b) == common


@pytest.mark.parametrize("machine", [pytest.param("Ascend910B3", marks=pytest.mark.slow), "Ascend310P3"])
def test_norms_are_split_where_that_pays(machine: str) -> None:
    """Four rows of 73,728 elements are, rows of a transformer are not, and as many long rows as cores are where that is faster."""
    chip = load(machine)
    long, short, many = norm("layer_norm", 4, 73_728, "fp32"), norm("layer_norm", 1, 4096, "fp32"), norm("layer_norm", 48, 18_432, "fp32")
    assert [n.op for n in wide(long, chip).nodes] == ["reduce_sum", "axpy", "mul", "reduce_sum", "axpy", "over_root"]
    assert wide(short, chip) == short
    split = widen_sums(many, ("n",))
    assert wide(many, chip) == (split if time_us(split, chip) < time_us(many, chip) else many)


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_a_mean_of_few_long_rows(dtype: str) -> None:
    def mean(width: int) -> Graph:
        tensors = (Tensor("x", dtype, (4, width)), Tensor("y", dtype, (4, 1)))
        return Graph("mean", ("x",), ("y",), tensors, (OpNode("n", "reduce_mean", ("x",), ("y",), (("axes", (1,)),)),))
    chip = load("Ascend910B3")
    assert [n.op for n in wide(mean(200_000), chip).nodes] == ["reduce_sum", "muls"] and wide(mean(500), chip) == mean(500)
    graph = mean(3001)
    data = feeds(graph, 100.0)
    got = run_groups(widen_sums(graph, ("n",)), data, "Ascend910B3")[-1]
    assert np.abs(got - data["x"].astype(np.float64).mean(1, keepdims=True)).max() <= (0.04 if dtype == "fp16" else 1e-4)
