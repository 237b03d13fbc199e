"""Groups in slices: the graph keeps its meaning, its text and its checks; parts lie where they belong; what cannot be cut is refused."""
from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoec.base.errors import UnsupportedError
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph, Group, OpNode, Tensor
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import size_bytes, tasks
from aoec.jobs.choose.slices import describe_slices
from aoec.lowering.arrange.folds import OPERANDS, RESULT, exception
from aoec.lowering.arrange.fuse import fuse
from aoec.lowering.arrange.slices import Region, slice_graph
from aoec.lowering.arrange.views import places
from aoec.ops.check import check
from aoec.ops.run import evaluate
from aoec.ops.slices import nth, part_of, run_of, start_of
from aoec.ops.words.layout import pack_zn
from aoec.target.machine import load as load_machine
from tests.frontend.written import written

COUPLED = load_machine("Ascend310P3")
Net = tuple[Graph, dict[str, np.ndarray]]
IMAGES = """<ir_version: 8, opset_import: ["": 17]>
images (float[6,16,16,16] x, float[32,16,3,3] w1, float[32] b1, float[16,32,1,1] w2) => (float[6,16,16,16] y, float[6,16,1,1] z) {
  c = Conv<pads=[1,1,1,1]>(x, w1, b1) r = Relu(c) d = Conv(r, w2) a = Add(d, x) y = Relu(a) z = GlobalAveragePool(y)
}"""
ROWS = """<ir_version: 8, opset_import: ["": 17]>
rows (float[4,32,64] x, float[64,64] w1, float[64,64] w2, float[64,64] w3, float[4,1,1,32] m, int64[4] s, int64[3] t, float[64,64] w4)
    => (float[4,32,64] y) {
  q0 = MatMul(x, w1) k0 = MatMul(x, w2) v0 = MatMul(x, w3)
  q1 = Reshape(q0, s) k1 = Reshape(k0, s) v1 = Reshape(v0, s)
  q = Transpose<perm=[0,2,1,3]>(q1) k = Transpose<perm=[0,2,3,1]>(k1) v = Transpose<perm=[0,2,1,3]>(v1)
  p = MatMul(q, k) pm = Add(p, m) e = Softmax(pm) o = MatMul(e, v)
  o1 = Transpose<perm=[0,2,1,3]>(o) o2 = Reshape(o1, t) u = MatMul(o2, w4) y = Add(u, x)
}"""

TOGETHER = """<ir_version: 8, opset_import: ["": 17]>
together (float[4,32,64] x, float[64,192] w1, int64[5] h, int64 i0, int64 i1, int64 i2, int64[3] t, float[64,64] w2) => (float[4,32,64] y) {
  a = MatMul(x, w1) b = Reshape(a, h) c = Transpose<perm=[2,0,3,1,4]>(b)
  q = Gather<axis=0>(c, i0) k0 = Gather<axis=0>(c, i1) v = Gather<axis=0>(c, i2) k = Transpose<perm=[0,1,3,2]>(k0)
  p = MatMul(q, k) e = Softmax(p) o = MatMul(e, v) o1 = Transpose<perm=[0,2,1,3]>(o) o2 = Reshape(o1, t) u = MatMul(o2, w2)
  y = Add(u, x)
}"""  # queries, keys and values of all texts lie one behind the other
VIEWED = """<ir_version: 8, opset_import: ["": 17]>
viewed (float[4,32,64] x, float[64,64] w1, int64[3] v, float[32,16] w5) => (float[4,64,16] y) {
  a = MatMul(x, w1) b = Reshape(a, v) y = MatMul(b, w5)
}"""


@cache
def net(text: str, unfolded: str = "") -> Net:
    """A model, fused for coupled cores: weights are small whole numbers. `unfolded`: an attention's result, whose moves stay nodes."""
    random, shapes = np.random.default_rng(1), {"s": [4, 32, 4, 16], "t": [4, 32, 64], "v": [4, 64, 32],
                                                 "h": [4, 32, 3, 4, 16], "i0": 0, "i1": 1, "i2": 2}

    def constant(name: str, shape: list[int]) -> np.ndarray | None:
        if name in ("x", "m"):
            return None
        return np.array(shapes[name]) if name in shapes else random.integers(-1, 2, shape).astype(np.float32)

    graph, weights, _ = load(written(text, constant), {}, "fp16")
    kept = [exception(n, x) for n in graph.nodes if unfolded in n.outputs for x in (*OPERANDS["attention"], RESULT)]
    return fuse(graph, weights, COUPLED, kept)


