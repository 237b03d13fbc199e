"""Fusion keeps the values, follows its table, and stores tensors as documented."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aoec import ops
from aoec.bank.record import NAME_LIMIT
from aoec.frontend import zoo
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.draft import digest
from aoec.ir.graph.graph import Graph
from aoec.ir.text.parse import parse_graph
from aoec.ir.text.show import show
from aoec.jobs.choose.model_tasks import tasks
from aoec.lowering.arrange.fuse import MOST_NODES, fuse
from aoec.lowering.arrange.joined.results import MOST_RESULTS
from aoec.lowering.arrange.pack import blocks
from aoec.ops.words.layout import stored_shape, unpack_conv
from aoec.target import machine

from .models import model, node, normal

W = {"w": normal(16, 6, 3, 3), "v": normal(16, 16, 1, 1), "k": normal(16, 1, 1)}
X = {"x": (1, 6, 9, 8)}


def fused(nodes: list[object], constants: dict[str, np.ndarray] | None = None, inputs: dict[str, tuple[int, ...]] | None = None,
          outputs: tuple[str, ...] = ("y",), precision: str = "fp16") -> Graph:
    """The fused graph of a model, after it was seen to keep the values and to be consistent."""
    proto = model(nodes, inputs or X, outputs, constants or W)  # type: ignore[arg-type]
    graph, weights, _ = load(proto, precision=precision)
    result, stored = fuse(graph, weights)
    feeds = {name: normal(*shape) for name, shape in (inputs or X).items()}
    before, after = ops.evaluate(graph, feeds, weights), ops.evaluate(result, feeds, stored)
    for name in outputs:
        np.testing.assert_allclose(after[name].astype(np.float32), before[name].astype(np.float32), rtol=2e-3, atol=2e-3)
    consistent(result, stored)
    return result


def test_a_graph_whose_tensors_lie_in_channel_blocks_is_not_converted() -> None:
    """What a convolution between two others takes and gives; the values are those of the same graph in ND."""
    graph, weights, _ = load(model([node("Conv", "x w", "y", pads=[1, 1, 1, 1])], X, ("y",), {"w": W["w"]}), precision="fp16")
    blocked = replace(graph, tensors=tuple(replace(t, layout="NC1HWC0") if t.name in "xy" else t for t in graph.tensors))
    result, stored = fuse(blocked, weights)
    assert shape(result) == ["cube: conv2d_packed"] and len(fuse(graph, weights)[0].groups) == 3
    feeds = {"x": normal(1, 6, 9, 8)}
    after, before = ops.evaluate(result, feeds, stored)["y"], ops.evaluate(graph, feeds, weights)["y"]
    np.testing.assert_allclose(after.astype(np.float32), before.astype(np.float32), rtol=2e-3, atol=2e-3)
    consistent(result, stored)


def consistent(g: Graph, stored: dict[str, np.ndarray]) -> None:
    """Text returns; constants are stored as their tensors say; groups hold every node once, in an order in which they can run."""
    assert parse_graph(show(g)) == g
    tensors = {t.name: t for t in g.tensors}
    for name, array in stored.items():
        assert array.shape == stored_shape(tensors[name]) and digest(array) == tensors[name].data
    nodes = {n.name: n for n in g.nodes}
    made = {*g.inputs, *stored}
    for group in g.groups:
        members = [nodes.pop(name) for name in group.nodes]
        own = {o for n in members for o in n.outputs}
        assert made.issuperset(i for n in members for i in n.inputs if i not in own)
        inner = {o for n in members[:-1] for o in n.outputs}
        leave = inner & {*g.outputs, *(i for n in nodes.values() for i in n.inputs)}
        assert len(leave) < MOST_RESULTS if group.kind == "vector" else not leave
        made |= own
    assert not nodes


def shape(g: Graph) -> list[str]:
    """Each group as its kind and operators."""
    nodes = {n.name: n.op for n in g.nodes}
    return [f"{group.kind}: {' '.join(nodes[n] for n in group.nodes)}" for group in g.groups]


def test_only_relu_follows_a_cube_operator() -> None:
    conv = node("Conv", "x w", "a", pads=[1, 1, 1, 1])
    ends = ["vector: to_nc1hwc0", "vector: from_nc1hwc0"]
    assert shape(fused([conv, node("Relu", "a", "y")])) == [ends[0], "cube: conv2d_packed relu", ends[1]]
    for op, word in (("Sigmoid", "sigmoid"), ("Tanh", "tanh"), ("LeakyRelu", "leaky_relu")):
        assert shape(fused([conv, node(op, "a", "y")])) == [ends[0], "cube: conv2d_packed", f"vector: {word}", ends[1]]


def test_residual_additions_are_vector_groups_with_their_relu() -> None:
    g = fused([node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "r"), node("Conv", "r v", "b"), node("Add", "b r", "s"),
               node("Relu", "s", "t"), node("Mul", "t k", "y")])
    assert shape(g)[1:] == ["cube: conv2d_packed relu", "cube: conv2d_packed", "vector: add relu mul", "vector: from_nc1hwc0"]


def test_what_two_read_or_the_user_asks_for_is_one_more_result() -> None:
    two = [node("Relu", "x", "a"), node("Exp", "a", "b"), node("Abs", "b", "y"), node("Tanh", "a", "z")]
    assert shape(fused(two, outputs=("y", "z"))) == ["vector: relu exp abs tanh"]
    asked = [node("Relu", "x", "a"), node("Abs", "a", "y")]
    assert shape(fused(asked, outputs=("a", "y"))) == ["vector: relu abs"]
    late = [node("Relu", "x", "a"), node("Softmax", "x", "b", axis=-1), node("Add", "a b", "y")]
    assert shape(fused(late)) == ["vector: relu", "vector: softmax add"]


def test_results_in_nc1hwc0_are_converted_once_and_inputs_stay_nd() -> None:
    conv = node("Conv", "x w", "a", pads=[1, 1, 1, 1])
    nodes = [conv, node("MaxPool", "a", "y", kernel_shape=[2, 2]), node("Softmax", "y", "z", axis=-1)]
    g = fused(nodes, outputs=("a", "y", "z"))
    layouts = {t.name: t.layout for t in g.tensors}
    assert [layouts[name] for name in ("x", "a", "y", "z")] == ["ND"] * 4 and layouts["a_nc1hwc0"] == "NC1HWC0"
    assert sum(n.op == "from_nc1hwc0" and n.outputs == ("a",) for n in g.nodes) == 1


def test_padding_channels_stay_zero() -> None:
    """With 6 channels of 16, exp would fill the padding with ones, so it leaves NC1HWC0; relu and x * k need not."""
    few = {"w": normal(6, 6, 3, 3), "k": normal(6, 1, 1)}
    conv = node("Conv", "x w", "a", pads=[1, 1, 1, 1])
    assert "vector: from_nc1hwc0" in shape(fused([conv, node("Exp", "a", "b"), node("MaxPool", "b", "y", kernel_shape=[2, 2])], few))[:3]
    kept = fused([conv, node("Tanh", "a", "b"), node("Mul", "b k", "c"), node("MaxPool", "c", "y", kernel_shape=[2, 2])], few)
    assert shape(kept)[2:] == ["vector: tanh mul", "vector: max_pool", "vector: from_nc1hwc0"]
    whole = fused([conv, node("Exp", "a", "b"), node("MaxPool", "b", "y", kernel_shape=[2, 2])])
    assert shape(whole)[2:] == ["vector: exp", "vector: max_pool", "vector: from_nc1hwc0"]


def test_concat_and_flatten_in_nc1hwc0() -> None:
    g = fused([node("Conv", "x w", "a", strides=[2, 2]), node("Concat", "a a", "c", axis=1), node("GlobalAveragePool", "c", "p"),
               node("Flatten", "p", "f"), node("Gemm", "f g", "y")], {**W, "g": normal(32, 10)})
    assert shape(g)[2:] == ["vector: concat", "view: concat", "vector: global_avg_pool", "view: from_nc1hwc0", "view: reshape",
                            "cube: matmul"]  # of a tensor that is there twice one is a copy


def test_operands_of_matmul() -> None:
    nodes = [node("Transpose", "x", "t", perm=[0, 1, 3, 2]), node("MatMul", "x t", "y")]
    assert shape(fused(nodes)) == shape(fused(nodes, precision="fp32")) == ["cube: matmul"]
    nodes = [nodes[0], node("Abs", "t", "u"), node("MatMul", "x u", "y")]
    assert shape(fused(nodes)) == ["vector: abs", "cube: matmul"]  # taken before the transpose
    nodes[1] = node("Softmax", "t", "u")
    assert shape(fused(nodes)) == ["vector: transpose", "vector: softmax", "cube: matmul"]
    assert shape(fused(nodes, precision="fp32"))[2:] == ["vector: transpose", "cube: matmul"]  # MTE1 turns 16 bits only
    assert shape(fused([node("MatMul", "x m", "y")], {"m": normal(8, 5)})) == ["cube: matmul"]
    constant = fused([node("MatMul", "x m", "a"), node("Add", "a b", "y")], {"m": normal(8, 5), "b": normal(5)}, {"x": (7, 8)})
    assert shape(constant) == ["cube: matmul"]
    tensors = {t.name: t for t in constant.tensors}
    matmul = next(n for n in constant.nodes if n.op == "matmul")
    found = [(tensors[i].layout, tensors[i].shape, tensors[i].dtype) for i in matmul.inputs[1:]]
    assert found == [("ZN", (8, 5), "fp16"), ("ND", (16,), "fp32")]


def test_fp32_has_eight_channels_in_a_unit() -> None:
    g = fused([node("Conv", "x w", "y", pads=[1, 1, 1, 1])], precision="fp32")
    conv = next(n for n in g.nodes if n.op == "conv2d_packed")
    tensors = {t.name: t for t in g.tensors}
    assert conv.attribute("c0") == 8 and tensors[conv.inputs[1]].shape == (72, 16)


@pytest.mark.parametrize(("group", "each_in", "each_out", "expected"), [
    (1, 6, 5, 1), (4, 4, 16, 1), (32, 1, 1, 2), (8, 8, 16, 4), (6, 4, 4, 1), (2, 16, 16, 2)])
def test_groups_of_convolutions_are_merged(group: int, each_in: int, each_out: int, expected: int) -> None:
    w = normal(group * each_out, each_in, 3, 2)
    matrix = blocks(w, group, 16)
    assert (1 if matrix.ndim == 2 else len(matrix)) == expected
    merged = group // expected
    dense = unpack_conv(matrix, merged * each_in, (3, 2), 16)
    for co in range(group * each_out):
        at = co // each_out % merged * each_in
        np.testing.assert_array_equal(dense[co, at:at + each_in], w[co])
        assert not np.delete(dense[co], range(at, at + each_in), axis=0).any()


FEW = {"x": (2, 3, 9, 8)}


def few(c: int = 3, shape: tuple[int, ...] = (9, 8), precision: str = "fp16", **attributes: object) -> tuple[Graph, str]:
    """(the graph of a convolution of an image of c channels, the layout in which it reads it)."""
    group = attributes.get("group", 1)
    assert isinstance(group, int)
    g = fused([node("Conv", "x w", "y", pads=[1, 1, 1, 1], **attributes)], {"w": normal(6, c // group, 3, 3)}, {"x": (2, c, *shape)},
              precision=precision)
    conv = next(n for n in g.nodes if n.op == "conv2d_packed")
    return g, {t.name: t.layout for t in g.tensors}[conv.inputs[0]]


@pytest.mark.parametrize("c", [1, 3, 4])
def test_images_of_few_channels_keep_four_a_pixel(c: int) -> None:
    g, layout = few(c)
    tensors = {t.name: t for t in g.tensors}
    conv = next(n for n in g.nodes if n.op == "conv2d_packed")
    assert layout == "NC1HWC0_C04" and stored_shape(tensors[conv.inputs[0]]) == (2, 1, 9, 8, 4)
    assert conv.attribute("c0") == 4 and tensors[conv.inputs[1]].shape == (36, 6)
    assert shape(g) == ["vector: to_nc1hwc0", "cube: conv2d_packed", "vector: from_nc1hwc0"]


@pytest.mark.parametrize("why", [{"c": 5}, {"precision": "fp32"}, {"c": 2, "group": 2}, {"shape": (9, 7)}, {"shape": (3, 1028)},
                                 {"shape": (9, 12), "strides": [4, 4]}], ids=str)
def test_other_images_do_not(why: dict[str, Any]) -> None:
    """Five channels, 32 bits, groups, rows that are no whole blocks, rows of results that L0A does not hold, rows that are
    read up to a column within a block."""
    assert few(**why)[1] == "NC1HWC0"


def test_an_image_that_others_read_too_is_kept_in_both_layouts() -> None:
    """A pooling reads sixteen channels a pixel; two convolutions share theirs, and a weight that serves both kinds is packed twice."""
    pads = {"pads": [1, 1, 1, 1]}
    nodes = [node("Conv", "x w", "a", **pads), node("Conv", "x v", "b", **pads), node("MaxPool", "x", "p", kernel_shape=[3, 3], **pads),
             node("Conv", "p w", "c", **pads), node("Add", "a b", "d"), node("Add", "d c", "y")]
    g = fused(nodes, {"w": normal(6, 3, 3, 3), "v": normal(6, 3, 3, 3, seed=1)}, FEW)
    tensors = {t.name: t for t in g.tensors}
    assert sorted(tensors[n.outputs[0]].layout for n in g.nodes if n.op == "to_nc1hwc0") == ["NC1HWC0", "NC1HWC0_C04"]
    packed = [tensors[n.inputs[1]].shape for n in g.nodes if n.op == "conv2d_packed"]
    assert packed == [(36, 6), (36, 6), (144, 6)]


def test_a_constant_image_is_stored_as_it_is_read() -> None:
    graph, weights, _ = load(model([node("Conv", "x w", "y")], FEW, ("y",), {"w": normal(6, 3, 3, 3)}), precision="fp16")
    image = normal(2, 3, 9, 8).astype(np.float16)
    held = replace(graph, inputs=(), tensors=tuple(replace(t, data=digest(image)) if t.name == "x" else t for t in graph.tensors))
    result, stored = fuse(held, {**weights, "x": image})
    assert shape(result) == ["cube: conv2d_packed", "vector: from_nc1hwc0"] and (2, 1, 9, 8, 4) in {a.shape for a in stored.values()}
    after, before = ops.evaluate(result, {}, stored)["y"], ops.evaluate(graph, {"x": image}, weights)["y"]
    np.testing.assert_allclose(after.astype(np.float32), before.astype(np.float32), rtol=2e-3, atol=2e-3)


def test_whole_nets() -> None:
    for proto in (zoo.tiny_resnet(batch=2), zoo.mlp_softmax()):
        graph, weights, _ = load(proto)
        result, stored = fuse(graph, weights)
        consistent(result, stored)
        x = normal(*result.tensors[0].shape)
        name, (out,) = result.inputs[0], result.outputs
        np.testing.assert_array_equal(ops.evaluate(result, {name: x}, stored)[out], ops.evaluate(graph, {name: x}, weights)[out])


@pytest.mark.parametrize("count", [6, 7, 40])
def test_a_concat_of_many_tensors_is_made_in_parts(count: int) -> None:
    """No program joins more than there are flags from pipe to pipe."""
    rows = [f"r{i}" for i in range(count)]
    nodes = [*(node("Slice", f"x b{i} e{i} axes", r) for i, r in enumerate(rows)), node("Concat", " ".join(reversed(rows)), "y", axis=0)]
    places = {f"{name}{i}": np.array([i + at]) for i in range(count) for at, name in enumerate("be")}
    g = fused(nodes, {**places, "axes": np.array([0])}, {"x": (count, 5)})
    joins = [n for n in g.nodes if n.op == "concat"]
    assert max(len(n.inputs) for n in joins) <= 6 and len(joins) == {6: 1, 7: 2, 40: 9}[count]


def test_a_long_chain_is_groups_of_so_many_nodes() -> None:
    """What a program takes to make grows with the square of them; and what a group is called is no longer than a bank takes."""
    nodes = [node("Sigmoid" if i % 2 else "Neg", f"t{i}" if i else "x", f"t{i + 1}" if i < 149 else "y") for i in range(150)]
    g = fused(nodes, {}, {"x": (3, 5)})
    assert [len(group.nodes) for group in g.groups] == [MOST_NODES, MOST_NODES, 150 - 2 * MOST_NODES]
    labels = [t.label for t in tasks(g, machine.load())]
    assert max(map(len, labels)) <= NAME_LIMIT and labels[0].endswith("… 3x5->3x5")
