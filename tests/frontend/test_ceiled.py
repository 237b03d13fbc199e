"""Pools of ceil_mode, whatever operator set they are of: windows that begin behind the tensor are dropped, as onnxruntime has it."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.frontend.translate.onnx import load

from .models import model, node, normal, operators, run

LOWEST = np.finfo(np.float32).min  # what onnxruntime has for -inf where a window sees nothing but padding
SETS = (11, 13, 17, 18, 19, 21, 22)


def same(op: str, size: tuple[int, ...], opset: int, **window: object) -> list[str]:
    """The operators of a graph of one pool, after its values were seen to be onnxruntime's."""
    proto = model([node(op, "x", "y", ceil_mode=1, **window)], {"x": (1, 2, *size)}, ["y"], opset=opset)
    graph, weights, _ = load(proto, precision="fp32")
    x = normal(1, 2, *size, seed=3)
    got, (expected,) = ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x}, as_it_is=True)
    np.testing.assert_allclose(got.clip(LOWEST), expected.clip(LOWEST), rtol=1e-5, atol=1e-5, strict=True)
    return operators(graph)


@given(st.data(), st.sampled_from(("AveragePool", "LpPool", "MaxPool")), st.sampled_from(SETS), st.integers(1, 3))
@settings(max_examples=150)
def test_windows_are_those_of_onnxruntime(draw: st.DataObject, op: str, opset: int, rank: int) -> None:
    def some(least: int, most: int) -> list[int]:
        return [draw.draw(st.integers(least, most)) for _ in range(rank)]
    opset = max(opset, 18) if op == "LpPool" else opset  # the first that rounds up
    spread = 2 if op == "MaxPool" or opset >= 19 or op == "LpPool" else 1
    kernel, strides, dilations = some(1, 4), some(1, 5), some(1, spread)
    before, after = ([draw.draw(st.integers(0, k - 1)) for k in kernel] for _ in range(2))
    size = tuple(max(n, d * (k - 1) + 1 - b - a) for n, d, k, b, a in zip(some(1, 9), dilations, kernel, before, after))
    window: dict[str, object] = {"kernel_shape": kernel, "strides": strides, "pads": [*before, *after]}
    if spread == 2:
        window["dilations"] = dilations
    if op == "AveragePool":
        window["count_include_pad"] = draw.draw(st.integers(0, 1))
    same(op, size, opset, **window)


@pytest.mark.parametrize("opset", SETS)
@pytest.mark.parametrize("auto_pad, size", [("VALID", (4, 7)), ("SAME_UPPER", (8, 8)), ("SAME_LOWER", (5, 9))])
def test_pads_that_a_word_states(opset: int, auto_pad: str, size: tuple[int, int]) -> None:
    for op in ("AveragePool", "MaxPool"):
        same(op, size, opset, kernel_shape=[2, 3], strides=[2, 3] if auto_pad != "VALID" else [4, 3], auto_pad=auto_pad)


def test_axes_are_pooled_apart_where_padding_counts() -> None:
    """Rows are rounded down (4 to 1 of them), columns up, and the column that the padding does not state is no element of an average."""
    window = {"kernel_shape": [2, 3], "strides": [5, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1}
    assert same("AveragePool", (4, 7), 17, **window).count("avg_pool") == 2
    assert same("AveragePool", (4, 7), 17, **window | {"count_include_pad": 0}).count("avg_pool") == 1
    assert same("AveragePool", (4, 7), 17, **window | {"strides": [5, 1]}).count("avg_pool") == 1


def test_what_follows_has_the_shape_of_the_result() -> None:
    """ONNX's inference gives another one to both of the pools, and then refuses the addition; the second tensor's shape is computed."""
    window = {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}
    nodes = [node("MaxPool", "x", "a", **window), node("Add", "a w", "b"), node("Shape", "x", "s"), node("Div", "s two", "t"),
             node("Reshape", "b t", "c"), node("AveragePool", "c", "d", **window)]
    w = normal(1, 3, 4, 4)
    proto = model(nodes, {"x": (1, 3, 8, 8)}, ["b", "d"], {"w": w, "two": np.array([1, 1, 2, 2])})
    graph, weights, _ = load(proto, precision="fp32")
    x = normal(1, 3, 8, 8, seed=4)
    got = ops.evaluate(graph, {"x": x}, weights)
    np.testing.assert_allclose(got["b"], x[:, :, ::2, ::2] + w, rtol=1e-5, strict=True)
    np.testing.assert_allclose(got["d"], got["b"][:, :, ::2, ::2], rtol=1e-5, strict=True)


def test_places_of_what_is_greatest() -> None:
    proto = model([node("MaxPool", "x", "y i", kernel_shape=[2, 2], strides=[3, 2], pads=[0, 1, 1, 1], ceil_mode=1)],
                  {"x": (1, 2, 6, 8)}, ["y", "i"], types={"i": 7})
    graph, weights, _ = load(proto, precision="fp32")
    x = normal(1, 2, 6, 8, seed=5)
    for got, expected in zip(ops.evaluate(graph, {"x": x}, weights).values(), run(proto, {"x": x}, as_it_is=True)):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("kernel, strides, more", [((3, 3), (2, 2), (1, 1)), ((2, 4), (3, 2), (2, 0)), ((1, 3), (3, 1), (1, 0))])
def test_a_transposed_convolution_that_pads_its_result_too(auto_pad: str, kernel: tuple[int, int], strides: tuple[int, int],
                                                           more: tuple[int, int]) -> None:
    """Its result is stride times its image, or the whole of it, in onnxruntime; inference adds output_padding to that."""
    window = {"strides": strides, "auto_pad": auto_pad, "output_padding": more}
    proto = model([node("Relu", "x", "r"), node("ConvTranspose", "r w", "t", **window), node("Neg", "t", "y")], {"x": (1, 3, 4, 5)}, ["y"],
                  {"w": normal(3, 2, *kernel)})
    graph, weights, _ = load(proto, precision="fp32")
    x = normal(1, 3, 4, 5, seed=3)
    got, (expected,) = ops.evaluate(graph, {"x": x}, weights)["y"], run(proto, {"x": x}, as_it_is=True)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, strict=True)
