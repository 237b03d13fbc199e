"""Padding that an exporter wrote apart is done by the window that reads it, where that is the same; onnxruntime says what it is."""
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aoec import ops
from aoec.frontend.translate.onnx import load
from aoec.ir.graph.graph import Graph

from .models import model, node, normal, operators, run

SHAPE = (1, 2, 7, 6)
LOWEST = np.finfo(np.float32).min  # what onnxruntime has for -inf where a window sees nothing but padding


def same(op: str, around: list[int], value: float | None = 0.0, shape: tuple[int, ...] = SHAPE, more: bool = False,
         **window: object) -> Graph:
    """The graph of Pad and one window, after its values were seen to be onnxruntime's; `more`: the padded image is a result too."""
    inputs = {"Conv": "p w"}.get(op, "p")
    constants = {"pads": np.array(around), "w": normal(3, shape[1], *[3] * (len(shape) - 2))}
    pad = node("Pad", "x pads", "p") if value is None else node("Pad", "x pads value", "p")
    proto = model([pad, node(op, inputs, "y", **window)], {"x": shape}, ["y", "p"] if more else ["y"],
                  {**constants, "value": np.float32(value or 0)})
    graph, weights, _ = load(proto, precision="fp32")
    x = normal(*shape, seed=3)
    for got, expected in zip(ops.evaluate(graph, {"x": x}, weights).values(), run(proto, {"x": x}, as_it_is=True)):
        np.testing.assert_allclose(got.clip(LOWEST), expected.clip(LOWEST), rtol=1e-5, atol=1e-5)
    return graph


@given(st.data(), st.sampled_from(("Conv", "MaxPool", "AveragePool")))
@settings(max_examples=30)
def test_pads_of_all_sides_add_up(draw: st.DataObject, op: str) -> None:
    """Folded as far as the kernel of three, dilated perhaps, reaches over them; else left where they are."""
    apart, own = ([draw.draw(st.integers(0, 2)) for _ in range(4)] for _ in range(2))
    spread = 1 if op == "AveragePool" else draw.draw(st.integers(1, 2))  # onnxruntime has no dilated averages in this version
    window: dict[str, object] = {"strides": [draw.draw(st.integers(1, 2)) for _ in range(2)], "pads": own}
    if op != "Conv":
        window["kernel_shape"] = [3, 3]
    if op == "AveragePool":
        window["count_include_pad"] = draw.draw(st.integers(0, 1))
    else:
        window["dilations"] = [spread, spread]
    graph = same(op, [0, 0, *apart[:2], 0, 0, *apart[2:]], -np.inf if op == "MaxPool" else 0.0, **window)
    fits = all(a + b <= 2 * spread for a, b in zip(apart, own)) or not any(apart)
    assert ("pad" not in operators(graph)) == fits


def test_a_line_is_padded_by_its_convolution() -> None:
    graph = same("Conv", [0, 0, 2, 0, 0, 0], shape=(1, 2, 9))
    assert operators(graph) == ["reshape", "conv2d", "reshape"]
    assert graph.nodes[1].attribute("pad") == (0, 2, 0, 0)


@pytest.mark.parametrize("op, pads, value", [
    ("Conv", [0, 0, 1, 1, 0, 0, 1, 1], 0.5), ("MaxPool", [0, 0, 1, 1, 0, 0, 1, 1], 0.0), ("AveragePool", [0, 0, 1, 1, 0, 0, 1, 1], -np.inf),
    ("Conv", [0, 0, 3, 0, 0, 0, 0, 0], 0.0), ("MaxPool", [1, 0, 1, 1, 0, 0, 1, 1], -np.inf)])
def test_other_padding_stays(op: str, pads: list[int], value: float) -> None:
    """Of other numbers than the window's own pads are, wider than its reach, of images in number."""
    assert "pad" in operators(same(op, pads, value, **({} if op == "Conv" else {"kernel_shape": [3, 3]})))  # type: ignore[arg-type]


def test_an_image_that_others_read_is_still_padded() -> None:
    graph = same("Conv", [0, 0, 1, 1, 0, 0, 1, 1], more=True)
    assert sorted(operators(graph)) == ["conv2d", "pad"] and graph.nodes[-1].inputs[0] == "x"


def test_padding_and_slices_that_change_nothing_go() -> None:
    proto = model([node("Pad", "x pads", "p"), node("Slice", "p zero most", "s"), node("Expand", "s one", "e"), node("Relu", "e", "y")],
                  {"x": (3, 4)}, ["y"], {"pads": np.zeros(4, int), "zero": np.array([0]), "most": np.array([9]), "one": np.array([1])})
    assert operators(load(proto)[0]) == ["relu"]
    flipped = model([node("Slice", "x end start zero back", "y")], {"x": (4,)}, ["y"],
                    {"end": np.array([-1]), "start": np.array([-9]), "zero": np.array([0]), "back": np.array([-1])})
    assert operators(load(flipped)[0]) == ["slice"]
