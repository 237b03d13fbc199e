"""Channels that become pixels, however exporters spell it out: found, and the same as onnxruntime has it."""
from __future__ import annotations

import numpy as np
import onnx
import pytest

from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph

from .models import feeds_of, model, node, normal, operators, run

SPELT = [node("Conv", "x w b", "t"), node("Reshape", "t apart", "u"), node("Transpose", "u", "v", perm=[0, 1, 4, 2, 5, 3]),
         node("Reshape", "v image", "y")]
SHAPES = {"apart": np.array([2, 32, 2, 3, 3, 4]), "image": np.array([2, 32, 6, 12])}


def weights(channels: int) -> dict[str, np.ndarray]:
    return {"w": normal(channels, 5, 3, 3, seed=1), "b": normal(channels, seed=2)}


def same(proto: onnx.ModelProto) -> Graph:
    """The graph of a model, after its values were seen to be onnxruntime's."""
    graph, stored, _ = load(proto, precision="fp32")
    feeds = feeds_of(proto)
    for got, expected in zip(ops.evaluate(graph, feeds, stored).values(), run(proto, feeds)):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
    return graph


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
def test_depth_to_space_behind_a_convolution(mode: str) -> None:
    nodes = [node("Conv", "x w b", "t"), node("Relu", "t", "r"), node("DepthToSpace", "r", "s", blocksize=2, mode=mode),
             node("LeakyRelu", "s", "y")]
    assert operators(same(model(nodes, {"x": [2, 5, 5, 6]}, ["y"], weights(128)))) == ["conv2d", "relu", "leaky_relu", "depth_to_space"]


def test_what_a_reshape_and_a_transpose_spell_out() -> None:
    graph = same(model(SPELT, {"x": [2, 5, 5, 6]}, ["y"], weights(192) | SHAPES))
    assert operators(graph) == ["conv2d", "depth_to_space"] and graph.nodes[-1].attribute("scale") == (2, 3)


def test_channels_of_two_convolutions_in_a_row_are_ordered_apart() -> None:
    nodes = [node("Conv", "x w b", "t"), node("DepthToSpace", "t", "s", blocksize=2, mode="CRD"), node("Conv", "s v", "q"),
             node("DepthToSpace", "q", "y", blocksize=2, mode="CRD")]
    graph = same(model(nodes, {"x": [1, 5, 5, 6]}, ["y"], weights(128) | {"v": normal(128, 32, 1, 1, seed=3)}))
    assert operators(graph) == ["conv2d", "depth_to_space"] * 2


@pytest.mark.parametrize("taps, pads", [(2, 0), (4, 1), (3, 1)])
def test_phases_of_a_transposed_convolution(taps: int, pads: int) -> None:
    proto = model([node("ConvTranspose", "x w b", "y", strides=[2, 2], pads=[pads] * 4)], {"x": [2, 5, 5, 6]}, ["y"],
                  {"w": normal(5, 32, taps, taps, seed=1), "b": normal(32, seed=2)})
    assert operators(same(proto)) == ["conv2d", "depth_to_space"] + ["slice"] * bool(pads)


def test_what_lies_behind_a_transposed_convolution_has_its_bias() -> None:
    wide = node("ConvTranspose", "x w b", "y", strides=[2, 2], dilations=[4, 4], output_padding=[3, 3])
    proto = model([wide], {"x": [1, 5, 3, 4]}, ["y"],
                  {"w": normal(5, 32, 2, 2, seed=1), "b": normal(32, seed=2)})
    graph, stored, _ = load(proto, precision="fp32")
    (y,) = ops.evaluate(graph, feeds_of(proto), stored).values()
    assert "add" in operators(graph) and y.shape[2:] == (12, 14)  # onnxruntime refuses what is padded by more than a stride
    np.testing.assert_array_equal(y[:, :, -2:], np.broadcast_to(normal(32, seed=2)[None, :, None, None], (1, 32, 2, 14)))


@pytest.mark.parametrize("nodes, outputs, channels", [
    ([*SPELT, node("Neg", "t", "z")], ["y", "z"], 192),  # what the convolution gives is read otherwise, too
    ([*SPELT, node("Neg", "v", "z")], ["y", "z"], 192),
    ([node("Conv", "x w b", "t"), node("DepthToSpace", "t", "y", blocksize=2)], ["y"], 12)])  # no whole blocks
def test_others_stay(nodes: list[onnx.NodeProto], outputs: list[str], channels: int) -> None:
    assert "depth_to_space" not in operators(same(model(nodes, {"x": [2, 5, 5, 6]}, outputs, weights(channels) | SHAPES)))