def feeds(graph: Graph) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    return {t.name: random.integers(-2, 3, t.shape).astype(np.float32) for t in graph.tensors if t.name in graph.inputs}


@cache
def expected(text: str) -> dict[str, np.ndarray]:
    return evaluate(net(text)[0], feeds(net(text)[0]), net(text)[1])


@given(st.sampled_from([IMAGES, ROWS, TOGETHER]), st.data())
def test_a_graph_in_slices_means_what_it_meant(text: str, data: st.DataObject) -> None:
    graph, weights = net(text)
    ends = sorted(data.draw(st.lists(st.integers(0, len(graph.groups) - 1), min_size=2, max_size=2)))
    count = data.draw(st.sampled_from([2, 3, 4, 8, 16]))
    try:
        cut = slice_graph(graph, [Region(graph.groups[ends[0]].name, graph.groups[ends[1]].name, count)])
    except UnsupportedError as e:
        assert re.match("slices: (node|the part of|\\w+ of shape)", str(e))
        return
    assert parse_graph(show(cut)) == cut and len(cut.nodes) > len(graph.nodes)
    check(cut)
    made = evaluate(cut, feeds(graph), weights)
    for name, wanted in expected(text).items():
        np.testing.assert_allclose(made[name].astype(np.float32), wanted.astype(np.float32), rtol=2e-3, atol=2e-3)
    assert [t.group.kind for t in tasks(cut, COUPLED)].count("cube") > 0


@pytest.mark.parametrize("text, count", [(IMAGES, 2), (IMAGES, 3), (IMAGES, 4), (IMAGES, 5), (IMAGES, 6), (ROWS, 2), (ROWS, 3), (ROWS, 4),
                                         (TOGETHER, 2), (TOGETHER, 3), (TOGETHER, 4)])
def test_all_of_a_model_runs_in_slices_of_its_batch(text: str, count: int) -> None:
    """And the second region is found by its names when the first has been cut."""
    graph, weights = net(text)
    last = [g for g in graph.groups if g.kind == "cube"][-1]
    cut = slice_graph(graph, [Region(graph.groups[0].name, last.name, count)])
    names = [g.name for g in cut.groups]
    assert {f"{graph.groups[0].name}_{i}of{count}" for i in range(1, count + 1)} <= set(names)
    assert names.index(f"{last.name}_1of{count}") < names.index(f"{graph.groups[0].name}_2of{count}")  # slice after slice
    made = evaluate(cut, feeds(graph), weights)
    for name, wanted in expected(text).items():
        np.testing.assert_allclose(made[name].astype(np.float32), wanted.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_a_region_with_views_in_it_is_said_as_one() -> None:
    graph, _ = net(VIEWED)
    last = [g for g in graph.groups if g.kind == "cube"][-1]
    assert any(g.kind == "view" for g in graph.groups[:graph.groups.index(last)])
    (said,) = describe_slices(slice_graph(graph, [Region(graph.groups[0].name, last.name, 2)]))
    assert said.endswith(f": {graph.groups[0].name}..{last.name} in 2") and describe_slices(graph) == ()


def test_uneven_parts_keep_images_whole_and_differ_by_one() -> None:
    graph, _ = net(IMAGES)
    cut = slice_graph(graph, [Region(graph.groups[0].name, graph.groups[-1].name, 4)])
    shapes = [t.shape for i in range(1, 5) for t in cut.tensors if re.fullmatch(rf"y_{i}of4", t.name)]
    assert [s[0] for s in shapes] == [2, 2, 1, 1] and {s[1:] for s in shapes} == {(16, 16, 16)}
    (joined,) = [n for n in cut.nodes if n.op == "concat" and n.outputs == ("y",)]
    assert len(joined.inputs) == 4 and [at for _, at in (places(cut)[i] for i in joined.inputs)] == [
        2 * 16 * 16 * 16 * i for i in (0, 2, 4, 5)]


def test_rows_of_a_matrix_in_nz_are_cut_inside_a_region_alone() -> None:
    """Its fractals lie column by column, so that no rows of it lie in one run; what a slice makes for itself has a place of its own."""
    tensors = (Tensor("x", "fp16", (96, 64)), Tensor("a", "fp16", (96, 64), "NZ"), Tensor("b", "fp16", (96, 64), "NZ"),
               Tensor("w", "fp16", (64, 64), "ZN", "0" * 64), Tensor("y", "fp16", (96, 64)))
    nodes = (OpNode("one", "matmul", ("x", "w"), ("a",)), OpNode("two", "relu", ("a",), ("b",)),
             OpNode("three", "matmul", ("b", "w"), ("y",)))
    graph = Graph("rows", ("x",), ("y",), tensors, nodes, tuple(
        Group(f"g{i}", kind, (n.name,)) for i, (n, kind) in enumerate(zip(nodes, ("cube", "vector", "cube")))))
    check(graph)
    for count in (2, 3, 4):
        cut = slice_graph(graph, [Region("g0", "g2", count)])
        check(cut)
        weights = {"w": pack_zn(np.eye(64, dtype=np.float16), 16)}
        fed = {"x": np.random.default_rng(1).integers(-3, 4, (96, 64)).astype(np.float32)}
        np.testing.assert_array_equal(evaluate(cut, fed, weights)["y"], np.maximum(fed["x"], 0))
        assert [t.group.kind for t in tasks(cut, COUPLED)] == ["cube", "vector", "cube"] * count
    for first, last in (("g0", "g1"), ("g1", "g2")):
        with pytest.raises(UnsupportedError, match="does not lie in one run"):
            slice_graph(graph, [Region(first, last, 2)])


def test_attention_is_cut_by_heads_and_joined_again() -> None:
    """Parts of the two leading axes: each of four texts has four heads."""
    graph, weights = net(ROWS, "o")
    name = next(g.name for g in graph.groups if any(n.op == "attention" and n.name in g.nodes for n in graph.nodes))
    cut = slice_graph(graph, [Region(name, name, 16)])
    part = next(t for t in cut.tensors if t.name.endswith("_16of16") and len(t.shape) == 4)
    assert part.shape[:2] == (1, 1)
    assert [n.attribute("axis") for n in cut.nodes if n.op == "concat"] == [1] * 4 + [0]
    made = evaluate(cut, feeds(graph), weights)
    np.testing.assert_allclose(made["y"].astype(np.float32), expected(ROWS)["y"].astype(np.float32), rtol=2e-3, atol=2e-3)


# ---------------------------------------------------------------- where parts lie

def test_parts_lie_in_their_whole() -> None:
    graph, _ = net(IMAGES)
    convolutions = [g.name for g in graph.groups if g.kind == "cube"]
    cut = slice_graph(graph, [Region(convolutions[0], convolutions[0], 3)])
    tensors, lies = {t.name: t for t in cut.tensors}, places(cut)
    (joined,) = [n for n in cut.nodes if n.op == "concat"]
    (whole,) = joined.outputs
    each = size_bytes(tensors[whole]) // 3
    assert [lies[i] for i in joined.inputs] == [(whole, 0), (whole, each), (whole, 2 * each)]
    views = [n for n in cut.nodes if n.op == "slice"]
    assert [lies[n.outputs[0]][1] for n in views] == [i * size_bytes(tensors[views[0].outputs[0]]) for i in range(3)]


def test_what_lies_between_the_groups_of_a_slice_is_in_l2_and_what_comes_out_of_many_is_not() -> None:
    """A chain on images of 12 MB with 9 MB of L2: whole, half of what the first makes has gone when the second starts."""
    tensors = (Tensor("x", "fp16", (12, 64, 64, 128)), *(Tensor(n, "fp16", (12, 64, 64, 128)) for n in "ab"))
    nodes = (OpNode("f", "relu", ("x",), ("a",)), OpNode("g", "abs", ("a",), ("b",)))
    graph = Graph("chain", ("x",), ("b",), tensors, nodes, (Group("g0", "vector", ("f",)), Group("g1", "vector", ("g",))))
    whole = tasks(graph, COUPLED)
    assert [s for _, s in whole[1].state] == [COUPLED.l2_usable_bytes]
    parts = tasks(slice_graph(graph, [Region("g0", "g1", 6)]), COUPLED)
    bytes_each = size_bytes(tensors[0]) // 6
    assert len(parts) == 12 and len({t.func_key for t in parts}) == 2
    for first, second in zip(parts[::2], parts[1::2]):
        (source, *_), (result,) = second.func.inputs, second.func.outputs
        assert not first.state and second.state == ((source.name, bytes_each), (result.name, 17 * bytes_each))  # but x's first part


def test_a_view_that_moves_elements_is_refused() -> None:
    x, y = Tensor("x", "fp16", (4, 1024)), Tensor("y", "fp16", (4, 512))
    node = OpNode("n", "slice", ("x",), ("y",), (("starts", (0, 512)), ("sizes", (4, 512)), ("steps", (1, 1))))
    graph = Graph("g", ("x",), ("y",), (x, y), (node,), (Group("g0", "view", ("n",)),))
    with pytest.raises(UnsupportedError, match="does not lie in one run"):
        places(graph)
    joins = OpNode("n", "concat", ("x", "x"), ("y",), (("axis", 0),))
    graph = Graph("g", ("x",), ("y",), (x, Tensor("y", "fp16", (8, 1024))), (joins,), (Group("g0", "view", ("n",)),))
    with pytest.raises(UnsupportedError, match="x cannot lie in what it joins"):
        places(graph)


# ---------------------------------------------------------------- what is refused

@pytest.mark.parametrize("region, said", [
    (Region("g2", "g0", 2), "no region"), (Region("g0", "g0", 1), "no region"), (Region("g0", "g77", 2), "there is no group g77"),
    (Region("g0", "g0", 5), "no 5 equal parts"), (Region("g0", "g0", 1024), "does not begin at a multiple of|has no")])
def test_what_is_no_region_is_refused(region: Region, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        slice_graph(net(ROWS)[0], [region])


def test_rows_that_see_all_others_are_not_cut_by_rows() -> None:
    """Scores of a text need all of its keys: a slice of half a text reads more than it has made."""
    graph, _ = net(ROWS)
    with pytest.raises(UnsupportedError, match=r"reads more of|takes more than slices"):
        slice_graph(graph, [Region(graph.groups[0].name, graph.groups[-1].name, 8)])
    with pytest.raises(UnsupportedError, match="reads more of"):
        slice_graph(*rows_and_their_turn())


def rows_and_their_turn() -> tuple[Graph, list[Region]]:
    """A tensor that two read in turn: one by its rows, one by its columns."""
    tensors = (Tensor("x", "fp16", (64, 64)), *(Tensor(n, "fp16", (64, 64)) for n in "abc"))
    nodes = (node("relu", "x"), node("transpose", "a", perm=(1, 0)), node("add", "a", "b"))
    named = tuple(OpNode(n, o.op, o.inputs, (n,), o.attributes) for n, o in zip("abc", nodes))
    groups = tuple(Group(f"g{n}", "vector", (n,)) for n in "abc")
    return Graph("turn", ("x",), ("c",), tensors, named, groups), [Region("ga", "gc", 2)]


def node(op: str, *inputs: str, **attributes: int | float | tuple[int, ...]) -> OpNode:
    return OpNode("n", op, inputs, ("y",), tuple(attributes.items()))


@pytest.mark.parametrize("what, shapes, result", [
    (node("softmax", "a", axis=0), [(4, 2)], (4, 2)), (node("transpose", "a", perm=(1, 0)), [(2, 4)], (4, 2)),
    (node("matmul", "a", "b", trans_a=1), [(8, 4), (8, 2)], (4, 2)), (node("reduce_sum", "a", axes=(0,)), [(4, 2)], (1, 2)),
    (node("concat", "a", "b", axis=0), [(2, 2), (2, 2)], (4, 2)),
    (node("pad", "a", before=(1, 0), after=(1, 0), value=0.0), [(2, 2)], (4, 2)),
    (node("slice", "a", starts=(1, 0), sizes=(4, 2), steps=(1, 1)), [(8, 2)], (4, 2))])
def test_an_operator_that_mixes_an_axis_is_not_cut_along_it(what: OpNode, shapes: list[tuple[int, ...]], result: tuple[int, ...]) -> None:
    box = nth(result, 1, 2)
    assert box is not None
    part = part_of(what, shapes, result, box)
    assert part is None or part.boxes[0] != nth(shapes[0], 1, 2)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_runs_of_elements_are_boxes_and_back(shape: list[int], data: st.DataObject) -> None:
    every = np.arange(int(np.prod(shape))).reshape(shape)
    start = data.draw(st.integers(0, every.size - 1))
    count = data.draw(st.integers(1, every.size - start))
    box = run_of(tuple(shape), start, count)
    if box is not None:
        assert every[tuple(slice(at, at + n) for at, n in box)].ravel().tolist() == list(range(start, start + count))
        assert start_of(tuple(shape), box) == start
